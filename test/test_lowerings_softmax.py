"""softmax, log_softmax and their gradients against torch."""

import math

import pytest
import torch
from check_lowering import check, prims

aten = torch.ops.aten

NAN, INF = math.nan, math.inf
SHAPES = [(), (1,), (7,), (3, 129), (2, 1, 5), (0, 3), (3, 0)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_and_gradients_agree_on_every_shape_and_type(shape, dtype):
    x, grad = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    for dim in {0, -1}:
        check(aten._softmax.default, x, dim, False)
        check(aten._safe_softmax.default, x, dim)
        check(aten._log_softmax.default, x, dim, False)
        y = torch.softmax(x, dim)
        check(aten._softmax_backward_data.default, grad, y, dim, dtype)
        check(aten._log_softmax_backward_data.default, grad, torch.log_softmax(x, dim), dim, dtype)


def test_hidden_rows_give_nan_or_zero_as_in_torch():
    x = torch.tensor([[-INF, -INF], [0.0, -INF], [INF, 0.0], [NAN, -INF], [1e4, 1e4]])
    check(aten._softmax.default, x, 1, False)
    check(aten._safe_softmax.default, x, 1)
    check(aten._log_softmax.default, x, 1, False)


def test_safe_softmax_changes_type():
    check(aten._safe_softmax.default, torch.randn(3, 5), -1, dtype=torch.float64)
    check(aten._safe_softmax.default, torch.randn(3, 5).bfloat16(), -1, dtype=torch.float32)


def test_softmax_of_half_floats_rounds_once():
    graph = check(aten._softmax.default, torch.randn(3, 5).bfloat16(), -1, False)
    assert prims(graph).count("convert") == 2
