"""Every reason to refuse a join has a graph that meets it."""

import kernel_graphs as K
import pytest
from kernel_graphs import BF16, F32, I32, build, dot, row_sum, tensor

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.regions.factors import Unifier
from tpu_inductor.regions.groups import Group, build_group
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.proposal import Context, Proposal
from tpu_inductor.regions.region import Partition, Rows, Tier
from tpu_inductor.regions.rules import JOIN_RULES
from tpu_inductor.regions.wiring import Wiring, is_free
from tpu_inductor.target import target

V5E, V4 = target("v5e"), target("v4")


def partition(graph: Graph, chip=V5E) -> Partition:
    return partition_regions(graph, chip, prefer="pallas")


def kernels(graph: Graph, chip=V5E) -> int:
    return sum(r.tier is Tier.PALLAS for r in partition(graph, chip).regions)


def refusals(graph: Graph, chip=V5E) -> str:
    """What the partition of `graph` says about joins that were refused."""
    assert kernels(graph, chip) > 1 or any(r.reason for r in partition(graph, chip).regions), str(
        partition(graph, chip)
    )
    return str(partition(graph, chip))


def rule_refusals(graph: Graph, chip=V5E) -> set[str]:
    """The names of the rules that refuse the whole graph as one kernel."""
    context = Context(Wiring.of(graph), chip, Unifier())
    compute = {i for i, eqn in enumerate(graph.eqns) if not is_free(eqn)}
    group = build_group(context.wiring, context.unifier, compute, range(len(graph.eqns)))
    assert isinstance(group, Group), group
    proposal = Proposal.alone(context, group)
    return {rule.__name__ for rule in JOIN_RULES if rule(proposal) is not None}


def two_matmuls(b: Builder):
    x, v, w = (tensor(b, n, (64, 64)) for n in "xvw")
    return b.op("add", dot(b, x, v), dot(b, x, w))


def matmul_then_softmax(b: Builder):
    x = dot(b, tensor(b, "x", (64, 64)), tensor(b, "w", (64, 64)))
    return b.op("sub", x, row_sum(b, x, "reduce_max"))


def matrix_vector(b: Builder):
    return b.op("exp", dot(b, tensor(b, "x", (64, 64)), tensor(b, "w", (64, 1))))


def broadcast_matmul(b: Builder):
    product = dot(b, tensor(b, "x", (64, 64)), tensor(b, "w", (64, 64)))
    return b.op("add", product, tensor(b, "y", (5, 64, 64)))


def contracted_again(b: Builder):
    """The rows of a product, broadcast along the axis that the product contracted."""
    x, w = tensor(b, "x", (64, 32)), tensor(b, "w", (32, 16))
    product = b.reshape(dot(b, x, w), (64, 16, 1))
    return b.op("mul", product, b.reshape(b.op("neg", x), (64, 1, 32)))


def activation_before_matmul(b: Builder):
    return dot(b, b.op("exp", tensor(b, "x", (64, 64))), tensor(b, "w", (64, 64)))


def apart_contraction(b: Builder):
    """Two contracted dimensions with another between them in memory."""
    x, w = tensor(b, "x", (8, 64, 16)), tensor(b, "w", (8, 16, 32))
    attrs = K.A.Dot((0, 2), (0, 1), (), (), "highest", F32)
    return b.op("exp", b.one("dot", x, w, attrs=attrs))


def rows_and_columns(b: Builder):
    x = tensor(b, "x", (64, 96))
    return [b.reduce("reduce_sum", x, (0,)), b.reduce("reduce_sum", x, (1,))]


def broadcast_reduction(b: Builder):
    """A row sum that meets a larger tensor: it would run again for every layer of that."""
    total = row_sum(b, b.op("exp", tensor(b, "x", (64, 96))))
    return b.op("mul", total, tensor(b, "y", (5, 64, 96)))


def small_result(b: Builder):
    """A row-sized result of a region over a matrix."""
    scale = b.op("exp", tensor(b, "scale", (1, 96)))
    return [scale, b.op("mul", tensor(b, "x", (64, 96)), scale)]


def wide_softmax(b: Builder):
    x = tensor(b, "x", (64, 1 << 20))
    return b.op("sub", x, row_sum(b, x, "reduce_max"))


REFUSED = {
    "one_contraction": two_matmuls,
    "contraction_apart_from_reduction": matmul_then_softmax,
    "contraction_is_matrix_product": matrix_vector,
    "contraction_is_full": broadcast_matmul,
    "contraction_lies_together": apart_contraction,
    "contraction_columns_stay_together": K.split_heads,
    "prologue_is_cheap": activation_before_matmul,
    "reductions_close_one_space": rows_and_columns,
    "outputs_are_full": small_result,
    "resident_rows_fit_or_stream": wide_softmax,
}


def test_every_rule_is_tested():
    assert set(REFUSED) == {rule.__name__ for rule in JOIN_RULES}


@pytest.mark.parametrize("rule", REFUSED)
def test_join_refused_when(rule):
    assert rule in rule_refusals(build(REFUSED[rule]))


def test_join_refused_when_the_contracted_axis_is_used_again():
    assert "contraction_is_full" in rule_refusals(build(contracted_again))


def test_join_refused_when_a_reduction_meets_a_larger_tensor():
    assert "reductions_close_one_space" in rule_refusals(build(broadcast_reduction))


def test_join_refused_when_it_would_close_a_cycle():
    """XLA's cumsum stands between two pointwise equations that could be one kernel."""

    def detour(b: Builder):
        x = b.op("exp", tensor(b, "x", (64, 64)))
        return b.op("add", x, b.one("cumsum", x, attrs=K.A.Axis(0)))

    text = refusals(build(detour))
    assert "it would close a cycle" in text
    assert text.index("exp") < text.index("cumsum") < text.index("add")


def test_refusals_are_told():
    text = refusals(build(rows_and_columns))
    assert "reductions over different axes do not share a kernel" in text
    assert kernels(build(rows_and_columns)) == 2
    assert "before a matmul would be computed once per tile" in refusals(
        build(activation_before_matmul)
    )


def test_a_cast_before_a_matmul_joins_it():
    def cast(b: Builder):
        x, w = tensor(b, "x", (64, 64), BF16), tensor(b, "w", (64, 64), BF16)
        return b.op("exp", dot(b, b.convert(x, F32), b.convert(w, F32)))

    assert kernels(build(cast)) == 1


def test_unrelated_readers_of_nothing_in_common_stay_apart():
    def apart(b: Builder):
        return [b.op("exp", tensor(b, name, (64, 64))) for name in "xy"]

    assert kernels(build(apart)) == 2


def test_rows_of_a_softmax_fit_or_not_by_chip():
    def softmax(b: Builder, cols: int):
        return K.softmax(b, (64, cols))

    assert kernels(build(softmax, 32768), V5E) == 1
    assert kernels(build(softmax, 1 << 17), V4) > 1


def resident(graph: Graph) -> bool:
    region = next(r for r in partition(graph).regions if r.tier is Tier.PALLAS)
    return region.rows is Rows.KEPT


def test_rows_stay_resident_only_where_a_result_returns_to_them():
    assert resident(build(K.softmax))
    assert resident(build(K.layer_norm))
    assert resident(build(K.arg_extremes))
    assert not resident(build(K.column_sum))
    assert not resident(build(K.row_extremes, (3, 1000), I32))
