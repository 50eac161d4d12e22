"""Pooling and resampling, and their gradients, against the operators themselves."""

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")

GEOMETRIES = [
    ([2, 2], [], [0, 0], [1, 1], False),
    ([3, 2], [2, 1], [1, 1], [1, 1], True),
    ([3, 3], [2, 2], [1, 1], [2, 3], False),
    ([1, 4], [3, 3], [0, 2], [1, 1], True),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_max_pool(geometry: tuple[object, ...], dtype: torch.dtype) -> None:
    x = (torch.arange(2 * 3 * 9 * 8) * 37 % 23).reshape(2, 3, 9, 8).to(dtype)
    check(aten.max_pool2d_with_indices.default, x, *geometry)


def test_max_pool_of_nan_and_of_minus_infinity() -> None:
    x = torch.full((1, 6, 6), -INF)
    x[0, 1, 1] = x[0, 4, 4] = x[0, 4, 5] = NAN
    check(aten.max_pool2d_with_indices.default, x, [3, 3], [2, 2], [1, 1], [1, 1], True)
    check(aten.max_pool2d_with_indices.default, x, [2, 2], [1, 1], [1, 1], [2, 2])


def test_max_pool3d() -> None:
    check(aten.max_pool3d_with_indices.default, torch.randn(2, 5, 6, 7), [2, 3, 2], [2, 1, 2])


def test_max_pool_gradient_adds_where_windows_overlap() -> None:
    x = torch.randn(2, 3, 6, 7)
    geometry = ([3, 3], [1, 2], [1, 1], [1, 1], False)
    values, indices = aten.max_pool2d_with_indices.default(x, *geometry)
    grad = torch.randn_like(values)
    check(aten.max_pool2d_with_indices_backward.default, grad, x, *geometry, indices)


@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("divisor", [None, 5])
@pytest.mark.parametrize("size", [6, 7, 8])
def test_avg_pool_and_gradient(
    include_pad: bool, ceil_mode: bool, divisor: int | None, size: int
) -> None:
    x = torch.randn(2, size, size + 1)
    geometry = ([3, 2], [2, 3], [1, 1], ceil_mode, include_pad, divisor)
    check(aten.avg_pool2d.default, x, *geometry)
    grad = torch.randn_like(aten.avg_pool2d.default(x, *geometry))
    check(aten.avg_pool2d_backward.default, grad, x, *geometry)
    deep = torch.randn(2, 5, size, size)
    check(aten.avg_pool3d.default, deep, [2, 3, 2], [2], [1], ceil_mode, include_pad, divisor)


@pytest.mark.parametrize("out", [(1, 1), (3, 4), (5, 2), (7, 10)])
def test_adaptive_avg_pool_and_gradient(out: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 6, 8)
    check(aten._adaptive_avg_pool2d.default, x, out)
    check(aten._adaptive_avg_pool2d_backward.default, torch.randn(2, 3, *out), x)
    check(aten._adaptive_avg_pool3d.default, torch.randn(2, 3, 5, 6, 8), (2, *out))


def test_wide_windows_are_rejected() -> None:
    x = torch.randn(1, 20, 300)
    assert isinstance(lower(aten.max_pool2d_with_indices.default, x, [1, 256]), Reject)
    check(aten.max_pool2d_with_indices.default, x, [17, 17])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("size", [5, 13])
def test_ties_go_to_the_first_place_in_row_major_order(dtype: torch.dtype, size: int) -> None:
    x = torch.randint(-2, 2, (2, 3, 14, 17)).to(dtype)
    for stride, pad, dilation in ((1, size // 2, 1), (2, 1, 1), (3, size // 2, 2)):
        geometry = ([size], [stride], [pad], [dilation if size == 5 else 1], True)
        check(aten.max_pool2d_with_indices.default, x, *geometry)
    zeros = torch.zeros(1, 14, 17).to(dtype)
    zeros[0, ::2] = -zeros[0, ::2]
    check(aten.max_pool2d_with_indices.default, zeros, [size], [1], [size // 2])


def test_the_last_nan_of_a_window_wins() -> None:
    x = torch.randn(1, 12, 11)
    x[torch.rand(x.shape) < 0.2] = NAN
    x[torch.rand(x.shape) < 0.2] = INF
    check(aten.max_pool2d_with_indices.default, x, [5, 4], [2, 1], [2, 2], [1, 2], True)
    check(aten.max_pool3d_with_indices.default, x[None], [1, 3, 5], [1, 2, 1], [0, 1, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_windows_of_nothing_but_the_lowest_take_their_first_place_inside(
    dtype: torch.dtype,
) -> None:
    low = -INF if dtype.is_floating_point else torch.iinfo(dtype).min
    x = torch.full((1, 9, 8), low, dtype=dtype)
    check(aten.max_pool2d_with_indices.default, x, [5, 3], [2, 1], [2, 1], [2, 3])
    check(aten.max_pool2d_with_indices.default, x, [3, 3], [2, 2], [0, 0], [1, 1], True)


def test_a_program_grows_with_the_sum_of_a_window() -> None:
    x = torch.randn(1, 40, 40)
    small, large = (
        len(check(aten.max_pool2d_with_indices.default, x, [k, k], [1, 1]).eqns) for k in (5, 15)
    )
    assert large - small == 2 * 10 * 7


@pytest.mark.parametrize("out", [(5, 7), (10, 14), (3, 4), (15, 5), (1, 1)])
def test_nearest(out: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 5, 7)
    for op in (aten.upsample_nearest2d, aten._upsample_nearest_exact2d):
        check(op.default, x, out)
    check(aten.upsample_nearest2d_backward.default, torch.randn(2, 3, *out), out, [2, 3, 5, 7])


@pytest.mark.parametrize("scale", [1.7, 2.0, 3.0, 0.6])
def test_nearest_follows_the_given_scale(scale: float) -> None:
    out = int(7 * scale)
    check(aten.upsample_nearest1d.default, torch.randn(2, 3, 7), [out], scale)
    check(aten._upsample_nearest_exact1d.default, torch.randn(2, 3, 7), [out], scale)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("out", [(5, 7), (11, 3), (1, 1), (10, 14)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bilinear_and_gradient(
    align_corners: bool, out: tuple[int, int], dtype: torch.dtype
) -> None:
    x, grad = torch.randn(2, 3, 5, 7, dtype=dtype), torch.randn(2, 3, *out, dtype=dtype)
    check(aten.upsample_bilinear2d.default, x, out, align_corners)
    shape = [2, 3, 5, 7]
    check(aten.upsample_bilinear2d_backward.default, grad, out, shape, align_corners)
