"""Gathers, scatters, embeddings and searches against the operators themselves."""

import pytest
import torch
from check_lowering import check, lower, type_of

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.interp import run
from tpu_inductor.lowerings.indexing import index

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 11 - 3).to(dtype)


ROWS = torch.tensor([2, -1, 0, 2])
COLUMNS = torch.tensor([[1], [-2]])


@pytest.mark.parametrize(
    "indices",
    [
        [ROWS],
        [None, ROWS],
        [ROWS, None, ROWS],
        [None, ROWS, COLUMNS],
        [COLUMNS, ROWS.int()],
        [torch.tensor(1), None],
        [None, torch.tensor([], dtype=torch.int64)],
    ],
)
def test_index_and_index_put(indices: list[torch.Tensor | None]) -> None:
    x = tensor(3, 4, 5)
    check(aten.index.Tensor, x, indices)
    values = torch.full_like(aten.index.Tensor(x, indices), 9)
    check(aten.index_put.default, x, indices, values)
    check(aten.index_put.default, x, indices, values, True)
    check(aten.index_put.default, x, indices, torch.tensor(2.0), True)


def test_index_by_a_mask_is_rejected() -> None:
    b = Builder()
    x, mask = b.input("x", type_of(tensor(3))), b.input("mask", type_of(tensor(3) > 0))
    assert isinstance(index(b, x, [mask]), Reject)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_by_a_mask_takes_one_value(accumulate: bool) -> None:
    mask = tensor(3, 4) > 0
    check(aten.index_put.default, tensor(3, 4), [mask], torch.tensor(NAN), accumulate)
    check(aten.index_put.default, tensor(3, 4, 5), [mask], tensor(5), accumulate)
    check(aten.index_put.default, tensor(2, 3, 4), [None, mask], torch.tensor([7.0]), accumulate)
    many = torch.ones(int(mask.sum()))
    assert isinstance(lower(aten.index_put.default, tensor(3, 4), [mask], many), Reject)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_gather_scatter(dtype: torch.dtype) -> None:
    x, src = tensor(3, 5, dtype=dtype), tensor(4, 5, dtype=dtype)
    index = torch.tensor([[0, 2, 1], [1, 1, 0]])
    check(aten.gather.default, x, 1, index)
    check(aten.gather.default, x, -2, index)
    check(aten.gather.default, torch.tensor(4), 0, torch.tensor([0, 0]))
    check(aten.scatter.value, x, 1, index, 1)
    check(aten.scatter.src, x, 1, torch.tensor([[0, 2, 1], [1, 3, 0]]), src)
    if dtype is not torch.bool:
        check(aten.scatter_add.default, x, 0, index, src)


def test_half_floats_accumulate_in_float32() -> None:
    x, ones = torch.full((1,), 256.0), torch.ones(8)
    index = torch.zeros(8, dtype=torch.int64)
    lowered = check(aten.scatter_add.default, x, 0, index, ones)
    assert lowered.outputs
    graph = lower(aten.scatter_add.default, x.bfloat16(), 0, index, ones.bfloat16())
    assert not isinstance(graph, Reject)
    (scatter,) = [e for e in graph[0].eqns if e.prim == "scatter"]
    assert scatter.out.type.dtype.short == "f32"


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scatter_reduce(reduce: str, include_self: bool, dtype: torch.dtype) -> None:
    index = torch.tensor([[0, 0, 1], [0, 2, 1]])
    x, src = tensor(4, 5, dtype=dtype), tensor(3, 6, dtype=dtype)
    check(aten.scatter_reduce.two, x, 0, index, src, reduce, include_self=include_self)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce: str) -> None:
    index, src = torch.tensor([0, 2, 0]), tensor(5, 3)
    check(aten.index_reduce.default, tensor(5, 4), 1, index, src, reduce, include_self=False)


def test_whole_rows_by_index() -> None:
    index = torch.tensor([3, 0])
    check(aten.index_select.default, tensor(2, 4, 3), 1, index)
    check(aten.index_select.default, torch.tensor(5), 0, torch.tensor(0))
    check(aten.index_add.default, tensor(2, 4), 1, index, tensor(2, 2), alpha=-2)
    check(aten.index_copy.default, tensor(2, 4), 1, index, tensor(2, 2))
    check(aten.index_fill.int_Scalar, tensor(2, 4), -1, torch.tensor([-1, 1]), 7)


