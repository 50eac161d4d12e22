"""Regions and programs by measurement, with times that the tests make up."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import kernel_graphs as K
import pytest
from gates import V5E
from kernel_graphs import build

from tpu_inductor.codegen.program import Program
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Graph
from tpu_inductor.regions.canonical import canonical_region, region_text
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.region import Partition, Tier
from tpu_inductor.regions.verify import verify_partition
from tpu_inductor.schedule.assign import Scheduled, assign_schedules, choose_by_estimate
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.templates import templates_for
from tpu_inductor.tune.select import Measurement
from tpu_inductor.tune.store import TuningStore
from tpu_inductor.tune.tuner import TunedGraph, Tuner


def is_kernel(program: Program) -> bool:
    return "pallas_call" in program.source


def is_whole(program: Program) -> bool:
    return program.name == "graph"


def by_estimate(partition: Partition) -> Scheduled:
    return assign_schedules(partition, choose_by_estimate(V5E, templates_for(V5E)))


def grid_points(program: Program) -> int:
    """In the grid of a program with one kernel of one grid axis; 1 without a grid."""
    found = re.search(r"grid=\((\d+),\)", program.source)
    return int(found[1]) if found else 1


@dataclass
class Fake:
    """A measurer by a formula, which keeps what it was asked."""

    time: Callable[[Program], float | Measurement]
    asked: list[Program] = field(default_factory=list)
    label: str = "made up"
    is_deterministic: bool = True

    def measure(self, programs):
        self.asked += programs
        times = [self.time(p) for p in programs]
        return [t if isinstance(t, Measurement) else Measurement(t) for t in times]


@pytest.fixture
def store(tmp_path):
    return TuningStore(tmp_path, ("1",))


def tune(graph: Graph, store, time, prefer="auto", **settings) -> tuple[TunedGraph, Fake]:
    measurer = time if isinstance(time, Fake) else Fake(time)
    tuner = Tuner(V5E, choose_by_estimate(V5E, templates_for(V5E)), store, measurer, **settings)
    partition = partition_regions(graph, V5E, prefer=prefer)
    tuned = tuner.tune(partition, partition_regions(graph, V5E, prefer="xla"))
    verify_partition(tuned.scheduled.partition)
    verify_schedules(tuned.scheduled, V5E)
    return tuned, measurer


def softmax():
    return build(K.softmax, (4096, 1000))


def test_the_schedule_that_is_measured_fastest_is_chosen(store):
    def many_points(program):
        return 5000.0 - grid_points(program) if is_kernel(program) else 10_000.0

    tuned, measurer = tune(softmax(), store, many_points)
    (schedule,) = tuned.scheduled.schedules.values()
    measured = [grid_points(p) for p in measurer.asked if is_kernel(p) and not is_whole(p)]
    assert len(measured) > 2
    assert math.prod(schedule.axis(name).blocks for name in schedule.grid) == max(measured)


def test_a_schedule_tells_how_it_was_chosen(store):
    tuned, _ = tune(softmax(), store, lambda p: 10.0 + grid_points(p) if is_kernel(p) else 10_000.0)
    (schedule,) = tuned.scheduled.schedules.values()
    assert schedule.reason.endswith("; made up: 11.0 us")
    assert not schedule.grid
    assert schedule.rejected[0] == "XLA's code: 10000.0 us"
    assert re.fullmatch(r"rows, .*: \d+\.0 us", schedule.rejected[1])
    assert "region" in str(tuned)
    assert "measured now" in str(tuned)


def test_the_default_wins_ties(store):
    graph = softmax()
    default = by_estimate(partition_regions(graph, V5E))
    tuned, _ = tune(graph, store, lambda p: 10.0 if is_kernel(p) else 10_000.0)
    (before,), (after,) = default.schedules.values(), tuned.scheduled.schedules.values()
    assert (before.axes, before.grid) == (after.axes, after.grid)


def two_results(b):
    """Two kernels that have nothing to do with each other."""
    x, y = K.tensor(b, "x", (2048, 512)), K.tensor(b, "y", (1024, 384))
    return [b.op("mul", each, K.row_sum(b, each)) for each in (x, y)]


def mixed(xla_us: float, whole: dict[int, float]):
    """XLA takes `xla_us` for the smaller kernel; a whole program's time is by its kernels."""

    def time(program):
        if is_whole(program):
            return whole[program.source.count("pl.pallas_call(")]
        is_small = "f32[1024" in str(program.inputs[0].type)
        return 10.0 if is_kernel(program) else (xla_us if is_small else 20.0)

    return time


