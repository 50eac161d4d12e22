"""Operators through torch.compile, where the whole road matters: constants, effects, eager runs."""

import math
import platform
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

aten = torch.ops.aten


def compiled_like_eager(fn: Callable[..., Any], *args: Any) -> None:
    """Asserts that `fn` compiled as one graph gives what it gives in eager torch."""
    counters.clear()
    got = torch.compile(fn, backend="tpu_tile", fullgraph=True)(*args)
    torch.testing.assert_close(got, fn(*args), equal_nan=True)


def test_a_failing_check_of_an_eager_call_raises() -> None:
    matrix = torch.eye(3) + torch.ones(3, 3)
    compiled_like_eager(lambda x: torch.linalg.cholesky(x) * 2, matrix)
    compiled_like_eager(lambda x: torch.linalg.solve(x, torch.linalg.inv(x)), matrix)
    factor = torch.compile(torch.linalg.cholesky, backend="tpu_tile")
    with pytest.raises(torch.linalg.LinAlgError):
        factor(-matrix)


def test_effects_of_a_training_graph() -> None:
    matrix = (torch.eye(3) + torch.ones(3, 3)).requires_grad_()
    results = []
    for fn in (torch.linalg.inv, torch.compile(torch.linalg.inv, backend="tpu_tile")):
        (grad,) = torch.autograd.grad(fn(matrix).exp().sum(), matrix)
        results.append(grad)
    torch.testing.assert_close(results[1], results[0])


def test_constants_of_a_graph() -> None:
    mask = torch.tensor([True, False, True])
    compiled_like_eager(lambda x: torch.masked.sum(x, 0, mask=mask), torch.randn(3))
    compiled_like_eager(lambda x: x + torch.tensor([1.0, -0.0, torch.inf]), torch.randn(3))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_needs_no_eager_call(mode: str, padding: str) -> None:
    image, grid = torch.randn(2, 3, 5, 4), torch.rand(2, 3, 3, 2) * 3 - 1.5
    compiled_like_eager(
        lambda x, g: F.grid_sample(x, g, mode, padding, align_corners=False),
        image,
        grid,
    )
    assert counters["tpu_tile"]["eager_ops"] == 0


def test_adaptive_max_pool_with_even_windows_needs_no_eager_call() -> None:
    compiled_like_eager(lambda x: F.adaptive_max_pool2d(x, 2), torch.randn(3, 4, 6))
    assert counters["tpu_tile"]["eager_ops"] == 0
    compiled_like_eager(lambda x: F.adaptive_max_pool2d(x, 4), torch.randn(3, 5, 6))


def test_bilinear_and_distances_need_no_eager_call() -> None:
    compiled_like_eager(F.bilinear, torch.randn(6, 3), torch.randn(6, 5), torch.randn(4, 3, 5))
    compiled_like_eager(torch.cdist, torch.randn(6, 3), torch.randn(5, 3))
    compiled_like_eager(torch.dist, torch.randn(6, 3), torch.randn(6, 3))
    assert counters["tpu_tile"]["eager_ops"] == 0


def test_a_matrix_times_a_stack_takes_its_epilogue() -> None:
    one, stack, points = torch.randn(5, 4), torch.randn(3, 4, 8), torch.randn(3, 3)
    bias, heads = torch.randn(3, 8), torch.randn(2, 3, 4, 5)
    compiled_like_eager(lambda x, w: torch.relu(x @ w), one, stack)
    compiled_like_eager(lambda x, w: torch.relu(x.t() @ w), torch.randn(4, 5), stack)
    compiled_like_eager(lambda x, w: torch.bmm(x.expand(3, 5, 4), w).exp(), one, stack)
    compiled_like_eager(lambda x, w: torch.bmm(w, x.expand(3, 8, 4).mT).exp(), one[:1], stack.mT)
    compiled_like_eager(lambda p, r: p @ r * 2 + 1, points, torch.randn(3, 3, 3))
    compiled_like_eager(lambda q, k: torch.tanh(q @ k), one[None, None], heads)
    layers = torch.vmap(lambda w, b, x: torch.relu(x @ w + b), (0, 0, None))
    compiled_like_eager(layers, stack, bias, one)


