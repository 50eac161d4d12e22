"""Rows longer than the memory: one kernel that repairs what it has kept."""

import pytest
import torch
from gates import LOOSE, check_gates, compile_graph, execute, small_target
from kernel_graphs import build, tensor

from tpu_inductor.graph import interp
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.nest import folds_of
from tpu_inductor.target import TpuTarget

ROWS, COLS = 5, 40_001


def spread(b: Builder, row, shape):
    return b.broadcast_to(row, shape)


def weights(b: Builder, x, shape):
    """The exponentials of a softmax, their sum and the maximum."""
    peak = b.reduce("reduce_max", x, (1,), keepdims=True)
    grown = b.op("exp", b.op("sub", x, spread(b, peak, shape)))
    return grown, b.reduce("reduce_sum", grown, (1,), keepdims=True), peak


def log_sum_exp(b: Builder, shape=(ROWS, COLS)):
    _, total, peak = weights(b, tensor(b, "x", shape), shape)
    return b.op("add", b.op("log", total), peak)


def weighted_sum(b: Builder, shape=(ROWS, COLS)):
    """softmax(x) summed with weights: the division leaves the sum."""
    x, v = tensor(b, "x", shape), tensor(b, "v", shape)
    grown, total, _ = weights(b, x, shape)
    soft = b.op("div", grown, spread(b, total, shape))
    return b.reduce("reduce_sum", b.op("mul", soft, v), (1,))


def cross_entropy(b: Builder, shape=(ROWS, COLS)):
    x, target = tensor(b, "x", shape), tensor(b, "target", (shape[0], 1), DType.I32)
    _, total, peak = weights(b, x, shape)
    at = b.op("eq", b.iota(shape, DType.I32, 1), spread(b, target, shape))
    picked = b.reduce("reduce_sum", b.op("select", at, x, b.lit(0.0, DType.F32)), (1,))
    lse = b.op("add", b.op("log", total), peak)
    return b.op("sub", b.reshape(lse, (shape[0],)), picked)


def masked(b: Builder, shape=(ROWS, COLS)):
    """Positions beyond the length of a row are hidden, all of them in some rows."""
    x, length = tensor(b, "x", shape), tensor(b, "length", (shape[0], 1), DType.I32)
    seen = b.op("lt", b.iota(shape, DType.I32, 1), spread(b, length, shape))
    _, total, peak = weights(b, b.op("select", seen, x, b.lit(-float("inf"), DType.F32)), shape)
    return [b.op("neg", total), b.op("neg", peak)]


def narrow(b: Builder, shape=(16, 32_768)):
    x = b.convert(tensor(b, "x", shape, DType.BF16), DType.F32)
    _, total, peak = weights(b, x, shape)
    return b.convert(b.op("add", b.op("log", total), peak), DType.BF16)


GRAPHS = {f.__name__: build(f) for f in (log_sum_exp, weighted_sum, cross_entropy, masked, narrow)}


def long_rows() -> TpuTarget:
    return small_target(256 << 10)


@pytest.mark.aot
@pytest.mark.parametrize("name", GRAPHS)
def test_long_rows_pass_the_gates(name):
    chip = long_rows()
    compiled = check_gates(GRAPHS[name], chip, tolerance=LOOSE, chips=[chip])
    assert compiled.only.template == "stream"
    (fold,) = folds_of(compiled.only.nest)
    assert all(carry.old is not None for carry in fold.carries)


def run(graph: Graph, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(execute(graph, compile_graph(graph, long_rows()).program, list(inputs)))


def test_rows_end_as_in_eager():
    """Large numbers, infinities, NaN, and rows of which nothing is seen."""
    x = torch.randn(ROWS, COLS) * 100
    x[1, 7], x[2], x[3, 30_000] = float("inf"), -float("inf"), float("nan")
    graph = GRAPHS["log_sum_exp"]
    (got,) = run(graph, x)
    (want,) = interp.run(graph, [x.double().float()])
    torch.testing.assert_close(got, want, equal_nan=True)


def test_what_a_row_has_kept_is_right_to_the_last_digit():
    x, v = torch.randn(ROWS, COLS) * 10, torch.randn(ROWS, COLS)
    (got,) = run(GRAPHS["weighted_sum"], x, v)
    want = (x.double().softmax(1) * v.double()).sum(1)
    eager = ((x.softmax(1) * v).sum(1).double() - want).abs().max()
    assert (got.double() - want).abs().max() <= 2 * eager + 1e-7


def test_a_softmax_of_long_rows_stays_with_two_kernels():
    """Its result has the axis: it is written when the sum is known."""

    def softmax(b: Builder, shape: tuple[int, ...] = (ROWS, COLS)):
        grown, total, _ = weights(b, tensor(b, "x", shape), shape)
        return b.op("div", grown, spread(b, total, shape))

    compiled = compile_graph(build(softmax), long_rows())
    assert len(compiled.schedules) > 1
