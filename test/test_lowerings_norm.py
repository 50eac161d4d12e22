"""Layer, RMS and group norm and their gradients against torch."""

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject
from tpu_inductor.graph.interp import run

aten = torch.ops.aten

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
