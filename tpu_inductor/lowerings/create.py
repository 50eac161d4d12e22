"""Creation of tensors from shapes and numbers."""

from typing import Any

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.conversion import convert_as_torch
from tpu_inductor.lowerings.promote import as_type, opmath_dtype
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


def _filled(b: Builder, value: Any) -> Value:
    """`value` in the shape and type that torch gives the node."""
    out = b.out[0]
    return b.broadcast_to(as_type(b, value, out.dtype), out.shape)


@lowering(aten.full.default)
def full(
    b: Builder,
    size: Any,
    fill_value: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    return _filled(b, fill_value)


@lowering(aten.full_like.default)
def full_like(
    b: Builder,
    x: Any,
    fill_value: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Value:
    return _filled(b, fill_value)


@lowering(aten.new_full.default)
def new_full(
    b: Builder,
    x: Any,
    size: Any,
    fill_value: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    return _filled(b, fill_value)


@lowering(aten.scalar_tensor.default)
def scalar_tensor(
    b: Builder,
    s: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    return _filled(b, s)


@lowering(aten.fill.Scalar, aten.fill.Tensor)
def fill(b: Builder, x: Any, value: Any) -> Value:
    is_tensor = isinstance(value, Var | Lit)
    return _filled(b, convert_as_torch(b, value, b.out[0].dtype) if is_tensor else value)


@lowering(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
def zeros(b: Builder, *args: Any, **kwargs: Any) -> Value:
    return _filled(b, 0)


@lowering(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(b: Builder, *args: Any, **kwargs: Any) -> Value:
    return _filled(b, 1)


# -- ranges ---------------------------------------------------------------------------------------
def _range(b: Builder, start: Any, step: Any) -> Value:
    """start + step * (0, 1, ...), computed in f32 for the narrow floats."""
    out = b.out[0]
    compute = opmath_dtype(out.dtype)
    value: Value = b.convert(b.iota(out.shape, _index_dtype(compute), 0), compute)
    if step != 1:
        value = b.op("mul", value, as_type(b, step, compute))
    if start != 0:
        value = b.op("add", value, as_type(b, start, compute))
    return b.convert(value, out.dtype)


def _index_dtype(compute: DType) -> DType:
    """The type to count in: floats would not count exactly."""
    return compute if compute.is_int else DType.I32


@lowering(aten.arange.default)
def arange(
    b: Builder,
    end: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    return _range(b, 0, 1)


@lowering(aten.arange.start)
def arange_start(
    b: Builder,
    start: Any,
    end: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    return _range(b, start, 1)


@lowering(aten.arange.start_step)
def arange_start_step(
    b: Builder,
    start: Any,
    end: Any,
    step: Any = 1,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    return _range(b, start, step)


@lowering(torch.ops.prims.iota.default)
def iota(
    b: Builder,
    length: Any,
    start: Any,
    step: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Value:
    return _range(b, start, step)


# -- triangles ------------------------------------------------------------------------------------
def _column_minus_row(b: Builder) -> Value:
    shape = b.out[0].shape
    rank = len(shape)
    columns = b.iota(shape, DType.I32, rank - 1)
    return b.op("sub", columns, b.iota(shape, DType.I32, rank - 2))


def _keep(b: Builder, x: Value, comparison: str, diagonal: int) -> Value:
    kept = b.op(comparison, _column_minus_row(b), b.lit(diagonal, DType.I32))
    return b.op("select", kept, x, b.lit(0, x.type.dtype))


@lowering(aten.tril.default)
def tril(b: Builder, x: Any, diagonal: int = 0) -> Value:
    return _keep(b, x, "le", diagonal)


@lowering(aten.triu.default)
def triu(b: Builder, x: Any, diagonal: int = 0) -> Value:
    return _keep(b, x, "ge", diagonal)
