"""Variances, vector norms and log-sum-exp against torch."""

import math

import pytest
import torch
from check_lowering import check

aten = torch.ops.aten

NAN, INF = math.nan, math.inf
SHAPES = [(), (1,), (7,), (3, 129), (2, 1, 5), (0, 3), (3, 0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_variances_agree_on_every_shape_and_type(shape, dtype):
    x = (torch.randn(shape) + 3).to(dtype)
    for correction in (None, 0, 1, 2, 0.5):
        for op in (aten.var, aten.std, aten.var_mean, aten.std_mean):
            check(op.correction, x, [-1], correction=correction, keepdim=True)
            check(op.correction, x, correction=correction)


def test_variance_is_exact_far_from_zero():
    x = torch.randn(1000, dtype=torch.float64) + 1e6
    check(aten.var.correction, x, [0])
    check(aten.var.correction, torch.tensor([1.0, 2.0]) + 4e6, [0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("order", [2, 0, 1, 3, 2.5, -1, INF, -INF])
def test_vector_norms_agree(order, dtype):
    x = torch.randn(3, 7).to(dtype)
    check(aten.linalg_vector_norm.default, x, order)
    check(aten.linalg_vector_norm.default, x, order, [1], True)
    check(aten.linalg_vector_norm.default, x.float(), order, [0], dtype=torch.float64)


def test_logsumexp_survives_infinities_and_large_values():
    x = torch.tensor([[INF, 0.0], [-INF, -INF], [1e4, 1e4], [NAN, 0.0], [-INF, 2.0]])
    check(aten.logsumexp.default, x, [1])
    check(aten.logsumexp.default, x.bfloat16(), [0, 1], True)
    check(aten.logsumexp.default, torch.zeros(0, 3), [0])
    check(aten.logsumexp.default, torch.tensor([1, 2]), [0])
