"""Lowerings of the gradient of `embedding`, and of embedding bags: sums, means, maxima of rows."""

from dataclasses import dataclass

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.checks import check_bags
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic
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
    num_weights: Size,
    padding_idx: Size,
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


@dataclass(frozen=True, slots=True)
class Bags:
    """How rows are combined. `sized`: torch gives the bags' sizes though a sum needs none."""

    count: int
    mode: int
    padding: int
    sized: bool


@lowering(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
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
    count, bags = indices.type.size, b.out[0].dims[0]
    if count == 0 or b.out[0].size == 0:
        return Reject("embedding bags without elements")
    if b.out[1].size not in (0, count) or (mode != SUM and b.out[2].size != bags):
        return Reject("an embedding bag with another number of offsets than bags")
    check_bags(b, indices, offsets, weight.type.dims[0])
    places = b.tensor(b.convert(indices, DType.I64))
    bag = _bag_of(b, b.convert(offsets, DType.I64), count)
    kept = bag
    if padding_idx >= 0:
        hit = b.op("eq", places, b.lit(padding_idx, DType.I64))
        kept = b.op("select", hit, b.lit(bags, DType.I64), bag)
    rows = _Rows(b.one("gather", b.tensor(weight), places, attrs=A.Gather((0,))), places, kept)
    offset2bag = bag if b.out[1].size else b.full((0,), DType.I64, 0)
    if mode == SUM:
        nothing = [b.full(t.shape, DType.I64, 0) for t in b.out[2:]]
        results = (_total(b, rows, per_sample_weights), offset2bag, *nothing)
    elif mode == MEAN:
        sizes = _sizes(b, kept, bags)
        divisor = b.op("max", sizes, b.lit(1, DType.I64))
        total = _total(b, rows, None)
        mean = b.op("div", total, b.expand_dims(b.convert(divisor, total.type.dtype), (1,)))
        # The last is empty on the meta device.
        results = (mean, offset2bag, sizes, b.slice(sizes, 0, 0, b.out[3].dims[0]))
    else:
        values, where = _maxima(b, rows)
        results = (values, offset2bag, _sizes(b, kept, bags), where)
    return tuple(b.convert(v, t.dtype) for v, t in zip(results, b.out, strict=True))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows (k, d), where in the weight they come from, and their bags; one past the last drops."""

    values: Var
    places: Var
    bag: Var


def _sizes(b: Builder, bag: Var, bags: int) -> Var:
    ones = b.full(bag.type.shape, DType.I64, 1)
    return write(b, b.full((bags,), DType.I64, 0), ones, (0,), (bag,), "add")


def _total(b: Builder, rows: _Rows, scale: Value | None) -> Var:
    """The sums of the rows of each bag, in the type that accumulates."""
    wide = accumulator(rows.values.type.dtype)
    values = b.convert(rows.values, wide)
    if scale is not None:
        values = b.op("mul", values, b.expand_dims(b.convert(scale, wide), (1,)))
    return write(b, b.full(b.out[0].shape, wide, 0), values, (0,), (rows.bag,), "add")


def _maxima(b: Builder, rows: _Rows) -> tuple[Value, Value]:
    """The maxima of each bag and their rows; NaN counts where it comes first alone, as in torch."""
    out, dtype, wide = b.out[0], rows.values.type.dtype, DType.I64
    (count,), bags = rows.bag.type.dims, out.dims[0]
    place, past = b.iota((count,), wide, 0), b.lit(count, wide)
    first = write(b, b.full((bags,), wide, count), place, (0,), (rows.bag,), "min")
    is_first = b.op("eq", b.one("gather", first, rows.bag, attrs=A.Gather((0,))), place)
    is_first, nan = b.expand_dims(is_first, (1,)), b.op("is_nan", rows.values)
    ignored = b.op("and", nan, b.op("not", is_first))
    values = b.op("select", ignored, b.lit(lowest(dtype), dtype), rows.values)
    best = write(b, b.full(out.shape, dtype, lowest(dtype)), values, (0,), (rows.bag,), "max")
    hit = b.op("eq", values, b.one("gather", best, rows.bag, attrs=A.Gather((0,))))
    hit = b.op("or", hit, b.op("is_nan", values))
    met = b.op("select", hit, b.expand_dims(place, (1,)), past)
    at = write(b, b.full(out.shape, wide, count), met, (0,), (rows.bag,), "min")
    at = b.op("min", at, b.lit(count - 1, wide))
    source = b.one("gather", rows.places, at, attrs=A.Gather((0,)))
    empty = b.expand_dims(b.op("eq", first, past), (1,))
    values = b.op("select", empty, b.lit(0, dtype), best)
    return values, b.op("select", empty, b.lit(0, wide), source)
