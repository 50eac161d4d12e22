"""Tiles, grids, memory and estimates: what is chosen, what is refused, and what is told of it."""

import math
from dataclasses import replace

import kernel_graphs as K
import pytest
from gates import V5E, Compiled, compile_graph, small_target
from kernel_graphs import BF16, I32, build

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.region import Tier
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.nest import Fold, How, Loop, Nest, Node, Store, folds_of
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.schedule.vmem import padded_bytes
from tpu_inductor.target import TARGETS, TpuTarget, target


def schedule(graph: Graph, chip: TpuTarget = V5E) -> TileSchedule:
    return compile_graph(graph, chip).only


def test_rows_are_whole_and_the_grid_goes_over_them():
    made = schedule(build(K.softmax, (4096, 1000)))
    assert made.template == "rows"
    assert made.grid == ("rows",)
    assert made.axis("cols").is_whole
    assert not made.folded
    (x,) = made.inputs
    assert made.block(x) == (made.axis("rows").tile, 1000)
    assert made.index(x) == ("rows", "0")


def test_a_broadcast_operand_is_not_indexed_by_the_grid():
    made = schedule(build(K.layer_norm, (4096, 1000)))
    weight = next(o for o in made.inputs if o.var.name == "weight")
    assert made.block(weight) == (1000,)
    assert made.index(weight) == ("0",)


def test_rows_that_exceed_memory_gather_in_an_accumulator():
    made = schedule(build(K.row_extremes, (3, 100001)), small_target())
    assert made.template == "accumulate"
    assert made.grid == ("cols",)
    assert made.folded == {"cols"}
    assert made.axis("cols").has_tail
    assert [c.shape for c in made.carries] == [(3, 1), (3, 1)]


def test_parallel_axes_come_before_accumulation():
    made = schedule(build(K.column_sum, (200_000, 700)))
    assert made.template == "accumulate"
    assert made.grid[-1] == "rows"
    (fold,) = folds_of(made.nest)
    assert fold.axes == ("rows",)
    assert isinstance(fold.last[-1], Store)


def test_masks_gather_as_integers():
    made = schedule(build(K.any_all, (1001, 300)), small_target())
    assert made.template == "rows"

    def any_row(b):
        return b.reduce("reduce_or", K.tensor(b, "x", (3, 100001), K.BOOL), (1,))

    (gathered,) = schedule(build(any_row), small_target()).carries
    assert gathered.dtype is I32


def test_a_long_contraction_is_accumulated_over_k():
    made = schedule(build(K.linear_gelu, 1024, 65536, 1024, BF16, "default"))
    assert made.template == "matmul"
    assert made.grid[-1] == "k"
    assert made.folded == {"k"}
    (gathered,) = made.carries
    assert gathered.dtype is DType.F32
    assert gathered.shape == (made.axis("m").tile, made.axis("n").tile)


def test_tiles_divide_the_axes_where_they_can():
    made = schedule(build(K.linear_gelu, 2048, 12288, 4096, BF16, "default"))
    assert not any(a.has_tail for a in made.axes)


@pytest.mark.parametrize("chip", [c for c in TARGETS.values() if c.is_tpu], ids=lambda c: c.name)
@pytest.mark.parametrize(
    "graph",
    [
        build(K.softmax, (4096, 4096), BF16),
        build(K.layer_norm, (4096, 4096)),
        build(K.linear_gelu, 2048, 4096, 11008, BF16, "default"),
        build(K.linear_gelu, 2048, 4096, 4096),
        build(K.column_sum, (50000, 700)),
        build(K.causal_mask, (32, 2048, 2048)),
    ],
    ids=["softmax", "layer_norm", "linear", "linear f32", "column sum", "causal"],
)
def test_every_chip_gets_a_kernel_within_its_memory(graph, chip):
    made = schedule(graph, chip)
    assert made.vmem_bytes <= chip.vmem_limit_bytes
    assert made.vmem_bytes <= made.vmem_limit_bytes <= chip.vmem_bytes


@pytest.mark.parametrize(("chip", "copies"), [("v4", 1), ("v5e", 2)])
def test_exact_products_need_room_for_the_parts_of_their_operands(chip, copies):
    exact, plain = (
        schedule(build(K.linear_gelu, 128, 256, 128, precision=precision), target(chip))
        for precision in ("highest", "default")
    )
    m, n, k = (exact.axis(name).extent for name in "mnk")
    assert [(a.tile, a.extent) for a in plain.axes] == [(a.tile, a.extent) for a in exact.axes]
    assert exact.vmem_bytes - plain.vmem_bytes == copies * 4 * k * (m + n)


@pytest.mark.parametrize("chip", ["v6e", "tpu7x"])
@pytest.mark.parametrize(("precision", "most"), [("highest", 1 << 28), ("default", 1 << 30)])
def test_the_products_that_are_written_out_have_a_limit(chip, precision, most):
    graph = build(K.linear_gelu, 4096, 4096, 4096, precision=precision)
    made = schedule(graph, target(chip))
    assert most // 4 <= math.prod(made.axis(name).extent for name in "mnk") <= most


