"""Layer, RMS, group and batch norm, their gradients, and the losses against torch."""

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject
from tpu_inductor.graph.interp import run
from tpu_inductor.lowerings import batch_norm, loss, norm

aten = torch.ops.aten

REGISTERED = (batch_norm, loss, norm)
DTYPES = [torch.float32, torch.bfloat16, torch.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@dtypes
@pytest.mark.parametrize("shape", [(7,), (3, 129), (2, 1, 5), (0, 4), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_and_gradient_agree(shape, affine, dtype):
    for tail in {1, min(2, len(shape))}:
        inner = list(shape[-tail:])
        x, grad = randn(*shape, dtype=dtype), randn(*shape, dtype=dtype)
        if 0 in inner:
            continue
        w, c = (randn(*inner, dtype=dtype), randn(*inner, dtype=dtype)) if affine else (None, None)
        check(aten.native_layer_norm.default, x, inner, w, c, 1e-5)
        _, mean, rstd = aten.native_layer_norm(x, inner, w, c, 1e-5)
        backward = aten.native_layer_norm_backward.default
        args = (grad, x, inner, mean, rstd, w, c)
        if affine:
            check(backward, *args, [True, True, True])
            check(backward, *args, [False, False, True])
        check(backward, *args, [True, False, False])


def test_layer_norm_takes_parameters_of_another_type():
    x = randn(3, 8, dtype=torch.bfloat16)
    check(aten.native_layer_norm.default, x, [8], randn(8), randn(8), 1e-5, same_dtype=False)


def test_norm_of_nothing_is_left_to_torch():
    assert isinstance(
        lower(aten.native_layer_norm.default, randn(2, 0), [0], None, None, 1e-5), Reject
    )


@dtypes
@pytest.mark.parametrize("eps", [None, 1e-3])
def test_rms_norm_agrees(eps, dtype):
    x, w = randn(3, 5, 7, dtype=dtype), randn(7, dtype=dtype)
    check(aten._fused_rms_norm.default, x, [7], w, eps)
    check(aten._fused_rms_norm.default, x, [5, 7], None, eps)


@dtypes
def test_rms_norm_gradient_agrees(dtype):
    x, w, grad = randn(3, 5, 7, dtype=dtype), randn(7, dtype=dtype), randn(3, 5, 7, dtype=dtype)
    _, rstd = aten._fused_rms_norm(x, [7], w, 1e-5)
    backward = aten._fused_rms_norm_backward.default
    fn = torch._decomp.decomposition_table[backward]
    for mask in ([True, True], [False, True], [True, False]):
        graph, tensors = lower(backward, grad, x, [7], rstd, w, mask)
        wanted = [g for g in fn(grad, x, [7], rstd, w, mask) if g is not None]
        for got, want in zip(run(graph, tensors), wanted, strict=True):
            torch.testing.assert_close(got, want)


@dtypes
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_and_gradient_agree(groups, affine, dtype):
    x, grad = randn(2, 6, 3, 5, dtype=dtype), randn(2, 6, 3, 5, dtype=dtype)
    w, c = (randn(6, dtype=dtype), randn(6, dtype=dtype)) if affine else (None, None)
    check(aten.native_group_norm.default, x, w, c, 2, 6, 15, groups, 1e-5)
    _, mean, rstd = aten.native_group_norm(x, w, c, 2, 6, 15, groups, 1e-5)
    args = (grad, x, mean, rstd, w, 2, 6, 15, groups)
    check(aten.native_group_norm_backward.default, *args, [True, affine, affine])
    check(aten.native_group_norm_backward.default, *args, [True, False, False])


@dtypes
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_agrees_in_training_and_inference(shape, affine, dtype):
    x = randn(*shape, dtype=dtype)
    w, c = (randn(3, dtype=dtype), randn(3, dtype=dtype)) if affine else (None, None)
    mean, var = randn(3, dtype=dtype), randn(3, dtype=dtype).abs() + 0.5
    for training in (True, False):
        args = (x, w, c, mean, var, training, 0.1, 1e-5)
        check(aten._native_batch_norm_legit_functional.default, *args, same_dtype=False)
    check(aten._native_batch_norm_legit.no_stats, x, w, c, True, 0.1, 1e-5)
    check(aten._native_batch_norm_legit_no_training.default, x, w, c, mean, var, 0.1, 1e-5)
    check(aten.native_batch_norm.default, x, w, c, mean, var, False, 0.1, 1e-5)


@dtypes
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_gradient_agrees(train, affine, dtype):
    x, grad = randn(4, 3, 5, dtype=dtype), randn(4, 3, 5, dtype=dtype)
    w = randn(3, dtype=dtype) if affine else None
    mean, var = randn(3, dtype=dtype), randn(3, dtype=dtype).abs() + 0.5
    _, save_mean, save_rstd = aten.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-5)
    args = (grad, x, w, mean, var, save_mean, save_rstd, train, 1e-5)
    check(aten.native_batch_norm_backward.default, *args, [True, affine, affine])
    check(aten.native_batch_norm_backward.default, *args, [True, False, False])


def test_batch_norm_that_writes_its_statistics_is_refused():
    x, stat = randn(4, 3), torch.ones(3)
    args = (x, None, None, stat, stat, True, 0.1, 1e-5)
    assert isinstance(lower(aten.native_batch_norm.default, *args), Reject)


# -- losses --------------------------------------------------------------------


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
