"""From factors to axes: which factors run as one axis, and in which order."""

import kernel_graphs as K
from gates import compile_graph
from kernel_graphs import BF16, F32, I32, build, tensor

from tpu_inductor.graph.core import Graph
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import target


def schedule(graph: Graph, chip: str = "v5e") -> TileSchedule:
    return compile_graph(graph, target(chip)).only


def axes(graph: Graph) -> dict[str, int]:
    return {a.name: a.size for a in schedule(graph).axes}


def test_leading_dimensions_merge_into_rows():
    assert axes(build(K.layer_norm, (3, 5, 129))) == {"rows": 15, "cols": 129}
    assert axes(build(K.merged_views, 2, 32, 96)) == {"rows": 64, "cols": 96}


def test_lanes_stay_apart_from_rows():
    """Merging the minor dimension would make XLA copy every operand."""
    assert axes(build(K.chain, (8, 64))) == {"rows": 8, "cols": 64}


def test_a_vector_of_whole_registers_is_taken_as_rows():
    assert axes(build(K.chain, (4096,))) == {"rows": 32, "cols": 128}
    assert axes(build(K.chain, (4097,))) == {"rows": 1, "cols": 4097}
    assert axes(build(K.total, (4096,))) == {"rows": 1, "cols": 4096}


def test_reduced_and_kept_dimensions_stay_apart():
    assert axes(build(K.group_moments, (64, 2, 3, 130))) == {
        "b0": 64, "b1": 2, "rows": 3, "cols": 130,
    }  # fmt: skip
    reduced = [a.name for a in schedule(build(K.middle)).axes if a.is_reduced]
    assert reduced == ["rows"]


def test_an_index_keeps_its_dimension_apart():
    assert axes(build(K.causal_mask, (4, 40, 40))) == {"b0": 4, "rows": 40, "cols": 40}

    def flat_index(b):
        return b.op("add", tensor(b, "x", (4, 40, 40), I32), b.iota((4, 40, 40), I32, 2))

    assert axes(build(flat_index)) == {"rows": 160, "cols": 40}


def test_the_order_of_axes_is_that_of_most_bytes():
    """The smaller operand is transposed."""

    def mixed(b):
        x, y = tensor(b, "x", (8, 16, 136), BF16), tensor(b, "y", (16, 8, 136), F32)
        return b.op("mul", b.convert(b.transpose(x, (1, 0, 2)), F32), y)

    made = schedule(build(mixed))
    assert {o.var.name: o.perm for o in made.inputs} == {"x": (1, 0, 2), "y": (0, 1, 2)}
    assert [a.size for a in made.axes] == [16, 8, 136]


def test_a_square_and_its_transpose_are_two_operands():
    made = schedule(build(K.with_transpose))
    assert {(o.var.name, o.perm) for o in made.inputs} == {("x", (0, 1)), ("x", (1, 0))}


def test_a_column_has_an_extent_of_one_and_a_row_stays_a_vector():
    made = schedule(build(K.outer_sum, 64))
    assert [made.array(o) for o in made.inputs] == [(64, 1), (64,)]


def test_a_matmul_has_m_n_and_k_and_squeezed_axes():
    assert axes(build(K.linear_gelu, 96, 160, 200)) == {"m": 96, "n": 200, "k": 160}
    made = schedule(build(K.batched_dot))
    assert [(a.name, a.size, a.is_squeezed) for a in made.axes] == [
        ("b0", 3, True), ("b1", 2, True), ("m", 40, False), ("n", 200, False), ("k", 64, False),
    ]  # fmt: skip


def test_the_rows_of_a_matmul_merge_unless_an_operand_tells_them_apart():
    def rows(b):
        x, w = tensor(b, "x", (2, 40, 64)), tensor(b, "w", (64, 200))
        return b.op("exp", K.dot(b, x, w))

    assert axes(build(rows)) == {"m": 80, "n": 200, "k": 64}
    assert axes(build(K.gated_dot)) == {"b0": 2, "m": 40, "n": 200, "k": 64}


def test_a_transposed_weight_is_read_as_it_is_stored():
    made = schedule(build(K.linear_gelu, 96, 160, 200))
    (weight,) = (o for o in made.inputs if o.var.name == "weight")
    assert [p.axis for p in weight.places] == ["n", "k"]
    assert weight.perm == (0, 1)


def test_the_cpu_has_one_block():
    for graph in (build(K.softmax, (4096, 1000)), build(K.linear_gelu, 512, 512, 512)):
        made = schedule(graph, "cpu")
        assert made.grid == ()
        assert all(a.tile == a.size for a in made.axes)
