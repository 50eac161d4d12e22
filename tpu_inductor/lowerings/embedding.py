"""Lowerings of the gradient of `embedding`, and of embedding bags: sums, means and maxima of rows."""

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, is_dynamic
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.scatter import write
from tpu_inductor.lowerings.scatter_reduce import lowest

aten = torch.ops.aten

SUM, MEAN, MAX = 0, 1, 2


@lowering(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    b: Builder,
    grad_output: Value,
    indices: Value,
    num_weights: int | Value,
    padding_idx: int | Value,
    scale_grad_by_freq: bool,
) -> Value | Reject:
    if is_dynamic(num_weights, padding_idx):
        return DYNAMIC
    out = b.out[0]
    wide = accumulator(out.dtype)
    count, rows = indices.type.size, out.dims[0]
    places = b.reshape(indices, (count,))
    updates = b.reshape(b.convert(grad_output, wide), (count, out.dims[1]))
    if scale_grad_by_freq:
        ones = b.full((count,), DType.I32, 1)
        uses = write(b, b.full((rows,), DType.I32, 0), ones, (0,), (places,), "add")
        mine = b.convert(b.one("gather", uses, places, attrs=A.Gather((0,))), wide)
        updates = b.op("div", updates, b.expand_dims(mine, (1,)))
    # The primitive drops updates out of bounds: rows of the padding index.
    places = _moved_out(b, places, padding_idx, rows) if padding_idx >= 0 else places
    total = write(b, b.full(out.shape, wide, 0), updates, (0,), (places,), "add")
    return b.convert(total, out.dtype)


def _moved_out(b: Builder, places: Var, unwanted: int, extent: int) -> Var:
    dtype = places.type.dtype
    hit = b.op("eq", places, b.lit(unwanted, dtype))
    return b.op("select", hit, b.lit(extent, dtype), places)


def _bag_of(b: Builder, offsets: Value, count: int) -> Var:
    """The bag of each of `count` indices: how many offsets lie at or before it, less one."""
    zeros = b.full((count,), DType.I64, 0)
    ones = b.full(offsets.type.shape, DType.I64, 1)
    starts = write(b, zeros, ones, (0,), (offsets,), "add")
    upto = b.one("cumsum", starts, attrs=A.Axis(0))
    return b.op("sub", upto, b.lit(1, DType.I64))


@lowering(aten._embedding_bag_forward_only.default, aten._embedding_bag.default)
def embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, ...] | Reject:
    """weight (n, d), indices (k,), offsets (bags,) --> (bags, d) and torch's three side results."""
    out, count = b.out[0], indices.type.size
    if count == 0 or out.size == 0:
        return Reject("embedding bags without elements")
    bags = out.dims[0]
    places = b.tensor(b.convert(indices, DType.I64))
    bag = _bag_of(b, b.convert(offsets, DType.I64), count)
    if padding_idx >= 0:
        hit = b.op("eq", places, b.lit(padding_idx, DType.I64))
        kept = b.op("select", hit, b.lit(bags, DType.I64), bag)
    else:
        kept = bag
    ones = b.full((count,), DType.I64, 1)
    sizes = write(b, b.full((bags,), DType.I64, 0), ones, (0,), (kept,), "add")
    rows = b.one("gather", b.tensor(weight), places, attrs=A.Gather((0,)))
    result = _combine(b, rows, kept, sizes, mode, per_sample_weights)
    sides = _side_results(b, bag, sizes, mode)
    return sides if isinstance(sides, Reject) else (result, *sides)


def _combine(
    b: Builder, rows: Var, bag: Var, sizes: Var, mode: int, scale: Value | None
) -> Value:
    out = b.out[0]
    wide = accumulator(out.dtype)
    values = b.convert(rows, wide)
    if scale is not None:
        values = b.op("mul", values, b.expand_dims(b.convert(scale, wide), (1,)))
    start = b.full(out.shape, wide, lowest(wide) if mode == MAX else 0)
    total = write(b, start, values, (0,), (bag,), "max" if mode == MAX else "add")
    if mode == SUM:
        return b.convert(total, out.dtype)
    sizes = b.expand_dims(sizes, (1,))
    if mode == MEAN:
        divisor = b.convert(b.op("max", sizes, b.lit(1, DType.I64)), wide)
        return b.convert(b.op("div", total, divisor), out.dtype)
    empty = b.op("eq", sizes, b.lit(0, DType.I64))
    return b.convert(b.op("select", empty, b.lit(0, wide), total), out.dtype)


def _side_results(b: Builder, bag: Var, sizes: Var, mode: int) -> tuple[Value, ...] | Reject:
    """Which bag each index is in, the bags' sizes, and the maxima's rows, where torch gives them."""
    offset2bag, bag_size, max_indices = b.out[1:]
    if mode == MAX and max_indices.size:
        return Reject("the rows that the maxima of an embedding bag come from")
    if offset2bag.size not in (0, bag.type.size) or bag_size.size not in (0, sizes.type.size):
        return Reject("an embedding bag with another number of offsets than bags")
    first = bag if offset2bag.size else b.full(offset2bag.shape, DType.I64, 0)
    second = sizes if bag_size.size else b.full(bag_size.shape, DType.I64, 0)
    third = sizes if max_indices.size else b.full(max_indices.shape, DType.I64, 0)
    results = (first, second, third)
    pairs = zip(results, b.out[1:], strict=True)
    return tuple(b.reshape(b.convert(v, t.dtype), t.shape) for v, t in pairs)