@pytest.mark.parametrize(("xla_us", "kernels"), [(10.0, 2), (9.9, 1)])
def test_xla_runs_a_region_where_it_is_faster(store, xla_us, kernels):
    tuned, _ = tune(build(two_results), store, mixed(xla_us, {0: 30.0, 1: 20.0, 2: 25.0}))
    regions = tuned.scheduled.partition.regions
    assert sum(r.tier is Tier.PALLAS for r in regions) == kernels
    told = [r.reason for r in regions if r.tier is Tier.XLA]
    assert told == ["XLA's code is faster: 9.9 us against 10.0 us (made up)"][: 2 - kernels]


def test_kernels_that_lose_alone_may_win_in_the_program(store):
    time = mixed(9.0, {0: 30.0, 1: 25.0, 2: 20.0})
    tuned, _ = tune(build(two_results), store, time)
    assert len(tuned.scheduled.schedules) == 2
    reasons = [s.reason for s in tuned.scheduled.schedules.values()]
    assert sum("faster alone, but not in the program" in reason for reason in reasons) == 1
    assert "the fastest kernel of each region: 20.0 us" in str(tuned)
    again, measurer = tune(build(two_results), store, time)
    assert not measurer.asked
    assert again.scheduled == tuned.scheduled


def test_the_default_program_is_in_the_race(store):
    graph = softmax()
    default = by_estimate(partition_regions(graph, V5E))
    (before,) = default.schedules.values()
    before_points = math.prod(before.axis(name).blocks for name in before.grid)

    def time(program):
        if not is_kernel(program):
            return 10_000.0
        is_default = grid_points(program) == before_points
        return 10.0 + 5.0 * (is_default != is_whole(program))

    tuned, _ = tune(graph, store, time)
    assert tuned.scheduled == default
    assert "the default of each region: 10.0 us" in str(tuned)


def test_xla_runs_the_whole_program_where_that_is_faster(store):
    def time(program):
        return {True: 10.0, False: 5.0 if is_whole(program) else 20.0}[is_kernel(program)]

    tuned, _ = tune(softmax(), store, time)
    assert {r.tier for r in tuned.scheduled.partition.regions} == {Tier.XLA}
    assert not tuned.scheduled.schedules
    (region,) = tuned.scheduled.partition.regions
    assert region.reason == (
        "XLA runs the whole program: XLA's code is faster: 5.0 us against 10.0 us (made up)"
    )
    again, measurer = tune(softmax(), store, time)
    assert again.scheduled == tuned.scheduled
    assert not measurer.asked


def test_kernels_are_kept_where_they_are_wanted(store):
    def xla_is_fast(program):
        return 10.0 if is_kernel(program) else 1.0

    tuned, measurer = tune(softmax(), store, xla_is_fast, may_use_xla=False)
    assert len(tuned.scheduled.schedules) == 1
    assert all(is_kernel(p) and not is_whole(p) for p in measurer.asked)


def test_a_doubt_is_told(store):
    def time(program):
        return Measurement(10.0 if is_kernel(program) else 20.0, doubt="not to be trusted")

    tuned, _ = tune(softmax(), store, time)
    (schedule,) = tuned.scheduled.schedules.values()
    assert schedule.reason.endswith("made up: 10.0 us, not to be trusted")


