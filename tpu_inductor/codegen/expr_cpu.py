"""Spellings for XLA:CPU alone, of what it runs slowly as it stands.

    conv(x, w; groups=channels)    ->  lax.fori_loop(...), which sums shifted x * weight

XLA:CPU runs a convolution of one channel per group ten times slower than this. Other targets keep
the convolution: their compilers know what to do with it.
"""

import math
from collections.abc import Sequence

from tpu_inductor.codegen.expr import spell
from tpu_inductor.codegen.expr_literal import HALF, dtype_text, ints
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.types import DType

_DTYPES = (DType.F32, DType.F64, *HALF)

MAX_TAPS = 64
"""Larger windows would make the program long."""


def spell_for_cpu(eqn: Eqn, operands: Sequence[str]) -> str:
    """The expression of `eqn` over `operands`, as `spell` gives it where it is as fast."""
    return _depthwise(eqn, operands) if _is_depthwise(eqn) else spell(eqn, operands)


def _is_depthwise(eqn: Eqn) -> bool:
    if not isinstance(eqn.attrs, A.Conv) or eqn.out.type.dtype not in _DTYPES:
        return False
    channels, (out, per_group, *window) = eqn.inputs[0].type.dims[1], eqn.inputs[1].type.dims
    taps = math.prod(window)
    is_dilated = any(d != 1 for d in eqn.attrs.lhs_dilation)
    is_small = taps <= MAX_TAPS and 0 not in eqn.out.type.dims and taps > 0
    return is_small and not is_dilated and per_group == 1 and eqn.attrs.groups == channels == out


def _depthwise(eqn: Eqn, operands: Sequence[str]) -> str:
    """A loop over the rows of the window, whose body adds the taps of one row.

    Without the loop XLA would compute every tap anew in each fusion that reads the result.
    """
    attrs, (x, w), dtype = eqn.attrs, operands, eqn.out.type.dtype
    assert isinstance(attrs, A.Conv)
    channels, window = eqn.out.type.dims[1], eqn.inputs[1].type.dims[2:]
    acc = dtype_text(DType.F32 if dtype in HALF else dtype)
    wide = f".astype({acc})" if dtype in HALF else ""
    edges = ((0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in attrs.padding))
    padded = f"lax.pad({x}{wide}, {acc}(0), {edges})"
    weights = f"{w}{wide}.reshape({ints((1, channels, *window))})"
    row = f"lax.dynamic_slice_in_dim(x, i0 * {attrs.rhs_dilation[0]}, {_spans(eqn)[0]}, 2)"
    body = f"acc + (lambda x, w: {_row_of_taps(eqn)})({row}, lax.dynamic_slice_in_dim(w, i0, 1, 2))"
    start = f"jnp.zeros({eqn.out.type.dims}, {acc})"
    loop = f"lax.fori_loop(0, {window[0]}, lambda i0, acc: {body}, {start})"
    text = f"(lambda x, w: {loop})({padded}, {weights})"
    return f"{text}.astype({dtype_text(dtype)})" if dtype in HALF else text


def _row_of_taps(eqn: Eqn) -> str:
    """The sum of `x`, shifted, times a weight, over one row of the window."""
    attrs = eqn.attrs
    assert isinstance(attrs, A.Conv)
    batch, channels = eqn.out.type.dims[:2]
    rest = eqn.inputs[1].type.dims[3:]
    places = ["0", *(f"i{d + 1}" for d in range(len(rest)))]
    starts = [f"{i} * {n}" for i, n in zip(places, attrs.rhs_dilation, strict=True)]
    limits = [f"{start} + {span}" for start, span in zip(starts, _spans(eqn), strict=True)]
    shifted = (
        f"lax.slice(x, (0, 0, {', '.join(starts)}), ({batch}, {channels}, {', '.join(limits)}), "
        f"{ints((1, 1, *attrs.strides))})"
    )
    # Not `w[:, 0, i0]`: jnp takes milliseconds to trace each indexing.
    ends = ", ".join(f"{i} + 1" for i in places)
    weight = f"lax.slice(w, (0, 0, {', '.join(places)}), (1, {channels}, {ends}))"
    loops = " ".join(f"for {i} in range({n})" for i, n in zip(places[1:], rest, strict=True))
    return f"sum({shifted} * {weight} {loops})" if loops else f"{shifted} * {weight}"


def _spans(eqn: Eqn) -> list[int]:
    """How far a tap reaches over the input, in each spatial dimension."""
    assert isinstance(eqn.attrs, A.Conv)
    pairs = zip(eqn.out.type.dims[2:], eqn.attrs.strides, strict=True)
    return [(size - 1) * stride + 1 for size, stride in pairs]
