"""Distances between points against the operator itself."""

import math

import pytest
import torch
from check_lowering import check, prims

aten = torch.ops.aten

SHAPES = [
    ((3, 4), (5, 4)),
    ((2, 1, 3, 4), (3, 5, 4)),
    ((30, 4), (5, 4)),
    ((3, 0), (5, 0)),
    ((0, 3), (5, 3)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("mode", [None, 1, 2])
def test_cdist(p: float, mode: int | None) -> None:
    for left, right in SHAPES:
        check(aten._cdist_forward.default, torch.randn(left), torch.randn(right), p, mode)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_cdist_treats_nan_and_infinity_as_torch_does(p: float) -> None:
    x = torch.tensor([[math.nan, 1, 2], [1, 2, math.nan], [math.inf, 0, 0]])
    check(aten._cdist_forward.default, x, torch.randn(2, 3), p, 2)


def test_many_points_go_through_a_product() -> None:
    graph = check(aten._cdist_forward.default, torch.randn(30, 4), torch.randn(5, 4), 2.0, None)
    assert "dot" in prims(graph)
