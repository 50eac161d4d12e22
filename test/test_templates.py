"""Every template through every gate, at tiles of a TPU with tails along every axis."""

import kernel_graphs as K
import pytest
from gates import (
    CHIPS,
    LOOSE,
    V5E,
    Compiled,
    assert_same,
    check_compiles,
    check_gates,
    check_numbers,
    compile_graph,
    execute,
    print_compiled,
    small_target,
)
from kernel_graphs import BF16, I32, build
from random_graphs import inputs_for

from tpu_inductor.graph import interp
from tpu_inductor.graph.core import Graph
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.axes import find_axes
from tpu_inductor.schedule.candidates import build_schedule
from tpu_inductor.schedule.nest import How, Loop, walk
from tpu_inductor.schedule.operands import bind_operands
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.templates import accumulate, matmul, rows, templates_for

SMALL = {
    "softmax": build(K.softmax, (33, 130)),
    "softmax bf16": build(K.softmax, (7, 1000), BF16),
    "layer_norm": build(K.layer_norm, (3, 5, 129)),
    "rms_norm": build(K.rms_norm),
    "moments": build(K.group_moments),
    "any all": build(K.any_all),
    "arg extremes": build(K.arg_extremes),
    "arg extremes of all": build(K.flat_arg_extremes, (9, 130), (0, 1), (9 * 130,), 0),
    "arg extremes across": build(K.flat_arg_extremes, (5, 130, 6), (0, 2, 1), (5, 780), 1),
    "arg extremes of one": build(K.flat_arg_extremes, (9, 1), (0, 1), (9, 1), 1),
    "middle": build(K.middle),
    "chain i32": build(K.chain, (9, 130), I32),
    "vector": build(K.chain, (4096,)),
    "odd vector bf16": build(K.chain, (7,), BF16),
    "vector sum": build(K.total, (1000,)),
    "two results": build(K.two_results),
    "causal": build(K.causal_mask),
    "masks": build(K.mixed_masks),
    "x + x.T": build(K.with_transpose),
    "outer sum": build(K.outer_sum),
    "cube": build(K.permuted_cube),
    "permuted": build(K.permuted_cube, (8, 16, 136), (1, 0, 2)),
    "views": build(K.merged_views),
    "extremes i32": build(K.row_extremes, (64, 300), I32),
}
"""Whole in one block on a real TPU."""

TILED = {
    "rows": (build(K.chain, (1000, 300)), ("rows",)),
    "rows bf16": (build(K.chain, (500, 700), BF16), ("rows",)),
    "rows of 3 axes": (build(K.middle, (60, 33, 130)), ("b0",)),
    "vector as rows": (build(K.chain, (128 * 1001,)), ("rows",)),
    "resident rows": (build(K.softmax, (1001, 130)), ("rows",)),
    "resident rows bf16": (build(K.layer_norm, (3, 333, 200), BF16), ("rows",)),
    "global index": (build(K.causal_mask, (4, 300, 300)), ("b0", "rows")),
    "masks": (build(K.mixed_masks, (400, 300)), ("rows",)),
    "argmax": (build(K.arg_extremes, (1001, 300)), ("rows",)),
    "any all": (build(K.any_all, (1001, 300)), ("rows",)),
    "column sum": (build(K.column_sum, (5001, 130)), ("rows",)),
    "row extremes": (build(K.row_extremes, (3, 100001)), ("cols",)),
    "total": (build(K.total, (2047, 300)), ("rows",)),
}
"""Graphs whose tiles for `small_target()` make this grid, most with a tail."""

MATMULS = {
    "linear": (build(K.linear_gelu), ()),
    "batched": (build(K.batched_dot), ("b0", "b1")),
    "gated": (build(K.gated_dot), ("b0",)),
    "no batch on the left": (build(K.stacked_dot, (1, 40, 64), (3, 64, 72)), ("b0",)),
    "a batch on either side": (
        build(K.stacked_dot, (3, 1, 8, 8), (1, 2, 8, 8), (True, False)),
        ("b0", "b1"),
    ),
    "k tail bf16": (build(K.linear_gelu, 40, 9000, 130, BF16, "default"), ("k",)),
}

CHUNKED = {
    "rows": build(K.softmax, (64, 300)),
    "rows bf16": build(K.layer_norm, (3, 64, 200), BF16),
    "index": build(K.causal_mask, (4, 64, 300)),
    "masks": build(K.mixed_masks, (384, 300)),
    "argmax": build(K.arg_extremes, (96, 300)),
    "two results": build(K.two_results, (64, 300)),
    "outer": build(K.middle, (60, 33, 130)),
    "matmul": build(K.linear_gelu, 512, 512, 256, BF16, "default"),
}
"""Blocks that are several chunks, when a chunk is small."""

