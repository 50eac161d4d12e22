"""Lowerings that extend tensors at their edges by a constant, a reflection or the edge itself."""

from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.types import Scalar
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


@lowering(aten.constant_pad_nd.default)
def constant_pad_nd(
    b: Builder, x: Value, pad: Sequence[Size], value: Scalar | Value = 0
) -> Value | Reject:
    if is_dynamic(pad):
        return DYNAMIC
    dtype, rank = x.type.dtype, x.type.rank
    low, high = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    filler = b.convert(value, dtype) if isinstance(value, Var | Lit) else b.lit(value, dtype)
    if not any(low) and not any(high):
        return b.tensor(x)
    return b.one("pad", b.tensor(x), filler, attrs=A.Pad(tuple(low), tuple(high), (0,) * rank))


def _edges(pad: Sequence[int], rank: int) -> list[tuple[int, int, int]]:
    """(dimension, before, after) for torch's pairs, which start at the last dimension."""
    return [(rank - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


def _crop(b: Builder, x: Value, dim: int, before: int, after: int) -> Value:
    extent = x.type.dims[dim]
    return b.slice(x, dim, max(-before, 0), extent - max(-after, 0))


def _mirrored(b: Builder, x: Value, dim: int, start: int, count: int) -> list[Value]:
    if count <= 0:
        return []
    part = b.slice(x, dim, start, start + count)
    return [b.one("rev", part, attrs=A.Dims((dim,)))]


@lowering(
    aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default
)
def reflection_pad(b: Builder, x: Value, padding: Sequence[Size]) -> Value | Reject:
    """[a b c d] --> [c b a b c d c] for padding (2, 1)."""
    if is_dynamic(padding):
        return DYNAMIC
    for dim, before, after in _edges(padding, x.type.rank):
        extent = x.type.dims[dim]
        left = _mirrored(b, x, dim, 1, before)
        right = _mirrored(b, x, dim, extent - 1 - after, after)
        x = b.concat([*left, _crop(b, x, dim, before, after), *right], dim)
    return b.tensor(x)


def _repeated(b: Builder, x: Value, dim: int, at: int, count: int) -> list[Value]:
    if count <= 0:
        return []
    shape = (*x.type.shape[:dim], count, *x.type.shape[dim + 1 :])
    return [b.broadcast_to(b.slice(x, dim, at, at + 1), shape)]


@lowering(
    aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default
)
def replication_pad(b: Builder, x: Value, padding: Sequence[Size]) -> Value | Reject:
    """[a b c] --> [a a a b c c] for padding (2, 1)."""
    if is_dynamic(padding):
        return DYNAMIC
    for dim, before, after in _edges(padding, x.type.rank):
        extent = x.type.dims[dim]
        left = _repeated(b, x, dim, 0, before)
        right = _repeated(b, x, dim, extent - 1, after)
        x = b.concat([*left, _crop(b, x, dim, before, after), *right], dim)
    return b.tensor(x)
