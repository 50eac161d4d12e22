"""Views, slices, pads and joins against the operators themselves."""

import pytest
import torch
from check_lowering import check, lower, prims

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Lit
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.slice import select

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool]


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 7).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("repeats", [(1, 1), (2, 3), (2, 1, 3), (0, 2), (1, 2, 1)])
def test_repeat(dtype: torch.dtype, repeats: tuple[int, ...]) -> None:
    check(aten.repeat.default, tensor(3, 5, dtype=dtype), repeats)


@pytest.mark.parametrize("shift", [0, 1, -2, 7, 12])
def test_roll_wraps_round(shift: int) -> None:
    check(aten.roll.default, tensor(3, 5), [shift], [1])
    check(aten.roll.default, tensor(3, 5), [shift], [])
    check(aten.roll.default, tensor(3, 0), [shift], [0])


def test_roll_over_two_dimensions() -> None:
    check(aten.roll.default, tensor(3, 5, 2), [1, -1], [0, -2])


def test_cat_skips_empty_vectors_and_promotes() -> None:
    check(aten.cat.default, [tensor(0), tensor(2, 3, dtype=torch.int64), tensor(1, 3)], 0)
    check(aten.cat.default, [tensor(0), tensor(0)], 0)
    check(aten.cat.default, [tensor(2, 3), tensor(2, 0)], -1)


def test_stack_of_scalars() -> None:
    check(aten.stack.default, [torch.tensor(1.0), torch.tensor(-0.0)], 0)


@pytest.mark.parametrize("dims", [(0,), (1, -1), ()])
def test_flip(dims: tuple[int, ...]) -> None:
    check(aten.flip.default, tensor(2, 3, 4), dims)


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3, 5])
def test_rot90(k: int) -> None:
    check(aten.rot90.default, tensor(2, 3, 4), k, [0, 2])


def test_view_as_another_type_keeps_bits() -> None:
    check(aten.view.dtype, torch.tensor([1.5, -0.0, torch.nan]), torch.int32)
    assert isinstance(lower(aten.view.dtype, tensor(4), torch.int64), Reject)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(None, None, 1), (-3, 99, 2), (4, 2, 1), (1, -1, 3), (-99, 3, 1)]
)
def test_slice_bounds_are_pythons(start: int | None, end: int | None, step: int) -> None:
    check(aten.slice.Tensor, tensor(2, 5), 1, start, end, step)
    src = torch.full_like(tensor(2, 5)[:, start:end:step], 9)
    check(aten.slice_scatter.default, tensor(2, 5), src, 1, start, end, step)


@pytest.mark.parametrize("index", [0, 2, -1])
def test_select_and_its_scatter(index: int) -> None:
    check(aten.select.int, tensor(2, 3, 4), 1, index)
    check(aten.select_scatter.default, tensor(2, 3, 4), tensor(2, 4), 1, index)
    check(aten.select_backward.default, tensor(2, 4), [2, 3, 4], 1, index)


def test_select_at_a_run_time_index_is_rejected() -> None:
    graph, _ = lower(aten.select.int, tensor(2, 3), 0, 0)  # type: ignore[misc]
    assert isinstance(select(None, graph.inputs[0], 0, Lit(0, DType.I64)), Reject)  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [[2, 3], [0, 5], [5]])
def test_splits(parts: list[int]) -> None:
    check(aten.split_with_sizes.default, tensor(5, 2), parts)
    check(aten.split.Tensor, tensor(5, 2), 2)
    check(aten.unbind.int, tensor(5, 2), -1)


@pytest.mark.parametrize(("size", "step"), [(2, 2), (3, 1), (1, 3), (3, 2), (70, 1), (0, 1)])
def test_unfold_windows(size: int, step: int) -> None:
    check(aten.unfold.default, tensor(2, 80, 3), 1, size, step)


@pytest.mark.parametrize("offset", [-4, -1, 0, 2, 3])
def test_diagonals(offset: int) -> None:
    check(aten.diagonal.default, tensor(3, 5, 4), offset, 2, 0)
    check(aten.diag_embed.default, tensor(2, 3), offset, 0, -1)
    src = torch.full_like(torch.diagonal(tensor(3, 5), offset), 9)
    check(aten.diagonal_scatter.default, tensor(3, 5), src, offset)


@pytest.mark.parametrize("pad", [(1, 2), (-1, 1, 0, 2), (0, 0), (-2, -1)])
def test_constant_pad_crops_by_negative_edges(pad: tuple[int, ...]) -> None:
    check(aten.constant_pad_nd.default, tensor(3, 4), pad, 2.5)
    check(aten.constant_pad_nd.default, tensor(3, 4, dtype=torch.bool), pad, 1)


@pytest.mark.parametrize("pad", [(1, 2), (3, 0), (0, 0)])
def test_reflection_and_replication_pads(pad: tuple[int, int]) -> None:
    check(aten.reflection_pad1d.default, tensor(2, 4), pad)
    check(aten.replication_pad1d.default, tensor(2, 4), pad)
    check(aten.reflection_pad2d.default, tensor(2, 4, 5), [*pad, 1, 1])
    check(aten.replication_pad3d.default, tensor(1, 2, 3, 4, 5), [*pad, 1, 1, 0, 2])


def test_pixel_shuffles() -> None:
    check(aten.pixel_shuffle.default, tensor(2, 8, 3, 5), 2)
    check(aten.pixel_unshuffle.default, tensor(2, 3, 4, 6), 2)
    check(aten.channel_shuffle.default, tensor(2, 6, 3, 5), 3)


def test_as_strided_of_a_dense_run_is_a_slice() -> None:
    graph = check(aten.as_strided.default, tensor(4, 6), [3, 2], [1, 3], 2)
    assert "gather" not in prims(graph)


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((5, 4), (4, 2), 1),
        ((3, 3), (1, 1), 0),
        ((2, 3), (0, 1), 4),
        ((), (), 5),
        ((0, 2), (1, 1), 0),
    ],
)
def test_as_strided(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> None:
    check(aten.as_strided.default, tensor(4, 6), size, stride, offset)


def test_as_strided_beyond_the_tensor_is_rejected() -> None:
    part = torch.arange(20.0)[:10]
    assert isinstance(lower(aten.as_strided.default, part, [4], [1], 10), Reject)


def test_as_strided_scatter() -> None:
    check(aten.as_strided_scatter.default, tensor(4, 6), tensor(2, 2), [2, 2], [7, 2], 1)


@pytest.mark.parametrize("pad", [(1, 2), (3, 0), (0, 0), (-1, 2), (0, -2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_replication_pads(pad: tuple[int, int], dtype: torch.dtype) -> None:
    for op, forward, x, edges in (
        (aten.replication_pad1d_backward, aten.replication_pad1d, (2, 4), pad),
        (aten.replication_pad1d_backward, aten.replication_pad1d, (2, 3, 4), pad),
        (aten.replication_pad2d_backward, aten.replication_pad2d, (2, 4, 5), (*pad, 1, 1)),
        (aten.replication_pad3d_backward, aten.replication_pad3d, (2, 3, 4, 5), (*pad, 1, 1, 0, 2)),
    ):
        source = tensor(*x, dtype=dtype)
        grad = tensor(*forward.default(source, edges).shape, dtype=dtype)
        check(op.default, grad, source, edges)
