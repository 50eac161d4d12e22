"""Reductions and extrema against torch."""

import math

import pytest
import torch
from check_lowering import check, prims

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.lowerings import reduction

aten = torch.ops.aten

NAN, INF = math.nan, math.inf
SHAPES = [(), (1,), (7,), (3, 129), (2, 1, 5), (0, 3), (3, 0)]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.bool]


def sample(shape, dtype):
    torch.manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 50, shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_tests_agree_on_every_shape_and_type(shape, dtype):
    x = sample(shape, dtype)
    for dim in (None, [-1]):
        for keep in (False, True):
            check(aten.sum.dim_IntList, x, dim, keep)
            check(aten.any.dims, x, dim, keep)
            check(aten.all.dims, x, dim, keep)
    for op in (aten.sum, aten.prod, aten.any, aten.all, aten.count_nonzero):
        check(op.default, x)
    check(aten.nansum.default, x, [-1])
    if dtype.is_floating_point:
        check(aten.mean.dim, x, [-1], True)
        check(aten.mean.default, x)


BEYOND = torch.tensor([NAN, INF, -INF, 3e9, -3e9, 1e19, 2.7, -2.7, 300.0])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_floats_are_reduced_as_the_integers_that_torch_makes_of_them(dtype):
    for i in range(len(BEYOND)):
        for x in (BEYOND[i : i + 1], BEYOND[i : i + 1].double(), BEYOND[i : i + 1].bfloat16()):
            check(aten.sum.dim_IntList, x, [0], dtype=dtype)
            check(aten.sum.default, x, dtype=dtype)
            check(aten.prod.dim_int, x, 0, dtype=dtype)
            check(aten.cumsum.default, x, 0, dtype=dtype)
            check(aten.cumprod.default, x, 0, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s != (3, 0)], ids=str)
def test_extrema_agree_on_every_shape_and_type(shape, dtype):
    x = sample(shape, dtype)
    for keep in (False, True):
        for op in (aten.amax, aten.amin):
            check(op.default, x, [-1], keep)
        for op in (aten.max, aten.min):
            check(op.dim, x, -1, keep)
        check(aten.aminmax.default, x, dim=-1, keepdim=keep)
        if dtype is not torch.bool:
            check(aten.argmax.default, x, -1, keep)
            check(aten.argmin.default, x, -1, keep)
    if x.numel():
        check(aten.max.default, x)
        check(aten.min.default, x)
        if dtype is not torch.bool:
            check(aten.argmax.default, x)
            check(aten.argmin.default, x, None, True)


def test_extrema_name_the_first_nan_then_the_first_of_equals():
    x = torch.tensor([[1.0, NAN, 3.0, NAN], [2.0, 5.0, 5.0, 1.0], [1.0, -INF, -INF, INF]])
    for op in (aten.max, aten.min):
        check(op.dim, x, 1)
    for op in (aten.argmax, aten.argmin):
        check(op.default, x, 1)
        check(op.default, x)
    check(aten.amax.default, x, [0])


def test_extremum_over_nothing_is_left_to_torch():
    for fn in (reduction.amax, reduction.min_dim, reduction.argmax):
        b = Builder(out=(TensorType((3,), DType.F32),))
        empty = b.input("x", TensorType((3, 0), DType.F32))
        assert isinstance(fn(b, empty, 1), Reject)


def test_sums_convert_before_adding():
    check(aten.sum.default, torch.tensor([0.6, 0.6, 1.7]), dtype=torch.int64)
    check(aten.sum.default, torch.full((300,), 200, dtype=torch.uint8))
    check(aten.sum.default, torch.full((300,), 3), dtype=torch.uint8)
    check(aten.sum.default, torch.tensor([2, 0]), dtype=torch.bool)
    check(aten.prod.default, torch.tensor([2, 0]), dtype=torch.bool)
    check(aten.mean.default, torch.tensor([1, 2]), dtype=torch.float32)


def test_half_sums_accumulate_in_float32():
    x = torch.ones(4096, dtype=torch.bfloat16)
    graph = check(aten.sum.default, x)
    assert prims(graph) == ["convert", "reduce_sum", "convert"]


def test_any_of_uint8_stays_uint8_and_no_dimensions_may_mean_none():
    x = torch.tensor([[0, 3], [0, 0]], dtype=torch.uint8)
    check(aten.any.dim, x, 0)
    check(aten.any.dims, x, [])
    check(aten.all.dims, torch.tensor([NAN, 0.0, -0.0]), [0])
