"""What moves to channels last with a convolution, and that no result changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.channels_last import move_channels_last
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.graph.verify import verify

N, C, H, W = SHAPE = (2, 4, 5, 3)
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def convolve(b: Builder, x: Value, outputs: int = C, window: int = 1, groups: int = 1) -> Var:
    channels = x.type.dims[1]
    w = b.input("w", TensorType((outputs, channels // groups, window, window), DType.F64))
    edge = (window // 2, window // 2)
    attrs = A.Conv((1, 1), (edge, edge), (1, 1), (1, 1), groups, "highest")
    return b.one("conv", x, w, attrs=attrs)


def start(shape=SHAPE) -> tuple[Builder, Var]:
    b = Builder()
    return b, b.input("x", TensorType(shape, DType.F64))


def moved(b: Builder, *outputs: Value) -> Graph:
    """The graph after the move, which changes no result."""
    before = b.finish("g", outputs)
    after = move_channels_last(before, may_use_torch=False)
    verify(after)
    gen = torch.Generator().manual_seed(0)
    given = [torch.randn(v.type.dims, generator=gen, dtype=torch.float64) for v in before.inputs]
    for old, new in zip(run(before, given), run(after, given), strict=True):
        torch.testing.assert_close(new, old)
    assert all(e.attrs.channels_last for e in after.eqns if isinstance(e.attrs, A.Conv))
    return after


def prims(graph: Graph) -> list[str]:
    return [eqn.prim for eqn in graph.eqns]


def test_a_run_of_convolutions_is_turned_at_its_ends_alone():
    b, x = start()
    y = b.op("max", convolve(b, x, window=3), b.lit(0.0, DType.F64))
    y = b.op("add", convolve(b, y), y)
    assert prims(moved(b, y)) == ["transpose", "conv", "max", "conv", "add", "transpose"]


def test_transpositions_of_the_caller_cancel():
    b, x = start((N, H, W, C))
    y = convolve(b, b.transpose(x, FIRST))
    assert prims(moved(b, b.transpose(y, LAST))) == ["conv"]


def test_what_is_not_fed_by_a_convolution_stays_as_it_is():
    b, x = start()
    w = b.input("w", TensorType(SHAPE, DType.F64))
    y = b.slice(b.op("mul", x, w), 2, 1, 4)
    graph = b.finish("g", [y])
    assert move_channels_last(graph, may_use_torch=True).eqns == graph.eqns


def test_what_is_repeated_along_channels_is_made_turned():
    b, x = start()
    scale = b.input("scale", TensorType((C,), DType.F64))
    y = b.op("mul", convolve(b, x), b.reshape(scale, (1, C, 1, 1)))
    y = b.op("add", y, b.iota(SHAPE, DType.F64, 2))
    y = b.op("add", y, b.op("neg", b.full(SHAPE, DType.F64, 2.0)))
    y = b.op("mul", y, b.broadcast_to(b.input("plane", TensorType((H, W), DType.F64)), SHAPE))
    after = prims(moved(b, y))
    assert after.count("transpose") == 2 + 1  # both ends, and `neg`, which no convolution feeds
    assert after.index("conv") < after.index("broadcast")


def test_a_large_operand_from_outside_is_turned_once():
    b, x = start()
    outside = b.input("outside", TensorType(SHAPE, DType.F64))
    y = b.op("mul", b.op("add", convolve(b, x), outside), outside)
    assert prims(moved(b, y)).count("transpose") == 3


@pytest.mark.parametrize(
    "dims", [(0, 2, 3), (2, 3), (1,), (1, 3), (0,), (2,), (0, 1, 2, 3), (0, 1)]
)
@pytest.mark.parametrize("keepdims", [True, False])
def test_reductions_follow_their_dimensions(dims, keepdims):
    b, x = start()
    y = convolve(b, x)
    total = b.reduce("reduce_sum", y, dims, keepdims)
    outputs = [b.op("sub", y, total)] if keepdims else [b.op("neg", total)]
    after = moved(b, *outputs, total)
    (reduce,) = [e for e in after.eqns if e.prim == "reduce_sum"]
    conv = next(e for e in after.eqns if e.prim == "conv")
    assert reduce.inputs == (conv.out,)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_group_norm_needs_no_transposition(groups):
    b, x = start()
    y = convolve(b, x, window=3)
    grouped = b.reshape(y, (N, groups, C // groups, H * W))
    centred = b.op("sub", grouped, b.reduce("reduce_sum", grouped, (2, 3), keepdims=True))
    y = convolve(b, b.reshape(centred, SHAPE))
    after = prims(moved(b, y))
    assert after.count("transpose") == 2
    assert after[0] == after[-1] == "transpose"


def test_nearest_neighbours_are_repeated_in_place():
    b, x = start()
    y = b.reshape(convolve(b, x), (N, C, H, 1, W))
    wide = b.one("broadcast", y, attrs=A.Broadcast((N, C, H, 2, W), (0, 1, 2, 3, 4)))
    y = convolve(b, b.reshape(wide, (N, C, 2 * H, W)))
    assert prims(moved(b, y)).count("transpose") == 2


def test_windows_and_joined_channels_stay_turned():
    b, x = start()
    y = convolve(b, x)
    edges = A.Pad((0, 0, 1, 0), (0, 0, 1, -1), (0, 0, 0, 1))
    y = b.one("pad", y, b.lit(0.0, DType.F64), attrs=edges)
    y = b.op("max", b.slice(y, 2, 0, 5), b.slice(y, 2, 2, 7))
    y = b.one("rev", b.concat([y, y], 1), attrs=A.Dims((1, 3)))
    after = prims(moved(b, convolve(b, y)))
    assert after.count("transpose") == 2


def test_what_needs_the_order_as_written_gets_it():
    b, x = start()
    y = convolve(b, x)
    flat = b.reshape(y, (N, C * H * W))
    rows = b.reshape(y, (N * C, H, W))
    summed = b.one("cumsum", y, attrs=A.Axis(2))
    after = moved(b, flat, rows, summed, y)
    assert prims(after).count("transpose") == 2


def test_extents_of_one_are_no_transposition():
    b, x = start((N, C, 1, 1))
    assert "transpose" not in prims(moved(b, convolve(b, x)))
    b, x = start((N, 1, H, W))
    assert "transpose" not in prims(moved(b, convolve(b, x, outputs=1)))


def test_a_value_may_be_its_own_window():
    b, x = start((3, 3, 3, 3))
    attrs = A.Conv((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, "highest")
    y = b.one("conv", x, x, attrs=attrs)
    moved(b, b.one("conv", y, y, attrs=attrs))


@pytest.mark.parametrize("size", [(7,), (3, 4), (2, 3, 4)])
def test_any_number_of_spatial_dimensions(size):
    b, x = start((N, C, *size))
    w = b.input("w", TensorType((6, 2, *(2,) * len(size)), DType.F64))
    ones = (1,) * len(size)
    attrs = A.Conv(ones, ((1, 0),) * len(size), ones, ones, 2, "highest")
    y = b.op("neg", b.one("conv", x, w, attrs=attrs))
    assert prims(moved(b, y))[1:3] == ["conv", "neg"]


@settings(deadline=None)
@given(st.data())
def test_random_chains_keep_their_values(data):
    b, x = start()
    y = convolve(b, x, window=3)
    for _ in range(data.draw(st.integers(1, 6))):
        y = _step(b, y, data)
    moved(b, y)


def _step(b: Builder, y: Var, data: st.DataObject) -> Var:
    dims = y.type.dims
    dim = data.draw(st.integers(0, len(dims) - 1))
    match data.draw(st.sampled_from(["sum", "slice", "split", "merge", "turn", "mul", "conv"])):
        case "sum":
            total = b.reduce("reduce_sum", y, (dim,), keepdims=data.draw(st.booleans()))
            return total if total.type.rank > 1 else y
        case "slice":
            return b.slice(y, dim, 0, max(dims[dim] - 1, 1))
        case "split":
            return b.reshape(y, (*dims[:dim], dims[dim], 1, *dims[dim + 1 :]))
        case "merge" if len(dims) > 2 and dim + 1 < len(dims):
            return b.reshape(y, (*dims[:dim], dims[dim] * dims[dim + 1], *dims[dim + 2 :]))
        case "turn":
            return b.transpose(y, data.draw(st.permutations(range(len(dims)))))
        case "mul":
            return b.op("mul", y, b.iota(dims, DType.F64, dim))
        case "conv" if len(dims) == 4:
            return convolve(b, y, outputs=3)
    return y
