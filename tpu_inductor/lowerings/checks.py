"""What eager torch refuses on the CPU: indices out of range, targets that are no class, divisors 0.

Also what Python refuses of numbers that were taken from tensors. Each function adds the check of
one family of operators, with torch's exception and words. Where the builder has no checks (TPU
targets, unless asked for) they add nothing.
"""

from collections.abc import Callable
from math import inf, prod
from typing import Any

from tpu_inductor.graph.attrs import Check
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value
from tpu_inductor.graph.types import DType

ALL_BUT_ONE = (1 << 64) - 1

_OUT_OF_BOUNDS = "index {{found}} is out of bounds for dimension {dim} with size {extent}"
_IN_SELF = "index out of range in self"


def check_wrapped(b: Builder, index: Value, dim: int, extent: int) -> None:
    """Of indexing and index_fill: `index` may count from the end."""
    words = _OUT_OF_BOUNDS.format(dim=dim, extent=extent)
    b.check(index, Check(-extent, 2 * extent, "IndexError", words))


def check_flat(b: Builder, index: Value, size: int) -> None:
    """Of take and put: `index` counts all elements, and may do so from the end."""
    words = f"out of range: tried to access index {{found}} on a tensor of {size} elements."
    b.check(index, Check(-size, 2 * size, "IndexError", words))


def check_along(b: Builder, index: Value, dim: int, extent: int) -> None:
    """Of gather and all scatters."""
    words = _OUT_OF_BOUNDS.format(dim=dim, extent=extent)
    b.check(index, Check(0, extent, "RuntimeError", words))


def check_rows(b: Builder, index: Value, extent: int) -> None:
    """Of embedding and index_reduce."""
    b.check(index, Check(0, extent, "IndexError", _IN_SELF))


def check_selected(b: Builder, index: Value, x: Value, dim: int) -> None:
    """Of index_select of `x` along `dim`, which has a loop of its own for dimension 1."""
    extent = (x.type.dims or (1,))[dim]
    if dim != 1:
        check_rows(b, index, extent)
        return
    words = f"INDICES element is out of DATA bounds, id={{found}} axis_dim={extent}"
    b.check(index, Check(0, extent, "RuntimeError", words))


def check_added(b: Builder, index: Value, x: Value, dim: int, is_scaled: bool) -> None:
    """Of index_add to `x`, which torch runs as a scatter along the first or last dimension."""
    extent = (x.type.dims or (1,))[dim]
    is_scatter = x.type.rank > 1 and dim in (0, x.type.rank - 1) and not is_scaled
    if is_scatter:
        check_along(b, index, dim, extent)
    else:
        check_rows(b, index, extent)


def check_copied(b: Builder, index: Value, dim: int, extent: int) -> None:
    """Of index_copy."""
    words = f"index_copy_(): {_OUT_OF_BOUNDS.format(dim=dim, extent=extent)}"
    b.check(index, Check(0, extent, "IndexError", words))


def check_bags(b: Builder, index: Value, offsets: Value, extent: int) -> None:
    """Of embedding_bag: rows of the table, and offsets from 0 to the number of indices."""
    words = (
        f"an index of the bags takes value {{found}} which is not in the valid range [0, {extent})"
    )
    b.check(index, Check(0, extent, "RuntimeError", words))
    count, bags = index.type.size, offsets.type.size
    words = "offsets[0] has to be 0, but got {found}"
    b.check(b.slice(offsets, 0, 0, min(bags, 1)), Check(0, 1, "RuntimeError", words))
    words = f"offsets[-1] can not be greater than input's length {count} but got {{found}}"
    last = b.slice(offsets, 0, max(bags - 1, 0), bags)
    b.check(last, Check(0, count + 1, "RuntimeError", words))


def check_classes(b: Builder, target: Value, classes: int, ignored: int) -> None:
    """Of the negative log-likelihood, whose targets may be `ignored`."""
    attrs = Check(0, classes, "IndexError", "Target {found} is out of bounds.", ignored)
    b.check(target, attrs)


def check_sorter(b: Builder, sorter: Value, extent: int) -> None:
    """Of searchsorted."""
    words = "torch.searchsorted(): sorter index out of range"
    b.check(sorter, Check(0, extent, "RuntimeError", words))


def check_source(b: Builder, wanted: Value, size: int) -> None:
    """Of masked_scatter: the number of true elements, at most the `size` of the source."""
    words = "Number of elements of source < number of ones in mask"
    b.check(wanted, Check(0, size + 1, "RuntimeError", words))


def check_unpooled(b: Builder, index: Value, plane: tuple[int, ...]) -> None:
    """Of max_unpool, whose indices count the elements of a plane of the result."""
    sizes = "x".join(map(str, plane))
    words = f"Found an invalid max index: {{found}} (output volumes are of size {sizes})"
    b.check(index, Check(0, prod(plane), "RuntimeError", words))


def check_divisor(b: Builder, divisor: Value) -> None:
    """Of quotients and remainders of integers, unless they have no elements."""
    if divisor.type.dtype.is_int and b.out[0].size and not _is_sound(divisor):
        b.check(divisor, Check(1, ALL_BUT_ONE, "RuntimeError", "ZeroDivisionError"))


def _is_sound(divisor: Value) -> bool:
    return isinstance(divisor, Lit) and divisor.value != 0


def check_number_divisor(
    b: Builder, divide: Callable[[Any, Any], Any], dividend: Value, divisor: Value
) -> None:
    """Of `divide` of Python numbers, which also raises at a float that is zero."""
    if _is_sound(divisor):
        return
    words = _zero_division(divide, dividend.type.dtype, divisor.type.dtype)
    if divisor.type.dtype is DType.I64:
        b.check(divisor, Check(1, ALL_BUT_ONE, "ZeroDivisionError", words))
    else:
        _forbid(b, b.op("eq", divisor, b.lit(0, divisor.type.dtype)), "ZeroDivisionError", words)


def _zero_division(divide: Callable[[Any, Any], Any], dividend: DType, divisor: DType) -> str:
    """What this version of Python says where it divides such a number by zero."""
    one, zero = 1.0 if dividend.is_float else 1, 0.0 if divisor.is_float else 0
    try:
        divide(one, zero)
    except ZeroDivisionError as error:
        return str(error)
    raise AssertionError("Python divides no number by zero")


def check_finite(b: Builder, number: Value) -> None:
    """Of a Python float that becomes an integer."""
    words = "cannot convert float {} to integer"
    _forbid(b, b.op("ne", number, number), "ValueError", words.format("NaN"))
    magnitude = b.op("abs", number)
    is_infinite = b.op("eq", magnitude, b.lit(inf, number.type.dtype))
    _forbid(b, is_infinite, "OverflowError", words.format("infinity"))


def check_radicand(b: Builder, number: Value) -> None:
    """Of the square root of a Python float."""
    is_negative = b.op("lt", number, b.lit(0, number.type.dtype))
    _forbid(b, is_negative, "ValueError", "math domain error")


def _forbid(b: Builder, condition: Value, error: str, words: str) -> None:
    b.check(b.convert(condition, DType.I64), Check(0, 1, error, words))
