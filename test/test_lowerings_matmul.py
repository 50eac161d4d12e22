"""Matrix products against torch."""

import math

import pytest
import torch
from check_lowering import check, prims

aten = torch.ops.aten

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
sizes = pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (7, 129, 3), (4, 0, 5), (0, 3, 2)])


def sample(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return (torch.randn(shape) * (1 if dtype.is_floating_point else 60)).to(dtype)


@dtypes
@sizes
def test_products_of_two_matrices_agree(n, k, m, dtype):
    x, y = sample(n, k, dtype=dtype), sample(k, m, dtype=dtype)
    check(aten.mm.default, x, y)
    check(aten.bmm.default, sample(2, n, k, dtype=dtype), sample(2, k, m, dtype=dtype))
    check(aten.mv.default, x, sample(k, dtype=dtype))
    check(aten.dot.default, sample(k, dtype=dtype), sample(k, dtype=dtype) + 1)


@dtypes
@sizes
def test_products_with_a_term_agree(n, k, m, dtype):
    x, y = sample(n, k, dtype=dtype), sample(k, m, dtype=dtype)
    xs, ys = sample(2, n, k, dtype=dtype), sample(2, k, m, dtype=dtype)
    for scales in ({}, {"alpha": 2, "beta": 3}, {"beta": 0}):
        check(aten.addmm.default, sample(m, dtype=dtype), x, y, **scales)
        check(aten.addmm.default, sample(n, 1, dtype=dtype), x, y, **scales)
        check(aten.baddbmm.default, sample(n, m, dtype=dtype), xs, ys, **scales)
        if dtype is not torch.bfloat16:  # torch rounds the sum after each batch
            check(aten.addbmm.default, sample(n, m, dtype=dtype), xs, ys, **scales)
        check(aten.addmv.default, sample(n, dtype=dtype), x, sample(k, dtype=dtype), **scales)


def test_a_beta_of_zero_hides_nan():
    nan = torch.full((3, 2), math.nan)
    check(aten.addmm.default, nan, sample(3, 4), sample(4, 2), beta=0)


def test_int8_product_accumulates_in_int32():
    x, y = sample(20, 32, dtype=torch.int8), sample(32, 16, dtype=torch.int8)
    assert prims(check(aten._int_mm.default, x, y)) == ["dot"]
    assert prims(check(aten.mm.default, x, y)) == ["dot", "convert"]


def test_half_addmm_rounds_once():
    bf16 = torch.bfloat16
    bias, x, y = sample(3, dtype=bf16), sample(2, 4, dtype=bf16), sample(4, 3, dtype=bf16)
    kinds = prims(check(aten.addmm.default, bias, x, y))
    assert kinds == ["dot", "convert", "broadcast", "add", "convert"]


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
def test_linear_keeps_leading_dimensions(shape):
    x, w = sample(*shape), sample(5, 4)
    assert "reshape" not in prims(check(aten.linear.default, x, w, sample(5)))
    check(aten.linear.default, x, w)


@pytest.mark.parametrize(
    ("setting", "precision"), [("highest", "highest"), ("high", "high"), ("medium", "default")]
)
def test_float32_precision_follows_torch(setting, precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(setting)
    try:
        (eqn,) = check(aten.mm.default, sample(3, 4), sample(4, 5)).eqns
    finally:
        torch.set_float32_matmul_precision(before)
    assert eqn.attrs.precision == precision


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trilinear_and_its_gradients(dtype: torch.dtype) -> None:
    x, weight, y = (torch.randn(s, dtype=dtype) for s in ((6, 3), (4, 3, 5), (6, 5)))
    grad = torch.randn(6, 4, dtype=dtype)
    op = aten._trilinear.default
    assert prims(check(op, x, weight, y, [1, 3], [0], [1, 2], [2, 3])) == ["dot", "dot"]
    check(op, grad, weight, y, [2, 3], [0], [1, 2], [1, 3])
    check(op, x, grad, y, [1, 3], [2, 3], [1, 2], [0])
    check(op, x, weight, y, [1, 3], [0], [1, 2], [])
    check(op, x, weight, y, [1, 3], [0], [1, 2], [0, 1, 2, 3])
