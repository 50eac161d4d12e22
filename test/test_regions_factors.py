"""Factors: the axes that equations have in common."""

import kernel_graphs as K
from kernel_graphs import F32, I32, build, tensor

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Var
from tpu_inductor.graph.prims import PRIMS
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Dims, Factoring, factorise


def factors_of(graph: Graph) -> Factoring:
    factoring = factorise(graph.eqns, FACTOR_RULES)
    assert isinstance(factoring, Factoring), factoring
    return factoring


def sizes(dims: Dims) -> list[list[int]]:
    return [[f.size for f in dim] for dim in dims]


def readings(graph: Graph, name: str) -> list[Dims]:
    """The distinct dimensions along which an input is read."""
    factoring = factors_of(graph)
    found = [
        dims
        for access, dims in factoring.accesses.items()
        if getattr(graph.eqns[access.eqn].inputs[access.slot], "name", "") == name
    ]
    return list(dict.fromkeys(found))


def refusal(graph: Graph) -> str:
    result = factorise(graph.eqns, FACTOR_RULES)
    assert isinstance(result, Reject)
    return result.reason


def test_every_primitive_has_a_factor_rule():
    assert set(FACTOR_RULES) == set(PRIMS)


def test_pointwise_operands_share_their_axes():
    factoring = factors_of(build(K.chain, (5, 7)))
    assert sorted(f.size for f in factoring.factors) == [5, 7]
    assert factoring.parallel == factoring.factors


def test_views_of_batch_and_rows_have_the_same_factors():
    graph = build(K.merged_views, 2, 32, 96)
    factoring = factors_of(graph)
    assert sorted(f.size for f in factoring.factors) == [2, 32, 96]
    ((rows, cols),) = readings(graph, "x")
    assert [f.size for f in rows] == [2, 32]
    assert [f.size for f in cols] == [96]


def test_a_square_and_its_transpose_are_two_readings():
    graph = build(K.with_transpose, 64)
    first, second = readings(graph, "x")
    assert first == second[::-1]
    assert len(factors_of(graph).factors) == 2


def test_equal_sizes_are_not_equal_axes():
    rows, cols = readings(build(K.outer_sum, 64), "x")
    assert rows != cols
    assert len(factors_of(build(K.permuted_cube)).factors) == 3


def test_a_vector_along_both_axes_of_a_square_is_read_twice():
    def both(b: Builder):
        x, v = tensor(b, "x", (8, 8)), tensor(b, "v", (8,))
        return b.op("add", b.op("add", x, v), b.reshape(v, (8, 1)))

    assert len(readings(build(both), "v")) == 2


def test_extents_of_one_have_no_factor():
    def broadcast(b: Builder):
        return b.op("add", tensor(b, "x", (1, 9, 1)), tensor(b, "y", (4, 9, 3)))

    graph = build(broadcast)
    ((first, second, third),) = readings(graph, "x")
    assert not first
    assert not third
    assert [f.size for f in second] == [9]


def test_a_reduction_closes_its_axes():
    factoring = factors_of(build(K.group_moments, (4, 2, 3, 5)))
    assert sorted(f.size for f in factoring.reduced) == [2, 5]
    assert sorted(f.size for f in factoring.parallel) == [3, 4]


def test_a_matmul_closes_the_contracted_axis():
    graph = build(K.batched_dot)
    factoring = factors_of(graph)
    assert [f.size for f in factoring.contracted] == [64]
    assert sorted(f.size for f in factoring.parallel) == [2, 3, 40, 200]


def test_columns_split_into_heads():
    graph = build(K.split_heads)
    (dims,) = readings(graph, "w")
    assert sizes(dims) == [[64], [4, 64]]
    (dims,) = readings(graph, "x")
    assert sizes(dims) == [[2, 40], [64]]


def test_a_reshape_that_splits_and_merges_refines_both_sides():
    def split(b: Builder):
        x = b.op("exp", tensor(b, "x", (6, 4)))
        return b.op("neg", b.reshape(x, (2, 12)))

    assert sorted(f.size for f in factors_of(build(split)).factors) == [2, 3, 4]


def test_refused_when_a_reshape_has_no_common_factors():
    def crooked(b: Builder):
        x = b.op("exp", tensor(b, "x", (4, 6)))
        return b.op("neg", b.reshape(x, (3, 8)))

    assert refusal(build(crooked)) == "reshape mixes dimensions that have no common factors"


def test_refused_when_a_computed_square_meets_its_transpose():
    def symmetric(b: Builder):
        x = b.op("exp", tensor(b, "x", (8, 8)))
        return b.op("add", x, b.transpose(x, (1, 0)))

    assert "two of its own dimensions" in refusal(build(symmetric))


def test_refused_when_a_primitive_moves_data():
    def moved(b: Builder):
        return b.slice(tensor(b, "x", (8, 8)), 0, 1, 4)

    assert "slice" in refusal(build(moved))


def test_an_argmax_closes_one_axis():
    def arg(b: Builder):
        return b.one("argmax", tensor(b, "x", (3, 5, 7)), attrs=A.Axis(1))

    assert [f.size for f in factors_of(build(arg)).reduced] == [5]


def test_an_iota_joins_the_axes_of_what_reads_it():
    def positions(b: Builder):
        return b.op("add", tensor(b, "x", (5, 9), I32), b.iota((5, 9), I32, 1))

    graph = build(positions)
    factoring = factors_of(graph)
    (iota,) = (v for v in factoring.values if isinstance(v, Var) and v.name.startswith("iota"))
    assert sizes(factoring.values[iota]) == [[5], [9]]
    assert len(factoring.factors) == 2


def test_a_literal_has_no_dimensions():
    graph = build(lambda b: b.op("add", tensor(b, "x", (5,)), b.lit(1, F32)))
    assert factors_of(graph).of(graph.eqns, 0, 1) == ()
