"""The local rewrites of `simplify`: each looks at one equation and what made its operands.

A rewrite returns the value that replaces the result, a new equation for it, or None. It never
changes a bit of the result: NaN, -0.0 and rounding included.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.rounding import round_to
from tpu_inductor.graph.types import DType

Makers: TypeAlias = Mapping[Var, Eqn]
Rewrite: TypeAlias = Callable[[Eqn, Makers], Value | Eqn | None]


def _maker(value: Value, makers: Makers, prim: str) -> Eqn | None:
    """The equation that made `value`, if it is a `prim`."""
    eqn = makers.get(value) if isinstance(value, Var) else None
    return eqn if eqn is not None and eqn.prim == prim else None


def drop_identity(eqn: Eqn, makers: Makers) -> Value | None:
    """reshape(x; shape of x) --> x; likewise identity transposes, broadcasts, slices, converts."""
    if eqn.prim not in ("reshape", "transpose", "broadcast", "slice", "convert", "bitcast"):
        return None
    (x,) = eqn.inputs
    if isinstance(x, Lit) or x.type != eqn.out.type:
        return None
    if isinstance(eqn.attrs, A.Transpose) and eqn.attrs.perm != tuple(range(x.type.rank)):
        return None
    # A slice of full extent has stride 1, or at most one element per dimension.
    return x


def merge_reshapes(eqn: Eqn, makers: Makers) -> Eqn | None:
    """reshape(reshape(x; a); b) --> reshape(x; b)."""
    inner = _maker(eqn.inputs[0], makers, "reshape") if eqn.prim == "reshape" else None
    return replace(eqn, inputs=inner.inputs) if inner else None


def merge_transposes(eqn: Eqn, makers: Makers) -> Eqn | None:
    """transpose(transpose(x; p); q) --> transpose(x; p[q])."""
    inner = _maker(eqn.inputs[0], makers, "transpose") if eqn.prim == "transpose" else None
    if inner is None:
        return None
    assert isinstance(inner.attrs, A.Transpose)
    assert isinstance(eqn.attrs, A.Transpose)
    perm = tuple(inner.attrs.perm[p] for p in eqn.attrs.perm)
    return replace(eqn, inputs=inner.inputs, attrs=A.Transpose(perm))


def merge_broadcasts(eqn: Eqn, makers: Makers) -> Eqn | None:
    """broadcast(broadcast(x; dims=d); shape, dims=e) --> broadcast(x; shape, dims=e[d])."""
    inner = _maker(eqn.inputs[0], makers, "broadcast") if eqn.prim == "broadcast" else None
    if inner is None:
        return None
    assert isinstance(inner.attrs, A.Broadcast)
    assert isinstance(eqn.attrs, A.Broadcast)
    dims = tuple(eqn.attrs.dims[d] for d in inner.attrs.dims)
    return replace(eqn, inputs=inner.inputs, attrs=A.Broadcast(eqn.attrs.shape, dims))


def merge_converts(eqn: Eqn, makers: Makers) -> Eqn | None:
    """convert(convert(x:bf16; f32); bf16) --> convert(x; bf16), if the first loses nothing."""
    inner = _maker(eqn.inputs[0], makers, "convert") if eqn.prim == "convert" else None
    if inner is None:
        return None
    first, middle, last = inner.inputs[0].type.dtype, inner.out.type.dtype, eqn.out.type.dtype
    if not _holds(middle, first):
        return None
    # Out of range, float to int saturates where int to int wraps.
    if first.is_int and middle.is_float and last.is_int and last is not first:
        return None
    return replace(eqn, inputs=inner.inputs)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if narrow is DType.BOOL:
        return wide.is_int or wide in _DIGITS
    if narrow.is_int and wide.is_int:
        if narrow.is_signed_int == wide.is_signed_int:
            return wide.itemsize >= narrow.itemsize
        return wide.is_signed_int and wide.itemsize > narrow.itemsize
    if narrow.is_int:
        # Two to the number of bits must also be in range: float16 ends at 65504.
        return 8 * narrow.itemsize <= _DIGITS.get(wide, 0)
    return (wide, narrow) in _WIDER_FLOATS


_DIGITS = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}
_WIDER_FLOATS = frozenset(
    [
        (DType.F64, DType.F32),
        (DType.F64, DType.BF16),
        (DType.F64, DType.F16),
        (DType.F32, DType.BF16),
        (DType.F32, DType.F16),
    ]
)


def drop_select(eqn: Eqn, makers: Makers) -> Value | None:
    """select(p, x, x) --> x, and select(True, x, y) --> x, where x has the result's shape."""
    if eqn.prim != "select":
        return None
    pred, yes, no = eqn.inputs
    chosen: Value | None = None
    if isinstance(pred, Lit):
        chosen = yes if pred.value else no
    elif isinstance(yes, Var) and yes == no:
        chosen = yes
    return chosen if isinstance(chosen, Var) and chosen.type == eqn.out.type else None


def move_full(eqn: Eqn, makers: Makers) -> Eqn | None:
    """broadcast(full(a); b) --> full(b); likewise reshape, transpose, slice, rev and convert."""
    if eqn.prim not in ("broadcast", "reshape", "transpose", "slice", "rev", "convert"):
        return None
    constant = _constant(eqn.inputs[0], makers)
    if constant is None:
        return None
    value: float | None = constant.value
    if eqn.prim == "convert":
        held = round_to(constant.value, constant.dtype)
        value = None if held is None else round_to(held, eqn.out.type.dtype)
    if value is None:
        return None
    attrs = A.Full(eqn.out.type.shape, eqn.out.type.dtype, value)
    return replace(eqn, prim="full", inputs=(), attrs=attrs)


def _constant(value: Value, makers: Makers) -> Lit | None:
    """The one value that all elements of `value` have."""
    if isinstance(value, Lit):
        return value
    full = _maker(value, makers, "full")
    if full is None:
        return None
    assert isinstance(full.attrs, A.Full)
    return Lit(full.attrs.value, full.attrs.dtype)


def inline_full(eqn: Eqn, makers: Makers) -> Eqn | None:
    """mul(x, full(2.0)) --> mul(x, 2.0), if the result keeps the shape of another operand."""
    if PRIMS[eqn.prim].kind is not Kind.POINTWISE:
        return None
    constants = [_constant(v, makers) for v in eqn.inputs]
    pairs = list(zip(eqn.inputs, constants, strict=True))
    shaped = any(c is None and v.type.shape == eqn.out.type.shape for v, c in pairs)
    inputs = tuple(v if c is None else c for v, c in pairs)
    if not shaped or all(new is old for new, old in zip(inputs, eqn.inputs, strict=True)):
        return None
    return replace(eqn, inputs=inputs)


def inline_pad_value(eqn: Eqn, makers: Makers) -> Eqn | None:
    """pad(x, full(; value=0.0)) --> pad(x, 0.0)."""
    if eqn.prim != "pad" or isinstance(eqn.inputs[1], Lit):
        return None
    constant = _constant(eqn.inputs[1], makers)
    return replace(eqn, inputs=(eqn.inputs[0], constant)) if constant else None


REWRITES: tuple[Rewrite, ...] = (
    drop_identity,
    merge_reshapes,
    merge_transposes,
    merge_broadcasts,
    merge_converts,
    drop_select,
    move_full,
    inline_full,
    inline_pad_value,
)
"""In the order in which they are tried, until none applies."""