def test_flat_indices_wrap() -> None:
    index = torch.tensor([[0, -1], [5, 2]])
    check(aten.take.default, tensor(2, 3), index)
    check(aten.put.default, tensor(2, 3), index, tensor(2, 2), True)


def test_masked_scatter() -> None:
    check(aten.masked_scatter.default, tensor(3, 4), tensor(3, 4) > 0, tensor(12))
    check(aten.masked_scatter.default, tensor(3, 4), tensor(4) > 99, tensor(0))


def test_masked_scatter_backward() -> None:
    op, grad = aten.masked_scatter_backward.default, torch.randn(3, 4)
    for mask in (grad > 0, grad > 99, grad < 99, torch.tensor([True, False, False, True])):
        check(op, grad, mask, [14])
        check(op, grad, mask, [2, 7])
    check(op, grad[:0], grad[:0] > 0, [3])


@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_and_its_gradient(by_frequency: bool, padding: int) -> None:
    index = torch.tensor([[1, 2, 2], [0, 1, 2]])
    check(aten.embedding.default, tensor(5, 4), index.int())
    check(aten.embedding_dense_backward.default, tensor(2, 3, 4), index, 5, padding, by_frequency)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 4])
@pytest.mark.parametrize("offsets", [[0, 3], [0, 0, 3], [0, 2, 4]])
def test_embedding_bags(mode: int, padding: int, offsets: list[int]) -> None:
    weight = torch.randn(10, 5)
    weight[2] = NAN
    index = torch.tensor([1, 2, 4, 5, 4])
    args = (weight, index, torch.tensor(offsets), False, mode, False, None, False, padding)
    check(aten._embedding_bag_forward_only.default, *args)


def test_sums_of_bags_that_end_at_the_last_offset() -> None:
    index, offsets = torch.tensor([1, 2, 4, 5, 4]), torch.tensor([0, 3, 5])
    args = (torch.randn(10, 5), index, offsets, False, 0, False, None, True)
    lowered = lower(aten._embedding_bag_forward_only.default, *args)
    assert not isinstance(lowered, Reject)
    wanted = aten._embedding_bag_forward_only.default(*args)[0]
    torch.testing.assert_close(run(*lowered)[0], wanted)


@pytest.mark.parametrize("right", [False, True])
def test_searches_follow_torch_at_nan_and_ties(right: bool) -> None:
    edges = torch.tensor([-1.0, 0.0, 0.0, 2.0, NAN])
    x = torch.tensor([[-2.0, -0.0, 0.0], [1.5, INF, NAN]])
    check(aten.bucketize.Tensor, x, edges, right=right)
    check(aten.bucketize.Tensor, torch.tensor(1.0), edges, out_int32=True)
    check(aten.bucketize.Tensor, x, torch.empty(0), right=right)
    rows = torch.stack([edges, edges + 1])
    check(aten.searchsorted.Tensor, rows, x, right=right)
    order = torch.tensor([[4, 3, 2, 1, 0]] * 2)
    check(aten.searchsorted.Tensor, rows.flip(1), x, side="right", sorter=order)


@pytest.mark.parametrize("shape", [(0, 0, 2), (3, 0, 2), (3, 4, 2)], ids=str)
@pytest.mark.parametrize("updates", [(0, 0, 0), (1, 1, 1), (5, 5, 5)], ids=str)
def test_an_empty_index_asks_nothing_of_its_updates(
    shape: tuple[int, ...], updates: tuple[int, ...]
) -> None:
    x, src = torch.ones(shape), torch.zeros(updates)
    index = torch.zeros(0, 0, 2, dtype=torch.int64)
    check(aten.scatter.src, x, 0, index, src)
    check(aten.scatter.reduce, x, -3, index, src, reduce="multiply")
    check(aten.scatter_add.default, x, 0, index, src)
    check(aten.scatter_reduce.two, x, -3, index, src, "amax")