def test_the_estimate_is_at_least_that_of_memory_traffic():
    made = schedule(build(K.softmax, (4096, 4096)))
    assert made.cost.hbm_bytes == 2 * 4096 * 4096 * 4
    assert made.cost.time_us >= made.cost.hbm_bytes / (V5E.hbm_gbps * 1e3)
    fast = schedule(build(K.softmax, (4096, 4096)), target("v6e"))
    assert fast.cost.time_us < made.cost.time_us


def test_an_operand_that_the_grid_does_not_move_is_fetched_once():
    made = schedule(build(K.linear_gelu, 4096, 4096, 4096, BF16, "default"))
    once = sum(o.var.type.nbytes for o in (*made.inputs, *made.outputs))
    assert once <= made.cost.hbm_bytes < 10 * once


def test_the_slower_candidates_are_told():
    made = schedule(build(K.softmax, (4096, 1000)))
    assert made.rejected
    assert all(line.endswith("us") for line in made.rejected)
    text = str(compile_graph(build(K.softmax, (4096, 1000))).scheduled)
    assert "  why    " in text
    assert "  not    rows" in text


def test_a_region_that_never_fits_goes_to_xla_with_the_reason():
    chip = replace(V5E, vmem_limit_bytes=16 << 10)
    compiled = compile_graph(build(K.chain, (1000, 1000)), chip)
    assert not compiled.schedules
    (region,) = compiled.scheduled.partition.regions
    assert region.tier is Tier.XLA
    assert "of VMEM, the limit is 16 KiB" in region.reason


def test_memory_is_counted_in_padded_register_tiles():
    assert padded_bytes((1, 1), DType.F32, V5E) == 8 * 128 * 4
    assert padded_bytes((9, 129), DType.F32, V5E) == 16 * 256 * 4
    assert padded_bytes((9, 129), BF16, V5E) == 16 * 256 * 2
    assert padded_bytes((None, 9, 129), BF16, V5E) == 16 * 256 * 2
    assert padded_bytes((3, 8, 128), DType.BOOL, V5E) == 3 * 32 * 128


# -- verify ---------------------------------------------------------------------------------
def broken(compiled: Compiled, **changes: object) -> Scheduled:
    made = replace(compiled.only, **changes)
    return Scheduled(compiled.scheduled.partition, {made.region.name: made})


def with_axis(made: TileSchedule, name: str, **changes: object) -> tuple[object, ...]:
    return tuple(replace(a, **changes) if a.name == name else a for a in made.axes)


def refuses(scheduled: Scheduled, message: str) -> None:
    with pytest.raises(InvalidIR, match=message):
        verify_schedules(scheduled, V5E)


@pytest.fixture(scope="module")
def rows() -> Compiled:
    return compile_graph(build(K.softmax, (4096, 1000)))


def test_a_block_that_is_not_made_of_register_tiles_is_refused(rows):
    axes = with_axis(rows.only, "rows", tile=20, chunk=0)
    refuses(broken(rows, axes=axes), r"block \(20, 1000\).*is not made of \(8, 128\) tiles")


def test_blocks_that_no_loop_goes_over_are_refused(rows):
    (loop,) = rows.only.nest
    assert isinstance(loop, Loop)
    refuses(broken(rows, nest=loop.body), "blocks against the grid")
    refuses(broken(rows, axes=with_axis(rows.only, "cols", tile=128)), "blocks against the grid")


def test_accumulating_nothing_is_refused(rows):
    (loop,) = rows.only.nest
    fold = Fold(("rows",), (), loop.body, ())
    axes = with_axis(rows.only, "rows", chunk=0)
    refuses(broken(rows, axes=axes, nest=(fold,)), "accumulates nothing")


def test_a_parallel_axis_inside_an_accumulation_is_refused():
    compiled = compile_graph(build(K.column_sum, (200_000, 70_000)))
    (outer,) = compiled.only.nest
    (fold,) = outer.body
    inside = replace(fold, each=(Loop(outer.axis, How.GRID, fold.each),))
    refuses(broken(compiled, nest=(inside,)), "a grid axis inside a fold")


def test_a_value_that_is_read_before_it_is_made_is_refused(rows):
    ((chunks,),) = (block.body for block in rows.only.nest)
    backwards = replace(chunks, body=chunks.body[::-1])
    refuses(broken(rows, nest=within_blocks(rows, backwards)), "before it is there")


def test_a_result_that_is_not_stored_once_is_refused(rows):
    ((chunks,),) = (block.body for block in rows.only.nest)
    twice = replace(chunks, body=(*chunks.body, chunks.body[-1]))
    refuses(broken(rows, nest=within_blocks(rows, twice)), "is stored 2 times")


def within_blocks(rows: Compiled, node: Node) -> Nest:
    return tuple(replace(block, body=(node,)) for block in rows.only.nest)


def test_a_result_written_again_is_refused():
    compiled = compile_graph(build(K.chain, (4096, 4096)))
    (out,) = compiled.only.outputs
    first, second = out.places
    thin = replace(out, places=(replace(first, is_present=False), second))
    refuses(broken(compiled, outputs=(thin,)), "written again along rows")


def test_too_much_memory_is_refused(rows):
    refuses(broken(rows, vmem_bytes=V5E.vmem_limit_bytes + 1), "exceeds the VMEM of v5e")
