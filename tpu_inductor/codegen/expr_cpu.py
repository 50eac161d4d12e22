"""Spellings for XLA:CPU alone, of what it runs slowly as it stands.

    conv(x, w; groups=channels)    ->  a sum of shifted x * weight, one fused loop

XLA:CPU runs a convolution of one channel per group ten times slower than this; XLA:TPU does not.
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
    attrs, (x, w), dtype = eqn.attrs, operands, eqn.out.type.dtype
    assert isinstance(attrs, A.Conv)
    batch, channels, *sizes = eqn.out.type.dims
    window = eqn.inputs[1].type.dims[2:]
    places = [f"i{d}" for d in range(len(window))]
    starts = [_scaled(i, n) for i, n in zip(places, attrs.rhs_dilation, strict=True)]
    spans = [(n - 1) * stride + 1 for n, stride in zip(sizes, attrs.strides, strict=True)]
    limits = [f"{start} + {span}" for start, span in zip(starts, spans, strict=True)]
    strides = f", {ints((1, 1, *attrs.strides))}" if any(s != 1 for s in attrs.strides) else ""
    shifted = (
        f"lax.slice(x, (0, 0, {', '.join(starts)}), ({batch}, {channels}, {', '.join(limits)})"
        f"{strides})"
    )
    weight = f"w[:, 0, {', '.join(places)}].reshape({ints((channels, *(1 for _ in window)))})"
    loops = " ".join(f"for {i} in range({n})" for i, n in zip(places, window, strict=True))
    acc = DType.F32 if dtype in HALF else dtype
    wide = f".astype({dtype_text(acc)})" if dtype in HALF else ""
    edges = ((0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in attrs.padding))
    padded = f"lax.pad({x}{wide}, {dtype_text(acc)}(0), {edges})"
    text = f"(lambda x, w: sum({shifted} * {weight} {loops}))({padded}, {w}{wide})"
    return f"{text}.astype({dtype_text(dtype)})" if dtype in HALF else text


def _scaled(name: str, factor: int) -> str:
    return name if factor == 1 else f"{name} * {factor}"
