"""Constants are copied for each of their readers."""

import torch
from kernel_graphs import I32, build, tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.constants import copy_constants
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.verify import verify
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Factoring, factorise


def causal(b: Builder):
    """A mask of one iota along both of its dimensions."""
    place = b.iota((8,), I32, 0)
    seen = b.op("le", b.reshape(place, (1, 8)), b.reshape(place, (8, 1)))
    return b.op("select", seen, tensor(b, "x", (8, 8), I32), b.lit(0, I32))


def test_positions_along_two_axes_become_two_values():
    graph = build(causal)
    copied = Graph("copied", graph.inputs, copy_constants(graph.eqns, graph.inputs), graph.outputs)
    verify(copied)
    assert sum(eqn.prim == "iota" for eqn in copied.eqns) == 2
    assert isinstance(factorise(copied.eqns, FACTOR_RULES), Factoring)


def test_a_constant_with_one_reader_stays():
    graph = build(lambda b: b.op("add", tensor(b, "x", (8,), I32), b.iota((8,), I32, 0)))
    assert copy_constants(graph.eqns, graph.inputs) == graph.eqns


def test_calls_of_torch_stay():
    def shift(b: Builder):
        x, y = tensor(b, "x", (8,), I32), b.iota((8,), I32, 0)
        call = A.EagerCall(torch.ops.aten.add.Tensor, (A.Hole(0), A.Hole(1)), (), "test", False)
        return b.eager(call, (x, y), [x.type])[0]

    graph = build(shift)
    assert copy_constants(graph.eqns, graph.inputs) == graph.eqns
