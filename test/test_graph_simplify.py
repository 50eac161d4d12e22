"""Each rewrite of simplify, and that none changes a result."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import graphs, inputs_for

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.rounding import round_to
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.graph.verify import verify

F32, BF16, I32 = DType.F32, DType.BF16, DType.I32


def _start(*shape: int, dtype: DType = F32):
    b = Builder()
    return b, b.input("x", TensorType(shape, dtype))


def _prims(graph: Graph) -> list[str]:
    return [eqn.prim for eqn in graph.eqns]


def _simplified(b: Builder, *outputs) -> Graph:
    graph = simplify(b.finish("g", outputs))
    verify(graph)
    return graph


def test_identity_views_vanish():
    b, x = _start(2, 3)
    y = b.one("reshape", x, attrs=A.Reshape((2, 3)))
    y = b.one("transpose", y, attrs=A.Transpose((0, 1)))
    y = b.one("broadcast", y, attrs=A.Broadcast((2, 3), (0, 1)))
    y = b.one("convert", y, attrs=A.Convert(F32))
    y = b.one("slice", y, attrs=A.Slice((0, 0), (2, 3), (1, 1)))
    assert _simplified(b, y).outputs == (x,)


def test_transpose_of_a_square_is_no_identity():
    b, x = _start(3, 3)
    assert _prims(_simplified(b, b.transpose(x, (1, 0)))) == ["transpose"]


def test_chains_of_views_merge():
    b, x = _start(2, 3, 4)
    y = b.reshape(b.reshape(x, (6, 4)), (4, 6))
    z = b.transpose(b.transpose(x, (1, 2, 0)), (2, 0, 1))
    row = b.reduce("reduce_sum", x, (0, 1))
    w = b.one("broadcast", row, attrs=A.Broadcast((1, 4), (1,)))
    w = b.one("broadcast", w, attrs=A.Broadcast((5, 2, 4), (1, 2)))
    graph = _simplified(b, y, z, w)
    assert _prims(graph) == ["reshape", "reduce_sum", "broadcast"]
    assert graph.outputs[1] == x
    assert graph.eqns[-1].attrs == A.Broadcast((5, 2, 4), (2,))


@pytest.mark.parametrize(
    ("first", "middle", "last", "kept"),
    [
        (BF16, F32, BF16, 0),
        (F32, BF16, F32, 2),
        (BF16, F32, DType.F64, 1),
        (DType.F16, BF16, F32, 2),
        (I32, DType.I64, DType.I8, 1),
        (I32, DType.F64, I32, 0),
        (I32, DType.F64, DType.I8, 2),
        (DType.U8, DType.I8, I32, 2),
        (DType.BOOL, I32, F32, 1),
        (DType.I64, DType.F64, DType.I64, 2),
    ],
)
def test_converts_merge_only_where_the_first_loses_nothing(first, middle, last, kept):
    b, x = _start(3, dtype=first)
    y = b.one("convert", x, attrs=A.Convert(middle))
    y = b.one("convert", y, attrs=A.Convert(last))
    assert len(_simplified(b, y).eqns) == kept


def test_select_of_equal_branches_or_constant_predicate_vanishes():
    b, x = _start(3)
    y = b.one("select", b.op("lt", x, b.lit(0.0, F32)), x, x)
    z = b.one("select", b.full((3,), DType.BOOL, True), x, b.op("neg", x))
    graph = _simplified(b, y, z)
    assert graph.eqns == ()
    assert graph.outputs == (x, x)


def test_views_of_full_are_full_and_pointwise_operands_become_literals():
    b, x = _start(2, 3)
    two = b.convert(b.reshape(b.full((1,), I32, 2), ()), F32)
    y = b.op("mul", x, b.one("broadcast", two, attrs=A.Broadcast((2, 3), ())))
    padded = b.one("pad", y, b.full((), F32, 0.0), attrs=A.Pad((1, 0), (0, 0), (0, 0)))
    graph = _simplified(b, padded)
    assert _prims(graph) == ["mul", "pad"]
    assert graph.eqns[0].inputs[1] == b.lit(2.0, F32)
    assert graph.eqns[1].inputs[1] == b.lit(0.0, F32)


def test_a_constant_that_gives_the_shape_stays():
    b, x = _start()
    graph = _simplified(b, b.one("mul", x, b.full((4,), F32, 2.0)))
    assert _prims(graph) == ["full", "mul"]


def test_equal_equations_are_shared_but_zeros_of_two_signs_are_not():
    b, x = _start(3)
    same = [b.op("exp", x), b.op("exp", x)]
    graph = _simplified(b, *same)
    assert _prims(graph) == ["exp"]
    assert graph.outputs[0] == graph.outputs[1]
    b, x = _start(3)
    zeros = [b.op("mul", x, b.lit(zero, F32)) for zero in (0.0, -0.0)]
    fulls = [b.full((2,), F32, zero) for zero in (0.0, -0.0)]
    assert len(_simplified(b, *zeros, *fulls).eqns) == 4


def test_adding_zero_stays():
    b, x = _start(3)
    assert _prims(_simplified(b, b.op("add", x, b.lit(0.0, F32)))) == ["add"]


def _eager(b: Builder, target: object, x) -> None:
    call = A.EagerCall(target, (A.Hole(0),), (), "test", False)
    b.eager(call, [x], [x.type])


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (torch.ops.aten.relu.default, 0),
        (torch.ops.aten.relu_.default, 1),
        (torch.ops.aten.bernoulli.default, 1),
        (torch.ops.higher_order.cond, 1),
    ],
)
def test_unread_eager_calls_stay_only_for_their_effect(target, kept):
    b, x = _start(3)
    _eager(b, target, x)
    b.op("exp", x)
    assert len(_simplified(b, x).eqns) == kept


def test_eager_calls_are_not_shared():
    b, x = _start(3)
    for _ in range(2):
        _eager(b, torch.ops.aten.bernoulli.default, x)
    assert len(_simplified(b, x).eqns) == 2


@pytest.mark.parametrize("dtype", [F32, BF16, DType.F16, DType.F64])
def test_constants_round_as_in_torch(dtype):
    for value in (0.1, -0.0, 1e-3, 65519.0, 65520.0, 3.3e38, 1e300, math.inf, 2.0**-140):
        want = torch.tensor(value, dtype=torch.float64).to(TORCH_DTYPE[dtype]).item()
        assert repr(round_to(value, dtype)) == repr(want)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.integers(0, 99), st.booleans())
def test_simplify_keeps_every_bit(graph, seed, special):
    verify(graph)
    smaller = simplify(graph)
    verify(smaller)
    assert len(smaller.eqns) <= len(graph.eqns)
    assert simplify(smaller) == smaller
    inputs = inputs_for(graph, seed, special)
    for want, got in zip(run(graph, inputs), run(smaller, inputs), strict=True):
        assert want.dtype == got.dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
