"""What verify accepts and refuses."""

from dataclasses import replace

import pytest
import torch

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Var
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.graph.verify import verify

ROW = TensorType((3,), DType.F32)


def _graph() -> Graph:
    b = Builder()
    x = b.input("x", ROW)
    return b.finish("g", [b.op("exp", b.op("neg", x))])


def test_a_built_graph_is_valid():
    verify(_graph())


def test_use_before_definition():
    graph = _graph()
    with pytest.raises(InvalidIR, match="neg is used before it is defined"):
        verify(replace(graph, eqns=graph.eqns[::-1]))


def test_two_definitions():
    graph = _graph()
    with pytest.raises(InvalidIR, match="neg is defined twice"):
        verify(replace(graph, eqns=(graph.eqns[0], *graph.eqns)))


def test_undefined_output():
    with pytest.raises(InvalidIR, match="ghost is used before it is defined: return of g"):
        verify(replace(_graph(), outputs=(Var("ghost", ROW),)))


def test_result_type_against_the_rule():
    graph = _graph()
    wrong = Var("exp", TensorType((4,), DType.F32))
    eqns = (graph.eqns[0], replace(graph.eqns[1], outputs=(wrong,)))
    with pytest.raises(InvalidIR, match=r"types should be f32\[3\]"):
        verify(replace(graph, eqns=eqns, outputs=(wrong,)))


def test_use_at_another_type():
    graph = _graph()
    other = Var("x", TensorType((4,), DType.F32))
    first = replace(graph.eqns[0], inputs=(other,), outputs=(replace(other, name="neg"),))
    with pytest.raises(InvalidIR, match=r"x is defined as f32\[3\] and used as f32\[4\]"):
        verify(replace(graph, eqns=(first, *graph.eqns[1:])))


def test_unknown_primitive():
    graph = _graph()
    with pytest.raises(InvalidIR, match="there is no primitive blur"):
        verify(replace(graph, eqns=(replace(graph.eqns[0], prim="blur"), *graph.eqns[1:])))


def test_eager_call_names_operands_that_exist():
    b = Builder()
    x = b.input("x", ROW)
    call = A.EagerCall(torch.ops.aten.cat.default, ([A.Hole(0), A.Hole(1)],), (), "test", False)
    b.eager(call, [x], [TensorType((6,), DType.F32)])
    with pytest.raises(InvalidIR, match="operands"):
        verify(b.finish("g", [x]))
