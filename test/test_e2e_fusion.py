"""What a user would call obvious: how many kernels functions become, and what these read."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

import tpu_inductor

TPU = {"target": "v5e", "interpret": True, "prefer": "pallas"}

ROWS, COLS = 48, 256


def counted(fn: Callable[..., object], *args: Tensor, **options: object) -> dict[str, int]:
    """The work that `fn` becomes on a TPU, where it gives what eager gives."""
    counters.clear()
    got = torch.compile(fn, backend="tpu_tile", fullgraph=True, options=TPU | options)(*args)
    torch.testing.assert_close(got, fn(*args), rtol=2e-2, atol=2e-2, equal_nan=True)
    return dict(counters["tpu_tile"])


def assert_one_kernel(fn: Callable[..., object], *args: Tensor, **options: object) -> None:
    work = counted(fn, *args, **options)
    assert work == {"programs": 1, "kernels": 1, "xla_ops": 0, "eager_ops": 0}, work


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape or (ROWS, COLS)).to(dtype)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """As transformers spells it."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def test_a_pointwise_chain_is_one_kernel():
    assert_one_kernel(lambda x, y: torch.sigmoid(torch.sin(torch.relu(x * y))), rows(), rows())
    assert_one_kernel(lambda a, b: F.gelu(a, approximate="tanh") * b, rows(), rows())
    assert_one_kernel(lambda a, b: F.silu(a) * b, rows(), rows())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_is_one_kernel(dtype):
    assert_one_kernel(lambda x: F.softmax(x, -1), rows(dtype=dtype))
    assert_one_kernel(lambda x: F.log_softmax(x * 0.5, -1), rows(dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_are_one_kernel(dtype):
    x, weight, bias = rows(dtype=dtype), rows(COLS, dtype=dtype), rows(COLS, dtype=dtype)
    assert_one_kernel(lambda x, w, b: F.layer_norm(x, (COLS,), w, b), x, weight, bias)
    assert_one_kernel(lambda x, w: F.rms_norm(x, (COLS,), w), x, weight)
    assert_one_kernel(rms_norm, x, weight)


@pytest.mark.parametrize(
    "norm",
    [
        lambda x, w: F.layer_norm(x, (COLS,), w),
        lambda x, w: F.rms_norm(x, (COLS,), w),
        rms_norm,
    ],
    ids=["layer_norm", "rms_norm", "spelled out"],
)
def test_a_residual_before_and_a_cast_after_join_the_norm(norm):
    def block(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        total = x + residual
        return norm(total, weight).to(torch.bfloat16), total

    assert_one_kernel(block, rows(), rows(), rows(COLS))


def test_a_norm_reads_its_input_once():
    explained = tpu_inductor.explain(rms_norm, rows(), rows(COLS), options={"target": "v5e"})
    (lowered,) = [g.lowered for g in explained.graphs]
    (schedule,) = lowered.scheduled.schedules.values()
    assert [o.var.type.dims for o in schedule.inputs].count((ROWS, COLS)) == 1
    assert len(schedule.outputs) == 1


def test_a_matmul_takes_its_epilogue():
    x, w, bias, residual = rows(ROWS, 64), rows(COLS, 64), rows(COLS), rows()
    for approximate in ("none", "tanh"):
        assert_one_kernel(
            lambda x, w, b, r, a=approximate: F.gelu(F.linear(x, w, b), approximate=a) + r,
            x, w, bias, residual, prefer="auto",
        )  # fmt: skip
    assert_one_kernel(lambda x, w, b: torch.relu(torch.addmm(b, x, w.t())), x, w, bias)
    assert_one_kernel(lambda x, y: torch.bmm(x, y).tanh(), rows(4, 48, 64), rows(4, 64, 136))


def test_a_matmul_takes_a_residual_of_another_view():
    def linear(x: Tensor, w: Tensor, residual: Tensor) -> Tensor:
        return F.linear(x, w) + residual

    assert_one_kernel(linear, rows(2, 24, 64), rows(COLS, 64), rows(2, 24, COLS))


def test_views_do_not_split_a_region():
    def views(x: Tensor, y: Tensor) -> Tensor:
        z = torch.exp(x).view(4, ROWS // 4, COLS) * y
        return (z.reshape(ROWS, COLS) + x).view(4, -1, COLS).sum(-1)

    assert_one_kernel(views, rows(), rows(4, ROWS // 4, COLS))


def test_the_consumers_of_a_reduction_join_it():
    assert_one_kernel(lambda x: x - x.mean(-1, keepdim=True), rows())
    assert_one_kernel(lambda x: x.amax(-1, keepdim=True) * x.exp(), rows())
    assert_one_kernel(lambda x: x.sum(0).tanh(), rows())


def test_two_results_share_a_kernel():
    assert_one_kernel(lambda x: (x + 1, x * 2), rows())
    assert_one_kernel(lambda x, y: (x + y, x - y, (x * y).sum(-1)), rows(), rows())


def test_masks_are_made_in_the_kernel():
    assert_one_kernel(lambda x: torch.tril(x), rows(64, 64))
    work = counted(lambda x: torch.where((x[:, :1] > 0).expand_as(x), x, 0), rows())
    assert (work["kernels"], work["xla_ops"]) == (1, 1)


def test_a_transposed_operand_does_not_split_a_region():
    assert_one_kernel(lambda x, y: x * y.t(), rows(), rows(COLS, ROWS))
    assert_one_kernel(lambda x: x + x.t(), rows(64, 64))


def test_everything_between_two_eager_calls_is_one_program():
    def model(x: Tensor, w: Tensor) -> Tensor:
        return F.softmax(torch.cumsum(F.relu(x @ w), 0) @ w, -1)

    work = counted(model, rows(64, 64), rows(64, 64))
    assert (work["programs"], work["eager_ops"]) == (1, 0)


def test_what_would_be_no_faster_is_left_to_xla():
    for fn in (lambda x: (x @ x).cumsum(0), lambda x: x.t().contiguous()):
        work = counted(fn, rows(64, 64), prefer="auto")
        assert (work["programs"], work["kernels"], work["eager_ops"]) == (1, 0, 0), work


def test_fuel_limits_kernels_and_preferring_xla_makes_none():
    def two(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp(), y.sum(0)

    assert counted(two, rows(), rows())["kernels"] == 2
    assert counted(two, rows(), rows(), fuel=1)["kernels"] == 1
    assert counted(two, rows(), rows(), prefer="xla")["kernels"] == 0
