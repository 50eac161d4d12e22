"""Convolutions that torch runs between two programs: chosen, right, and no fallback."""

import logging

import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn.functional import conv1d, conv2d

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.graph.verify import verify
from tpu_inductor.lowerings.torch_conv import leave_to_torch


def depthwise(x, w):
    return conv2d(x, w, None, 1, 3, 1, x.shape[1]).relu() + x


def data(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# With one group the weights are more than the input, which is then copied to channels first.
@pytest.mark.parametrize("groups", [6, 1])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_call_computes_what_the_equation_means(rank, groups):
    window, size = (3, 2, 3)[:rank], (7, 8, 5)[:rank]
    b = Builder()
    x = b.input("x", TensorType((2, *size, 6), DType.F32))
    w = b.input("w", TensorType((6 if groups == 6 else 90, 6 // groups, *window), DType.F32))
    attrs = A.Conv(
        (2, 1, 1)[:rank],
        ((1, 1), (2, 2), (0, 0))[:rank],
        (1,) * rank,
        (1, 2, 1)[:rank],
        groups,
        "highest",
        True,
        "torch",
        "a reason",
    )
    graph = b.finish("g", [b.one("conv", x, w, attrs=attrs)])
    left = leave_to_torch(graph)
    verify(left)
    assert [eqn.prim for eqn in left.eqns] == ["eager"]
    assert "aten.convolution because a reason" in str(left)
    tensors = [data(*v.type.dims) for v in graph.inputs]
    (got,), (want,) = run(left, tensors), run(graph, [t.clone() for t in tensors])
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_a_large_depthwise_convolution_is_one_call_with_the_strides_of_eager(format):
    x, w = data(2, 64, 29, 17).to(memory_format=format), data(64, 1, 7, 7)
    counters.clear()
    got = torch.compile(depthwise, backend="tpu_tile")(x, w)
    assert counters["tpu_tile"]["eager_ops"] == 1
    want = depthwise(x, w)
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.double(), depthwise(x.double(), w.double()), atol=1e-4, rtol=0)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("batch", [1, 8])
def test_a_heavy_convolution_is_one_call_with_the_strides_of_eager(format, batch):
    def heavy(x, w):
        return conv2d(x, w, None, 1, 1).relu() + x

    x, w = data(batch, 256, 14, 14).to(memory_format=format), data(256, 256, 3, 3)
    counters.clear()
    got = torch.compile(heavy, backend="tpu_tile")(x, w)
    assert counters["tpu_tile"]["eager_ops"] == 1
    assert got.stride() == heavy(x, w).stride()
    torch.testing.assert_close(got.double(), heavy(x.double(), w.double()), atol=1e-3, rtol=0)


def test_torch_is_no_fallback_and_strict_mode_does_without(caplog):
    x, w = data(2, 64, 29, 17), data(64, 1, 7, 7)
    with caplog.at_level(logging.INFO, "tpu_inductor"):
        torch.compile(depthwise, backend="tpu_tile")(x, w)
    assert "runs eagerly" not in caplog.text
    torch._dynamo.reset()
    counters.clear()
    got = torch.compile(depthwise, backend="tpu_tile", options={"strict": True})(x, w)
    assert counters["tpu_tile"]["eager_ops"] == 0
    torch.testing.assert_close(got.double(), depthwise(x.double(), w.double()), atol=1e-4, rtol=0)


def test_gradients_pass_through_the_call():
    x, w = data(2, 256, 2100), data(256, 1, 4)

    def loss(x, w):
        return torch.sin(conv1d(x, w, None, 1, 3, 1, 256)).sum()

    def gradients(run, dtype):
        leaves = [t.to(dtype).requires_grad_() for t in (x.clone(), w.clone())]
        return torch.autograd.grad(run(*leaves), leaves)

    got = gradients(torch.compile(loss, backend="tpu_tile"), torch.float32)
    for mine, theirs in zip(got, gradients(loss, torch.float64), strict=True):
        assert ((mine - theirs).abs().max() / theirs.abs().max()).item() < 1e-5
