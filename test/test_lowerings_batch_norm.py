"""Batch norm and its gradient against torch."""

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject

aten = torch.ops.aten

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


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


@dtypes
def test_batch_norm_with_a_reserve_agrees(dtype):
    x, grad = randn(4, 3, 5, dtype=dtype), randn(4, 3, 5, dtype=dtype)
    w, c, mean = randn(3, dtype=dtype), randn(3, dtype=dtype), randn(3, dtype=dtype)
    args = (x, w, c, mean, mean.abs() + 0.5, 0.1, 1e-5)
    check(aten._batch_norm_no_update.default, *args)
    update = aten._batch_norm_with_update_functional.default
    check(update, *args, same_dtype=False)
    _, save_mean, save_rstd, reserve, *_ = update(*args)
    saved = (w, mean, mean.abs(), save_mean, save_rstd, True, 1e-5, [True] * 3, reserve)
    check(aten.batch_norm_backward.default, grad, x, *saved)