@pytest.mark.parametrize("search", [torch.argmax, torch.argmin])
def test_places_of_extremes(search: Callable[..., Any]) -> None:
    x = torch.tensor([[3.0, 1.0, 3.0], [0.0, torch.nan, 0.0]])
    images = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    for case in (x, x.T, x[:, :1], x.nan_to_num().long(), images, x[0, 0]):
        torch._dynamo.reset()
        compiled_like_eager(search, case)
    compiled_like_eager(lambda x: search(x.flatten(1), 1), images)
    compiled_like_eager(lambda x: search(x * 2, 1, keepdim=True), x[:, :1])
    compiled_like_eager(lambda x: tuple((x + 1).max(1)) + tuple((x + 1).min(1)), x[:, 1:2])


def test_numbers_in_the_place_of_tensors() -> None:
    x = torch.randn(3, 4)
    for fn in (
        lambda v: v.sum() / 3,
        lambda v: v.sum() * True,
        lambda v: torch.add(v.sum(), 3, alpha=2),
        lambda v: v.double().sum() - 0.1,
        lambda v: v.int().sum() // 3,
        lambda v: torch.where(v > 0, 2, v),
        lambda v: 2 ** v.sum(),
    ):
        compiled_like_eager(torch.vmap(fn), x)
    compiled_like_eager(torch.func.grad(lambda v: (v.sum() / 3) ** 2), x)


def test_the_difference_of_bools_that_torch_writes_raises_as_in_torch() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        y = x.expand(x.shape[0], *x.shape)
        y.mul_(y)
        return x

    compiled = torch.compile(write, backend="tpu_tile", dynamic=True)
    with pytest.raises(RuntimeError, match="Subtraction"):
        compiled(torch.ones(1, 2, 3, dtype=torch.bool))


def signed_like_eager(fn: Callable[..., Any], *args: Any) -> None:
    """As `compiled_like_eager`, and zeros have the same signs."""
    compiled_like_eager(fn, *args)
    for got, want in zip(torch.compile(fn, backend="tpu_tile")(*args), fn(*args), strict=True):
        assert torch.equal((got == 0) & got.signbit(), (want == 0) & want.signbit())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_sum_of_negative_zeros_is_positive(dtype: torch.dtype) -> None:
    images = torch.full((1, 2, 6, 6), -0.0, dtype=dtype)
    images[..., 3:, 3:] = 1

    def sums(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one = x[..., :1]
        return one.sum(-1), one.mean(-1), one.nansum(-1), one[0, 0, 0, 0].sum(), x.sum(0)

    def averages(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shared = (F.adaptive_avg_pool2d(x, size) for size in ((6, 6), (4, 5), (3, 6), (1, 6), 1))
        windows = (F.avg_pool2d(x, k) for k in (1, 2, (3, 1)))
        padded = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        return *shared, *windows, padded, F.avg_pool2d(x, 2, divisor_override=-3)

    def boxed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.adaptive_avg_pool3d(x, (1, 6, 4)), F.avg_pool3d(x, (1, 1, 2)), F.avg_pool3d(x, 1)

    signed_like_eager(sums, images)
    signed_like_eager(averages, images)
    signed_like_eager(boxed, images.float()[:, :, None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_constant_bound_keeps_the_sign_of_zero(dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0, math.nan, math.inf, -math.inf, 2, -2, 7], dtype=dtype).repeat(5)

    def bounded(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        limits = x.clamp(min=0), x.clamp(max=-0.0), x.clamp(0, 1), x.clamp(-1, -0.0)
        return *limits, torch.relu(x), F.relu6(x), F.hardtanh(x), F.hardtanh(x, 0, 1)

    signed_like_eager(bounded, x)
    compiled_like_eager(lambda x: (torch.relu(x).reshape(5, 8).sum(0), torch.relu(x).amax()), x)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="torch asks the processor"
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_floats_that_no_integer_holds_convert_as_on_x86(dtype: torch.dtype) -> None:
    ends = [2.0**n + e for n in (7, 8, 15, 16, 31, 32, 63) for e in (-1, -0.5, 0, 1)]
    limit = torch.finfo(dtype).max
    numbers = [n for x in (*ends, 70000.0, 1e19, 1e30) for n in (x, -x) if abs(n) <= limit]
    x = torch.tensor([*numbers, math.nan, math.inf, -math.inf], dtype=dtype)
    signed = torch.int8, torch.int16, torch.int32, torch.int64
    targets = *signed, torch.uint8, torch.uint16, torch.uint64, torch.bool
    compiled_like_eager(lambda x: tuple(x.to(to) for to in targets), x)
    compiled_like_eager(lambda x: torch.zeros_like(x, dtype=torch.int32).copy_(x), x)