ANY_TILING = {
    "matmul": build(K.linear_gelu, 300, 1100, 260),
    "rows": build(K.mixed_masks, (300, 1300)),
    "accumulate": build(K.column_sum, (1100, 1300)),
    "accumulate rows": build(K.row_extremes, (20, 9000)),
    "accumulate ints": build(K.row_extremes, (20, 9000), I32),
}


@pytest.mark.aot
@pytest.mark.parametrize("name", SMALL)
def test_kernels_of_one_block_pass_the_gates(name):
    check_gates(SMALL[name])


@pytest.mark.aot
@pytest.mark.parametrize("name", TILED)
def test_kernels_with_a_grid_pass_the_gates(name):
    graph, grid = TILED[name]
    chip = small_target()
    compiled = check_gates(graph, chip, tolerance=LOOSE, chips=[chip])
    assert compiled.only.grid == grid


@pytest.mark.aot
@pytest.mark.parametrize("name", CHUNKED)
def test_loops_over_a_block_pass_the_gates(name, monkeypatch):
    monkeypatch.setattr(rows, "CHUNK_ELEMENTS", 2048)
    monkeypatch.setattr(matmul, "MAX_PRODUCTS", 1 << 24)
    monkeypatch.setattr(matmul, "WANTED_M", (512,))
    compiled = check_gates(CHUNKED[name], tolerance=LOOSE)
    assert loops_in(compiled)
    assert "@pl.loop" in compiled.program.source


@pytest.mark.aot
@pytest.mark.parametrize("name", ["column sum", "total"])
def test_loops_that_gather_pass_the_gates(name, monkeypatch):
    monkeypatch.setattr(accumulate, "CHUNK_ELEMENTS", 2048)
    graph, chip = TILED[name][0], small_target()
    compiled = check_gates(graph, chip, tolerance=LOOSE, chips=[chip])
    assert loops_in(compiled) == ["rows"]


def loops_in(compiled: Compiled) -> list[str]:
    """The axes over whose chunks the kernel loops."""
    nodes = walk(compiled.only.nest)
    return [n.axis for n in nodes if isinstance(n, Loop) and n.how is How.LOOP]


@pytest.mark.parametrize("name", MATMULS)
def test_matmuls_give_the_numbers(name):
    graph, grid = MATMULS[name]
    compiled = check_numbers(graph, tolerance=LOOSE)
    assert set(grid) <= set(compiled.schedules[0].grid)


@pytest.mark.aot
@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "graph",
    [
        build(K.linear_gelu, 300, 700, 260),
        build(K.linear_gelu, 300, 9000, 260, BF16, "default"),
        build(K.batched_dot, "default"),
        build(K.gated_dot, "high"),
        build(K.split_heads, "default"),
    ],
    ids=["f32", "k tail bf16", "batched", "gated", "heads"],
)
def test_matmuls_compile(graph, chip):
    check_compiles(graph, [chip])


@pytest.mark.parametrize("name", ANY_TILING)
def test_every_candidate_gives_the_same_numbers(name):
    """Whichever schedule the cost model prefers: it is only a matter of speed."""
    graph = ANY_TILING[name]
    inputs = inputs_for(graph, 0)
    want = interp.run(graph, inputs)
    candidates = every_schedule(graph)
    assert len({c.only.grid for c in candidates}) > 1
    for candidate in candidates[:: max(1, len(candidates) // 6)]:
        got = execute(graph, candidate.program, inputs)
        where = f"{candidate.scheduled}\n{candidate.program.source}"
        assert_same(got, want, where, LOOSE)


def every_schedule(graph: Graph) -> list[Compiled]:
    """The graph's one kernel with each tiling that any template offers and that fits VMEM."""
    scheduled = compile_graph(graph).scheduled
    (region,) = scheduled.partition.regions
    kernel_axes = find_axes(region, V5E)
    bindings = bind_operands(region, kernel_axes)
    found: dict[object, TileSchedule] = {}
    for template in templates_for(V5E):
        if template.accepts(region, kernel_axes, V5E) is None:
            for tiling in template.candidates(region, kernel_axes, V5E):
                made = build_schedule(region, bindings, template.name, tiling, V5E)
                if made.vmem_bytes <= V5E.vmem_limit_bytes:
                    found[made.grid, tuple(a.tile for a in made.axes)] = made
    return [
        print_compiled(Scheduled(scheduled.partition, {region.name: s}), V5E)
        for s in found.values()
    ]
