"""Copies and changes of element type. A copy is the value itself: graph values never change."""

from typing import Any

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.promote import opmath_dtype
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

_BY_INT64 = (DType.I64, DType.U32, DType.U64)
"""What torch converts floats to by way of int64, as it does float64 to uint8."""


@lowering(
    aten.alias.default,
    aten.alias_copy.default,
    aten.detach.default,
    aten.detach_copy.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.conj_physical.default,
    aten._conj_physical.default,
    aten._conj.default,
    aten.real.default,
)
def alias(b: Builder, x: Any) -> Value:
    return x


@lowering(aten.clone.default, aten.contiguous.default)
def clone(b: Builder, x: Any, memory_format: Any = None) -> Value:
    return x


@lowering(aten._to_copy.default)
def to_copy(
    b: Builder,
    x: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Value:
    return convert_as_torch(b, x, b.out[0].dtype)


@lowering(torch.ops.prims.convert_element_type.default)
def convert_element_type(b: Builder, a: Any, dtype: torch.dtype) -> Value:
    return convert_as_torch(b, a, b.out[0].dtype)


@lowering(aten.copy.default)
def copy(b: Builder, x: Any, src: Any, non_blocking: bool = False) -> Value:
    return b.broadcast_to(convert_as_torch(b, src, b.out[0].dtype), b.out[0].shape)


def convert_as_torch(b: Builder, x: Value, dtype: DType) -> Value:
    """`x` as `dtype`; floats that no integer holds become what torch makes of them on x86.

    The processor gives the least int32 or int64 for NaN and what is out of range, and narrower
    integers are what those wrap to. `convert` saturates and has 0 for NaN.
    """
    source = opmath_dtype(x.type.dtype)
    if not source.is_float or not dtype.is_int:
        return b.convert(x, dtype)
    x = b.convert(x, source)  # float16 holds none of the ends
    is_wide = dtype in _BY_INT64 or (source, dtype) == (DType.F64, DType.U8)
    wide = DType.I64 if is_wide else DType.I32
    end = 2 ** (8 * wide.itemsize - 1)
    held = b.op("lt", x, b.lit(end, source))
    whole = b.op("select", held, b.convert(x, wide), b.lit(-end, wide))
    return _upper_half(b, x, whole) if dtype is DType.U64 else b.convert(whole, dtype)


def _upper_half(b: Builder, x: Value, whole: Value) -> Value:
    """uint64 from what int64 holds of `x`, and from 2^63 on from `x`."""
    upper, beyond = (b.op("ge", x, b.lit(2**n, x.type.dtype)) for n in (63, 64))
    large = b.op("select", beyond, b.lit(0, DType.U64), b.convert(x, DType.U64))
    return b.op("select", upper, large, b.convert(whole, DType.U64))
