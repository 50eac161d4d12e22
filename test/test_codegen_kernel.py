"""What kernels look like: a few snapshots, and facts about the others.

Snapshots lie in test/expected; EXPECTTEST_ACCEPT=1 writes them anew.
"""

import itertools
import os
from pathlib import Path

import kernel_graphs as K
import pytest
from gates import V5E, assert_same, compile_graph, execute, small_target
from kernel_graphs import BF16, I32, build, tensor
from random_graphs import inputs_for

from tpu_inductor.codegen.kernel import print_kernel
from tpu_inductor.graph import interp
from tpu_inductor.graph.core import Graph
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget, target

EXPECTED = Path(__file__).parent / "expected"
MAX_SNAPSHOTS, MAX_LINES = 25, 1500

SNAPSHOTS: dict[str, tuple[Graph, TpuTarget]] = {
    "softmax": (build(K.softmax, (4096, 1000)), V5E),
    "softmax_cpu": (build(K.softmax, (4096, 1000)), target("cpu")),
    "layer_norm": (build(K.layer_norm, (2, 2048, 1024), BF16), V5E),
    "linear_gelu": (build(K.linear_gelu, 1024, 65536, 1024, BF16, "default"), V5E),
    "column_sum": (build(K.column_sum, (5001, 130)), small_target()),
    "causal_mask": (build(K.causal_mask, (4, 300, 300)), small_target()),
}


def only(graph: Graph, chip: TpuTarget = V5E) -> TileSchedule:
    return compile_graph(graph, chip).only


def text(graph: Graph, chip: TpuTarget = V5E) -> str:
    return print_kernel(only(graph, chip)).text


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_programs_read_as_expected(name):
    graph, chip = SNAPSHOTS[name]
    assert_expected(name, compile_graph(graph, chip).program.source)


def assert_expected(name: str, printed: str) -> None:
    file = EXPECTED / f"{name}.py"
    if os.environ.get("EXPECTTEST_ACCEPT"):
        file.write_text(printed)
    assert printed == file.read_text(), f"EXPECTTEST_ACCEPT=1 accepts the new {file.name}"


def test_snapshots_are_few_and_all_are_used():
    files = list(EXPECTED.glob("*.py"))
    assert {f.stem for f in files} == set(SNAPSHOTS)
    assert len(files) <= MAX_SNAPSHOTS
    assert sum(len(f.read_text().splitlines()) for f in files) <= MAX_LINES


def test_an_input_is_loaded_once():
    assert text(build(K.layer_norm)).count("x_ref[...]") == 1
    assert text(build(K.rms_norm)).count("residual_ref[...]") == 1


def test_views_print_nothing():
    body = text(build(K.merged_views)).split("@functools")[0]
    assert "reshape" not in body
    assert "broadcast_to" not in body


def test_a_tail_is_masked_by_selection():
    graph = build(K.row_extremes, (3, 100001))
    body = text(graph, small_target())
    assert "< 100001, x, 0.0)" in body
    assert '< 100001, x, float("-inf"))' in body or "-jnp.inf)" in body
    whole = text(build(K.row_extremes, (3, 1024)))
    assert "jnp.where" not in whole


def test_both_operands_of_a_contraction_are_masked():
    graph = build(K.linear_gelu, 1024, 65537, 1024, BF16, "default")
    assert only(graph).axis("k").has_tail
    dots = [line for line in text(graph).splitlines() if "lax.dot_general" in line]
    assert [line.count("< 65537") for line in dots] == [2]


def test_sixteen_bit_products_accumulate_in_float32():
    body = text(build(K.linear_gelu, 64, 128, 128, BF16, "default"))
    assert "preferred_element_type=jnp.float32" in body
    assert "precision=" not in body


STACKS = list(itertools.product((1, 3), (1, 2)))


@pytest.mark.parametrize("rhs", STACKS, ids=str)
@pytest.mark.parametrize("lhs", STACKS, ids=str)
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True)], ids=str)
def test_each_matrix_may_lack_each_axis_of_the_stack(lhs, rhs, flips):
    graph = build(K.stacked_dot, (*lhs, 4, 4), (*rhs, 4, 4), flips)
    compiled = compile_graph(graph, target("cpu"))
    assert "lax.dot_general" in print_kernel(compiled.only).text
    inputs = inputs_for(graph, seed=0)
    assert_same(execute(graph, compiled.program, inputs), interp.run(graph, inputs), str(graph))


@pytest.mark.parametrize(
    ("precision", "printed"), [("highest", "HIGHEST"), ("high", "HIGHEST"), ("default", "DEFAULT")]
)
def test_float32_products_take_the_passes_of_torch_or_more(precision, printed):
    body = text(build(K.linear_gelu, 64, 128, 128, precision=precision))
    assert f"precision=lax.Precision.{printed}" in body


def test_an_index_is_global():
    body = text(build(K.causal_mask, (4, 300, 300)), small_target())
    tile = only(build(K.causal_mask, (4, 300, 300)), small_target()).axis("rows").tile
    assert f"rows_id * {tile}" in body
    assert "cols_id" not in body


def test_the_tpu_is_told_memory_semantics_and_cost():
    body = text(build(K.column_sum, (5001, 130)), small_target())
    assert "dimension_semantics=('arbitrary',)" in body
    assert "vmem_limit_bytes=" in body
    assert "pl.CostEstimate(" in body
    assert "pl.when(rows_id == 0)" in body


def test_the_cpu_needs_no_grid():
    body = text(build(K.softmax, (4096, 1000)), target("cpu"))
    assert "grid=" not in body
    assert "BlockSpec" not in body
    assert "compiler_params" not in body


def test_names_are_distinct_and_legal():
    def clash(b):
        x, jnp = tensor(b, "x", (8, 128), I32), tensor(b, "jnp", (8, 128), I32)
        return b.op("add", b.op("mul", x, jnp), tensor(b, "x_ref", (8, 128), I32))

    source = text(build(clash))
    compile(source, "kernel", "exec")
    params = source.split("(", 1)[1].split(")", 1)[0].split(", ")
    assert len(set(params)) == len(params) == 4
