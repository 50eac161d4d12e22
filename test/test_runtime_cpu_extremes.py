"""Maxima spread NaN, though XLA:CPU has a library in which they do not."""

import kernel_graphs as K
import pytest
import torch
import torch.nn.functional as F
from kernel_graphs import F32, I32, build, row_sum, tensor

from tpu_inductor.graph.core import Graph
from tpu_inductor.runtime.adapters.cpu_extremes import spreads_nan


def strict(graph: Graph) -> bool:
    return spreads_nan(graph.eqns, graph.outputs)


def log_softmax(b):
    x = tensor(b, "x", (8, 128))
    shifted = b.op("sub", x, row_sum(b, x, "reduce_max"))
    total = row_sum(b, b.op("exp", shifted))
    return b.op("sub", shifted, b.op("log", total))


def shifted(b):
    x = tensor(b, "x", (8, 128))
    return b.op("exp", b.op("sub", x, row_sum(b, x, "reduce_max")))


def softmax_and_maximum(b):
    x = tensor(b, "x", (8, 128))
    top = row_sum(b, x, "reduce_max")
    grown = b.op("exp", b.op("sub", x, top))
    return [b.op("div", grown, row_sum(b, grown)), top]


def relu(b):
    return b.reduce("reduce_sum", b.op("max", tensor(b, "x", (8, 128)), b.lit(0, F32)), (1,))


def test_a_softmax_spreads_nan_by_its_sum():
    assert not strict(build(K.softmax))
    assert not strict(build(log_softmax))


@pytest.mark.parametrize("make", [shifted, softmax_and_maximum, relu, K.arg_extremes, K.middle])
def test_other_maxima_spread_it_themselves(make):
    assert strict(build(make))


def test_integers_have_none():
    assert not strict(build(K.row_extremes, (8, 128), I32))
    assert not strict(build(K.column_sum))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.amax(0),
        lambda x: x.argmin(1),
        lambda x: torch.relu(x).sum(1),
        lambda x: x.clamp(-1, 1).mean(0),
        lambda x: F.max_pool2d(x[None], 2),
        lambda x: F.softmax(x, -1),
        lambda x: F.log_softmax(x, 0),
        lambda x: torch.logsumexp(x, 1),
        lambda x: (x - x.amax(1, keepdim=True)).exp(),
    ],
)
def test_nan_is_spread_as_in_eager(fn):
    x = torch.randn(256, 256)
    x[5, 43] = torch.nan
    torch.testing.assert_close(torch.compile(fn, backend="tpu_tile")(x), fn(x), equal_nan=True)
