"""Pointwise and creation lowerings against the operators themselves, on awkward numbers."""

import math
from typing import Any

import pytest
import torch
from check_lowering import check

aten = torch.ops.aten

NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 7.25, -9.0, 1e-3, 100.0]
EDGES = [*NUMBERS, math.inf, -math.inf, math.nan]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.int64, torch.int32, torch.int8, torch.uint8]


def grid(values: list[float], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of `values`."""
    x = torch.tensor(values, dtype=dtype)
    return x[:, None], x[None, :]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "op",
    [
        aten.add.Tensor,
        aten.sub.Tensor,
        aten.mul.Tensor,
        aten.div.Tensor,
        aten.floor_divide.default,
        aten.remainder.Tensor,
        aten.fmod.Tensor,
        aten.maximum.default,
        aten.minimum.default,
        aten.fmax.default,
        aten.fmin.default,
        aten.copysign.Tensor,
        aten.atan2.default,
        aten.hypot.default,
        aten.eq.Tensor,
        aten.lt.Tensor,
        aten.ge.Tensor,
    ],
)
def test_binary_on_edges(op: Any, dtype: torch.dtype) -> None:
    check(op, *grid(EDGES, dtype))


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_division(mode: str | None, dtype: torch.dtype) -> None:
    values = [v for v in (1, 2, 3, 7, -1, -3, 100) if dtype is not torch.uint8 or v > 0]
    check(aten.div.Tensor_mode, *grid(values, dtype), rounding_mode=mode)
    check(aten.div.Scalar_mode, grid(values, dtype)[0], 3, rounding_mode=mode)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", [aten.remainder.Tensor, aten.fmod.Tensor, aten.floor_divide.default])
def test_integer_division_signs(op: Any, dtype: torch.dtype) -> None:
    check(op, *grid([1, 2, 5, 100, *([-1, -2, -7] if dtype is not torch.uint8 else [])], dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "op",
    [
        aten.sign.default,
        aten.signbit.default,
        aten.abs.default,
        aten.neg.default,
        aten.round.default,
        aten.floor.default,
        aten.trunc.default,
        aten.isnan.default,
        aten.isinf.default,
        aten.isfinite.default,
        aten.sigmoid.default,
        aten.tanh.default,
        aten.relu.default,
        aten.gelu.default,
        aten.silu.default,
        aten.hardswish.default,
        aten.hardsigmoid.default,
        aten.elu.default,
        aten.leaky_relu.default,
        aten.softplus.default,
        aten.reciprocal.default,
        aten.sqrt.default,
        aten.expm1.default,
        aten.logical_not.default,
    ],
)
def test_unary_on_edges(op: Any, dtype: torch.dtype) -> None:
    check(op, torch.tensor(EDGES, dtype=dtype))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 0.5, -0.5, -1, -2, 2.5, -3.0])
@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_floats(exponent: float, dtype: torch.dtype) -> None:
    check(aten.pow.Tensor_Scalar, torch.tensor(EDGES, dtype=dtype), exponent)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 64])
def test_powers_of_integers_wrap(exponent: int) -> None:
    check(aten.pow.Tensor_Scalar, torch.tensor([0, 1, -1, 3, -7, 2**40]), exponent)
    check(aten.pow.Tensor_Scalar, torch.tensor([0, 1, 3, -7], dtype=torch.int8), exponent)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integer_powers_of_tensors_wrap(dtype: torch.dtype) -> None:
    base = torch.tensor([0, 1, -1, 2, 3, -7]).to(dtype)[:, None]
    power = torch.tensor([0, 1, 2, 3, 9, 64, 65, 70]).to(dtype)
    check(aten.pow.Tensor_Tensor, base, power)
    check(aten.pow.Scalar, 2, power)
    if dtype.is_signed:
        check(aten.pow.Tensor_Tensor, base[1:], -power)


def test_types_promote_as_in_torch() -> None:
    one, half = torch.ones(3, dtype=torch.int32), torch.tensor(0.5, dtype=torch.float64)
    check(aten.add.Tensor, one, half)
    check(aten.add.Tensor, torch.ones(3, dtype=torch.bfloat16), half)
    check(aten.mul.Tensor, one, 2.5)
    check(aten.mul.Tensor, torch.tensor([True, False]), torch.tensor([True, True]))
    check(aten.add.Tensor, torch.tensor([True, False]), torch.tensor([True, True]))
    check(aten.div.Tensor, one, torch.tensor([2, 3, 4]))
    check(aten.where.self, one > 0, one, half)
    check(aten.lt.Scalar, one, 1.5)


def test_comparison_rounds_the_number_to_the_tensors_type() -> None:
    check(aten.gt.Scalar, torch.tensor([0.1], dtype=torch.bfloat16), 0.1)
    check(aten.eq.Scalar, torch.tensor([0.1], dtype=torch.float16), 0.1)


@pytest.mark.parametrize("op", [aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.ge.Tensor])
def test_bools_compare(op: Any) -> None:
    check(op, *grid([0, 1], torch.bool))


@pytest.mark.parametrize("dtype", INTS)
def test_bitwise_and_shifts(dtype: torch.dtype) -> None:
    values = [0, 1, 5, 100, *([-1, -100] if dtype is not torch.uint8 else [])]
    for op in (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor):
        check(op, *grid(values, dtype))
    check(aten.bitwise_not.default, torch.tensor(values, dtype=dtype))
    for op in (aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_right_shift.Tensor_Scalar):
        check(op, torch.tensor(values, dtype=dtype), 3)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_clamp(dtype: torch.dtype) -> None:
    x = torch.tensor(NUMBERS, dtype=torch.float32).abs().to(dtype)
    check(aten.clamp.default, x, 1, 5)
    check(aten.clamp.default, x, None, 2)
    check(aten.clamp.default, x, 0.5, math.nan)
    check(aten.clamp.Tensor, x, torch.tensor(2, dtype=dtype), None)


@pytest.mark.parametrize("dtype", FLOATS)
def test_three_operands(dtype: torch.dtype) -> None:
    x, y, z = (torch.randn(7, dtype=torch.float64).to(dtype) for _ in range(3))
    check(aten.addcmul.default, x, y, z, value=0.3)
    check(aten.addcdiv.default, x, y, z, value=2)
    check(aten.lerp.Scalar, x, y, 0.7)
    check(aten.lerp.Tensor, x, y, z)
    check(aten.threshold_backward.default, x, y, 0.1)
    check(aten.sigmoid_backward.default, x, y)
    check(aten.tanh_backward.default, x, y)
    check(aten.silu_backward.default, x, y)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool])
def test_creation(dtype: torch.dtype) -> None:
    x = torch.zeros(2, 3, dtype=dtype)
    check(aten.full.default, (2, 3), 1, dtype=dtype)
    check(aten.full_like.default, x, 1)
    check(aten.ones_like.default, x)
    check(aten.masked_fill.Scalar, x, torch.eye(2, 3) > 0, 1)
    check(aten.tril.default, torch.ones(2, 3, 5).to(dtype), 1)
    check(aten.triu.default, torch.ones(4, 3).to(dtype), -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
def test_ranges(dtype: torch.dtype) -> None:
    check(aten.arange.default, 7, dtype=dtype)
    check(aten.arange.start, 3, 11, dtype=dtype)
    check(aten.arange.start_step, 10, -7, -3, dtype=dtype)
    check(aten.arange.default, 0, dtype=dtype)


@pytest.mark.parametrize("source", [*FLOATS, *INTS, torch.bool])
@pytest.mark.parametrize("target", [*FLOATS, *INTS, torch.bool])
def test_conversions(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor([0, 1, 2.75, 100, 0.25]).to(source)
    check(aten._to_copy.default, x, dtype=target)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_angle_of_real_numbers(dtype: torch.dtype) -> None:
    numbers = [-1.0, 0.0, -0.0, 2.0]
    if dtype.is_floating_point:
        numbers += [math.nan, math.inf, -math.inf]
    check(aten.angle.default, torch.tensor(numbers).to(dtype))
