"""Lowerings that rearrange whole tensors: reshapes, permutations, repeats, flips and joins.

The shapes that torch gives a node decide; size arguments are read only where they are needed.
"""

from collections.abc import Sequence
from typing import Any

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import (
    DYNAMIC,
    Size,
    at_least_1d,
    is_dynamic,
    move_dims,
    wrap_dim,
    wrap_dims,
)
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


@lowering(
    aten.view.default,
    aten._unsafe_view.default,
    aten.view_copy.default,
    aten.reshape.default,
    aten._reshape_copy.default,
    aten._reshape_alias.default,
    aten.flatten.using_ints,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
    aten.unsqueeze.default,
    aten.unsqueeze_copy.default,
    aten.unflatten.int,
)
def reshape(b: Builder, x: Value, *_args: Any, **_kwargs: Any) -> Value:
    return b.reshape(x, b.out[0].shape)


@lowering(aten.expand.default, aten.expand_copy.default)
def expand(b: Builder, x: Value, size: Sequence[Any], *, implicit: bool = False) -> Value:
    return b.broadcast_to(x, b.out[0].shape)


@lowering(aten.permute.default, aten.permute_copy.default)
def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return b.transpose(x, wrap_dims(dims, x.type.rank))


@lowering(aten.t.default, aten.t_copy.default)
def t(b: Builder, x: Value) -> Value:
    return b.transpose(x, tuple(reversed(range(x.type.rank))))


@lowering(aten.transpose.int, aten.transpose_copy.int)
def transpose(b: Builder, x: Value, dim0: int, dim1: int) -> Value:
    perm = list(range(x.type.rank))
    if perm:
        i, j = wrap_dims((dim0, dim1), len(perm))
        perm[i], perm[j] = j, i
    return b.transpose(x, perm)


@lowering(aten.view.dtype, aten.view_copy.dtype)
def view_dtype(b: Builder, x: Value, dtype: torch.dtype) -> Value | Reject:
    old, new = x.type.dtype, b.out[0].dtype
    if old is new:
        return b.tensor(x)
    if old.itemsize != new.itemsize:
        return Reject("a view as a type of another width")
    if DType.BOOL in (old, new):
        return Reject("a view of bits as booleans, or of booleans as bits")
    return b.one("bitcast", b.tensor(x), attrs=A.Convert(new))


@lowering(aten.cat.default)
def cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    out = b.out[0]
    # torch skips operands of shape (0,), whatever the rank of the others.
    parts = [b.convert(x, out.dtype) for x in tensors if x.type.shape != (0,)]
    if not parts:
        return b.full(out.shape, out.dtype, 0)
    return b.concat(parts, wrap_dim(dim, out.rank))


@lowering(aten.stack.default)
def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    out = b.out[0]
    dim = wrap_dim(dim, out.rank)
    return b.concat([b.expand_dims(b.convert(x, out.dtype), (dim,)) for x in tensors], dim)


@lowering(aten.flip.default)
def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    if x.type.rank == 0 or not dims:
        return b.tensor(x)
    return b.one("rev", b.tensor(x), attrs=A.Dims(tuple(sorted(wrap_dims(dims, x.type.rank)))))


@lowering(aten.rot90.default)
def rot90(b: Builder, x: Value, k: int = 1, dims: Sequence[int] = (0, 1)) -> Value:
    first, second = wrap_dims(dims, x.type.rank)
    turns = k % 4
    if turns == 0:
        return b.tensor(x)
    if turns == 2:
        return flip(b, x, (first, second))
    if turns == 1:
        return transpose(b, flip(b, x, (second,)), first, second)
    return flip(b, transpose(b, x, first, second), (second,))


@lowering(aten.roll.default)
def roll(b: Builder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value | Reject:
    if is_dynamic(shifts):
        return DYNAMIC
    if x.type.size == 0 or x.type.rank == 0:
        return b.tensor(x)
    if not dims:
        flat = b.reshape(x, (x.type.size,))
        return b.reshape(_roll_one(b, flat, shifts[0], 0), x.type.shape)
    for shift, dim in zip(shifts, wrap_dims(dims, x.type.rank), strict=True):
        x = _roll_one(b, x, shift, dim)
    return b.tensor(x)


def _roll_one(b: Builder, x: Value, shift: int, dim: int) -> Value:
    extent = x.type.dims[dim]
    cut = -shift % extent
    if cut == 0:
        return x
    return b.concat([b.slice(x, dim, cut, extent), b.slice(x, dim, 0, cut)], dim)


@lowering(aten.repeat.default)
def repeat(b: Builder, x: Value, repeats: Sequence[Any]) -> Value:
    """(s0, s1) --> (r0, s0, r1, s1) --> (r0 * s0, r1 * s1)."""
    out = b.out[0]
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    x = b.expand_dims(x, range(out.rank - x.type.rank))
    narrow: list[int] = []
    wide: list[int] = []
    for extent, total in zip(x.type.dims, out.dims, strict=True):
        if total != extent:
            narrow.append(1)
            wide.append(total // extent)
        narrow.append(extent)
        wide.append(extent)
    spread = b.broadcast_to(b.reshape(x, tuple(narrow)), tuple(wide))
    return b.reshape(spread, out.shape)


@lowering(aten.pixel_shuffle.default)
def pixel_shuffle(b: Builder, x: Value, upscale_factor: int) -> Value:
    """(*, C r r, H, W) --> (*, C, H r, W r)."""
    r, rank = upscale_factor, x.type.rank
    *lead, channels, height, width = x.type.dims
    split = b.reshape(x, (*lead, channels // (r * r), r, r, height, width))
    n = rank - 3
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return b.reshape(b.transpose(split, order), b.out[0].shape)


@lowering(aten.pixel_unshuffle.default)
def pixel_unshuffle(b: Builder, x: Value, downscale_factor: int) -> Value:
    """(*, C, H r, W r) --> (*, C r r, H, W)."""
    r, rank = downscale_factor, x.type.rank
    *lead, channels, height, width = x.type.dims
    split = b.reshape(x, (*lead, channels, height // r, r, width // r, r))
    n = rank - 3
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return b.reshape(b.transpose(split, order), b.out[0].shape)


@lowering(aten.channel_shuffle.default, aten.native_channel_shuffle.default)
def channel_shuffle(b: Builder, x: Value, groups: Size) -> Value | Reject:
    if is_dynamic(groups):
        return DYNAMIC
    batch, channels, *rest = x.type.dims
    split = b.reshape(x, (batch, groups, channels // groups, *rest))
    return b.reshape(move_dims(b, split, (1,), (2,)), x.type.shape)


@lowering(aten.block_diag.default)
def block_diag(b: Builder, tensors: Sequence[Value]) -> Value:
    out = b.out[0]
    zero = b.lit(0, out.dtype)
    rows: list[Value] = []
    left = 0
    for x in tensors:
        block = b.convert(at_least_1d(b, x), out.dtype)
        block = b.expand_dims(block, (0,)) if block.type.rank == 1 else block
        width = block.type.dims[1]
        edges = A.Pad((0, left), (0, out.dims[1] - left - width), (0, 0))
        rows.append(b.one("pad", b.tensor(block), zero, attrs=edges))
        left += width
    return b.concat(rows, 0)