def test_what_was_found_is_not_measured_again(store):
    def time(program):
        return 5000.0 - grid_points(program) if is_kernel(program) else 10_000.0

    first, _ = tune(softmax(), store, time)
    again, measurer = tune(softmax(), store, time)
    assert not measurer.asked
    assert again.scheduled == first.scheduled
    assert "kept on disk" in str(again)


def test_a_winner_that_is_no_candidate_any_more_is_measured_again(store):
    def time(program):
        return 5000.0 - grid_points(program) if is_kernel(program) else 10_000.0

    first, _ = tune(softmax(), store, time)
    for path in store.folder.rglob("*.json"):
        path.write_text(path.read_text().replace('"template": "rows"', '"template": "rings"'))
    again, measurer = tune(softmax(), store, time)
    assert measurer.asked
    assert again.scheduled == first.scheduled


def two_layers(b, shape=(2048, 512)):
    """Equal layers, which a reversal keeps apart."""
    x = K.tensor(b, "x", shape)
    for _ in range(2):
        shifted = b.op("exp", b.op("sub", x, K.row_sum(b, x, "reduce_max")))
        x = b.one("rev", b.op("div", shifted, K.row_sum(b, shifted)), attrs=A.Dims((0,)))
    return x


def test_equal_layers_are_measured_once(store):
    tuned, measurer = tune(build(two_layers), store, lambda p: 1.0 if is_kernel(p) else 2.0)
    assert len(tuned.scheduled.schedules) == 2
    (found,) = tuned.regions
    assert len(found.names) == 2
    assert sum(not is_kernel(p) and not is_whole(p) for p in measurer.asked) == 1
    assert len({s.reason for s in tuned.scheduled.schedules.values()}) == 1


def test_names_do_not_matter():
    (region,) = partition_regions(softmax(), V5E).regions
    same = canonical_region(region)
    assert region_text(canonical_region(same)) == region_text(same)
    assert "v0: f32[4096,1000]" in region_text(same)
    other = canonical_region(partition_regions(build(K.softmax, (4096, 1001)), V5E).regions[0])
    assert region_text(other) != region_text(same)


def test_what_the_compiler_refuses_is_not_chosen_and_told(store):
    graph = softmax()
    (before,) = by_estimate(partition_regions(graph, V5E)).schedules.values()
    before_points = math.prod(before.axis(name).blocks for name in before.grid)

    def time(program):
        if is_kernel(program) and grid_points(program) == before_points:
            return Measurement(refused="E1001: no\nmuch more text")
        return 10.0 if is_kernel(program) else 20.0

    tuned, _ = tune(graph, store, time)
    (schedule,) = tuned.scheduled.schedules.values()
    assert schedule.axes != before.axes
    assert "refused by the compiler: E1001: no\n" in str(tuned)


def test_where_every_kernel_is_refused_xla_runs_it_and_nothing_is_kept(store):
    def time(program):
        return Measurement(refused="killed") if is_kernel(program) else 20.0

    tuned, _ = tune(softmax(), store, time)
    (region,) = tuned.scheduled.partition.regions
    assert region.tier is Tier.XLA
    assert "refused by the compiler: killed" in region.reason
    assert not store.folder.exists() or not list(store.folder.rglob("*.json"))


def test_where_nothing_has_a_time_the_default_runs(store):
    graph = softmax()
    tuned, _ = tune(graph, store, lambda p: Measurement(doubt="no listing"))
    assert tuned.scheduled == by_estimate(partition_regions(graph, V5E))
    assert "nothing could be compared" in str(tuned)


def test_a_program_that_the_compiler_refuses_becomes_xlas(store):
    def time(program):
        if is_whole(program) and is_kernel(program):
            return Measurement(refused="out of memory")
        return 10.0 if is_kernel(program) else 20.0

    tuned, _ = tune(softmax(), store, time)
    (region,) = tuned.scheduled.partition.regions
    assert region.tier is Tier.XLA
    assert "refused by the compiler: out of memory" in region.reason
