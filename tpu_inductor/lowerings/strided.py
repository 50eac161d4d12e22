"""Lowerings of as_strided on a tensor that is all of its storage in row-major order.

The importer keeps every other base away: a graph value has no storage but its own elements.
"""

from collections.abc import Sequence
from math import prod

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.scatter import write

aten = torch.ops.aten


_BEYOND = Reject("a strided view of storage beyond the tensor")


def _dense_order(size: Sequence[int], stride: Sequence[int]) -> list[int] | None:
    """The dimensions from the widest stride down, if they tile a run of storage without holes."""
    moving = [d for d in range(len(size)) if size[d] != 1 and stride[d] != 0]
    order = sorted(moving, key=lambda d: -stride[d])
    expected = 1
    for d in reversed(order):
        if stride[d] != expected:
            return None
        expected *= size[d]
    return order


def _last_place(size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    return offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _places(b: Builder, size: tuple[int, ...], stride: Sequence[int], offset: int) -> Var:
    """The place in storage of each element of a strided view."""
    dtype = DType.I64
    total: Value = b.lit(offset, dtype)
    for d, s in enumerate(stride):
        line = tuple(n if i == d else 1 for i, n in enumerate(size))
        total = b.op("add", total, b.op("mul", b.iota(line, dtype, d), b.lit(s, dtype)))
    return b.broadcast_to(total, size)


@lowering(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(
    b: Builder, x: Value, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size = None
) -> Value | Reject:
    if is_dynamic(stride, storage_offset):
        return DYNAMIC
    out, offset = b.out[0], storage_offset or 0
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    if _last_place(out.dims, stride, offset) >= x.type.size:
        return _BEYOND
    flat = b.reshape(x, (x.type.size,))
    order = _dense_order(out.dims, stride)
    if order is None:
        return b.one("gather", flat, _places(b, out.dims, stride, offset), attrs=A.Gather((0,)))
    extents = tuple(out.dims[d] for d in order)
    run = b.reshape(b.slice(flat, 0, offset, offset + prod(extents)), extents)
    ascending = sorted(order)
    moved = b.transpose(run, [order.index(d) for d in ascending])
    line = b.reshape(moved, tuple(n if d in order else 1 for d, n in enumerate(out.dims)))
    return b.broadcast_to(line, out.shape)


@lowering(aten.as_strided_scatter.default)
def as_strided_scatter(
    b: Builder,
    x: Value,
    src: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size = None,
) -> Value | Reject:
    if is_dynamic(size, stride, storage_offset):
        return DYNAMIC
    shape = tuple(size)
    if prod(shape) == 0 or x.type.size == 0:
        return b.tensor(x)
    if _last_place(shape, stride, storage_offset or 0) >= x.type.size:
        return _BEYOND
    places = _places(b, shape, stride, storage_offset or 0)
    src = b.broadcast_to(b.convert(src, x.type.dtype), shape)
    out = write(b, b.reshape(x, (x.type.size,)), src, (0,), (places,), "set")
    return b.reshape(out, x.type.shape)
