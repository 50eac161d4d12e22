"""Lowerings that extend tensors at their edges by a constant, a reflection or the edge itself."""

from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.types import Scalar
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic
from tpu_inductor.lowerings.reduction import accumulator
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


@lowering(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(
    b: Builder, grad_output: Value, x: Value, padding: Sequence[Size]
) -> Value | Reject:
    """What was repeated takes the sum of its copies' gradients; what was cropped takes 0."""
    if is_dynamic(padding):
        return DYNAMIC
    out = b.out[0]
    if out.size == 0 or grad_output.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    grad = b.convert(grad_output, accumulator(out.dtype))
    for dim, before, after in _edges(padding, out.rank):
        if out.dims[dim] + min(before, 0) + min(after, 0) <= 0:
            return Reject("the gradient of a pad that crops everything")
        grad = _folded(b, grad, dim, before, after)
    return b.convert(grad, out.dtype)


def _folded(b: Builder, grad: Value, dim: int, before: int, after: int) -> Value:
    """`grad` along `dim` with its first and last elements summed; zeros where it was cropped."""
    extent, rank = grad.type.dims[dim], grad.type.rank
    left, right = max(before, 0), max(after, 0)
    inner = b.slice(grad, dim, left, extent - right)
    wide = inner.type.dims[dim]
    parts: list[tuple[int, int, Value]] = [(0, wide, inner)]
    if left:
        parts.append((0, 1, _total(b, b.slice(grad, dim, 0, left), dim)))
    if right:
        parts.append((wide - 1, 1, _total(b, b.slice(grad, dim, extent - right, extent), dim)))
    zero = b.lit(0, grad.type.dtype)
    total: Value | None = None
    for at, size, part in parts:
        low, high = [0] * rank, [0] * rank
        low[dim], high[dim] = max(-before, 0) + at, wide - at - size + max(-after, 0)
        edges = A.Pad(tuple(low), tuple(high), (0,) * rank)
        part = b.one("pad", b.tensor(part), zero, attrs=edges)
        total = part if total is None else b.op("add", total, part)
    assert total is not None  # the inner part is always there
    return total


def _total(b: Builder, x: Value, dim: int) -> Value:
    return b.reduce("reduce_sum", x, (dim,), keepdims=True)
