"""Mean square error and negative log-likelihood against torch."""

import math

import pytest
import torch
import torch.nn.functional as F
from check_lowering import check, lower

from tpu_inductor import explain
from tpu_inductor.graph.interp import run

aten = torch.ops.aten

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


@dtypes
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (3, 7), (0, 3)], ids=str)
def test_mean_square_error_agrees(shape, reduction, dtype):
    x, y = randn(*shape, dtype=dtype), randn(*shape, dtype=dtype)
    check(aten.mse_loss.default, x, y, reduction)
    grad = randn(*(shape if reduction == 0 else ()), dtype=dtype)
    if x.numel():  # torch cannot trace the gradient of a mean of nothing
        check(aten.mse_loss_backward.default, grad, x, y, reduction)


NLL = {
    (5,): (aten.nll_loss_forward.default, aten.nll_loss_backward.default),
    (4, 5): (aten.nll_loss_forward.default, aten.nll_loss_backward.default),
    (2, 5, 3, 4): (aten.nll_loss2d_forward.default, aten.nll_loss2d_backward.default),
}


@dtypes
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", list(NLL), ids=str)
def test_negative_log_likelihood_agrees(shape, weighted, reduction, dtype):
    forward, backward = NLL[shape]
    x = randn(*shape, dtype=dtype)
    target = torch.randint(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    w = torch.rand(5).to(dtype) if weighted else None
    for ignore_index in (-100, int(target.flatten()[0])):
        check(forward, x, target, w, reduction, ignore_index)
        loss, total = forward(x, target, w, reduction, ignore_index)
        grad = torch.randn(loss.shape).to(dtype)
        check(backward, grad, x, target, w, reduction, ignore_index, total)


def test_every_target_ignored_gives_nan():
    x, target = randn(2, 3), torch.tensor([-100, -100])
    check(aten.nll_loss_forward.default, x, target, None, 1, -100)
    check(aten.nll_loss_forward.default, torch.full((2, 3), -float("inf")), target, None, 2, -100)


def test_a_target_that_is_no_class_gives_nan():
    graph, tensors = lower(
        aten.nll_loss_forward.default, randn(2, 3), torch.tensor([1, 3]), None, 0, -100
    )
    losses, _ = run(graph, tensors)
    assert losses.isnan().tolist() == [False, True]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3)], ids=str)
def test_cross_entropy_agrees_with_its_gradient(shape, reduction):
    x = randn(*shape)
    x[0, 0] = -math.inf
    target = torch.randint(0, 5, shape[:1] + shape[2:])
    target[-1] = -100
    torch._dynamo.reset()
    compiled = torch.compile(F.cross_entropy, backend="tpu_tile")
    results = []
    for function in (F.cross_entropy, compiled):
        leaf = x.clone().requires_grad_()
        loss = function(leaf, target, reduction=reduction)
        loss.sum().backward()
        results.append((loss.detach(), leaf.grad))
    torch.testing.assert_close(results[1], results[0])


def test_the_target_is_picked_before_the_logarithm_is_subtracted():
    (graph,) = explain(F.cross_entropy, randn(4, 5), torch.randint(0, 5, (4,))).graphs
    wide = [e for e in graph.lowered.plan.graph.eqns if e.prim == "sub" and e.out.type.rank == 2]
    assert [e.out.type.dims for e in wide] == [(4, 5), (4, 1)]
