"""Scans, sorts and order statistics against the operators themselves."""

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")
MIXED = torch.tensor([[1.0, NAN, 3.0, 3.0, -INF], [2.0, 2.0, -0.0, 0.0, 5.0]])


@pytest.mark.parametrize("op", [aten.cumsum.default, aten.cumprod.default])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_cumulative(op: torch._ops.OpOverload, dtype: torch.dtype) -> None:
    x = (torch.arange(24).reshape(2, 3, 4) % 3).to(dtype)
    check(op, x, 1)
    check(op, x[0, 0, 0].clone(), 0)
    check(op, x[:0], -1)
    check(op, x, -1, dtype=torch.float64)


@pytest.mark.parametrize("op", [aten.cummax.default, aten.cummin.default])
def test_running_extremes_take_the_last_place_and_spread_nan(op: torch._ops.OpOverload) -> None:
    check(op, MIXED, 1)
    check(op, torch.tensor([3, 1, 3, 2, 1]), 0)
    check(op, torch.tensor([False, True, False]), 0)
    check(op, torch.tensor(2.0), 0)


@pytest.mark.parametrize("descending", [False, True])
def test_stable_sort(descending: bool) -> None:
    check(aten.sort.stable, MIXED, stable=True, dim=1, descending=descending)
    check(aten.sort.stable, MIXED > 1, stable=True, dim=0, descending=descending)
    check(aten.sort.default, torch.tensor(3), 0, descending)
    check(aten.sort.default, torch.empty(0, 3), 1, descending)


def test_orders_that_torch_leaves_open_are_rejected() -> None:
    assert isinstance(lower(aten.sort.default, torch.ones(100, dtype=torch.bool)), Reject)
    assert isinstance(lower(aten.topk.default, torch.arange(5), 2), Reject)
    assert isinstance(lower(aten.kthvalue.default, torch.arange(5), 2), Reject)


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest: bool) -> None:
    x = torch.randn(4, 7)
    check(aten.topk.default, x, 3, 1, largest)
    check(aten.topk.default, x, 4, 0, largest)
    check(aten.topk.default, x, 0, 0, largest)


def test_order_statistics() -> None:
    x = torch.randn(3, 5)
    check(aten.kthvalue.default, x, 2, 1, True)
    check(aten.median.dim, x, 0)
    check(aten.median.default, x)
    x[1, 2] = x[2, 2] = NAN
    check(aten.median.dim, x, 1, True)
    check(aten.nanmedian.dim, x, 1)
    check(aten.nanmedian.default, torch.tensor([NAN, NAN]))
