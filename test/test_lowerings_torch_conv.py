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


def left_to_torch(x, w, attrs):
    """What the call and what the equation compute, for operands of these shapes."""
    b = Builder()
    inputs = [b.input(name, TensorType(s, DType.F32)) for name, s in (("x", x), ("w", w))]
    graph = b.finish("g", [b.one("conv", *inputs, attrs=attrs)])
    left = leave_to_torch(graph)
    verify(left)
    assert [eqn.prim for eqn in left.eqns] == ["eager"]
    tensors = [data(*v.type.dims) for v in graph.inputs]
    return run(left, tensors)[0], run(graph, [t.clone() for t in tensors])[0]


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_transposed_call_computes_a_convolution_of_spread_elements(rank, groups):
    gaps, edges = (1, 2, 1)[:rank], ((1, 1), (2, 3), (-1, 1))[:rank]
    attrs = A.Conv(
        (1,) * rank, edges, (2, 1, 3)[:rank], gaps, groups, "highest", True, "torch_transposed"
    )
    got, want = left_to_torch(
        (2, *(5, 6, 4)[:rank], 6), (12, 6 // groups, *(3, 2, 3)[:rank]), attrs
    )
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize(
    ("size", "padding", "stride", "dilation"),
    [
        ((9,), (1,), (2,), (1,)),
        ((9, 8), (0, 2), (1, 2), (2, 1)),
        ((5, 6, 4), (1, 0, 1), (1, 2, 1), (1, 1, 1)),
    ],
)
def test_a_call_of_the_backward_computes_a_gradient_by_weights(
    size, padding, stride, dilation, groups
):
    rank, images, window = len(size), 3, (3, 2, 3)[: len(size)]
    geometry = list(zip(size, padding, stride, dilation, window, strict=True))
    grad = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, s, d, k in geometry)
    reach = [
        (g - 1) * s + 1 + (k - 1) * d for g, (_, _, s, d, k) in zip(grad, geometry, strict=True)
    ]
    edges = tuple((p, r - n - p) for r, n, p in zip(reach, size, padding, strict=True))
    attrs = A.Conv(
        dilation, edges, (1,) * rank, stride, groups, "highest", True, "torch_weight_gradient"
    )
    got, want = left_to_torch((2, *size, groups * images), (12, images, *grad), attrs)
    assert want.shape == (2, *window, 12)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("size", [28, 29])
def test_gradients_of_a_strided_depthwise_convolution_are_calls(size, dilation):
    def gradients(x, w):
        y = conv2d(x, w, None, 2, 1, dilation, 192)
        return torch.autograd.grad(y.sin().sum(), (x, w))

    def leaves(dtype):
        return [
            t.to(dtype).requires_grad_() for t in (data(4, 192, size, size), data(192, 1, 3, 3))
        ]

    counters.clear()
    got = torch.compile(gradients, backend="tpu_tile")(*leaves(torch.float32))
    assert counters["tpu_tile"]["eager_ops"] == 3
    for mine, theirs in zip(got, gradients(*leaves(torch.float64)), strict=True):
        assert ((mine - theirs).abs().max() / theirs.abs().max()).item() < 1e-5


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
