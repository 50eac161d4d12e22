"""Schedules of a whole partition: chosen once for equal regions, and settled with XLA's code."""

import kernel_graphs as K
from gates import V5E
from kernel_graphs import BF16, build, tensor

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.region import Partition, Region, Tier
from tpu_inductor.schedule.assign import (
    assign_schedules,
    choose_by_estimate,
    limit_kernels,
    settle_neighbours,
)
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.templates import templates_for


def partition(graph: Graph) -> Partition:
    return partition_regions(graph, V5E, prefer="pallas")


def softmax(b: Builder, x: Var) -> Value:
    shifted = b.op("exp", b.op("sub", x, K.row_sum(b, x, "reduce_max")))
    return b.op("div", shifted, K.row_sum(b, shifted))


def layers(b: Builder, widths: tuple[int, ...]):
    """Softmaxes of tensors of their own."""
    out = []
    for i, width in enumerate(widths):
        x = tensor(b, f"x{i}", (4096, width))
        out.append(softmax(b, x))
    return out


def test_equal_regions_are_scheduled_once():
    asked: list[Region] = []
    default = choose_by_estimate(V5E, templates_for(V5E))

    def choose(region: Region) -> TileSchedule | Reject:
        asked.append(region)
        return default(region)

    made = partition(build(layers, (1000, 1000, 1024, 1000)))
    scheduled = assign_schedules(made, choose)
    verify_schedules(scheduled, V5E)
    assert len(asked) == 2
    assert len(scheduled.schedules) == 4
    for region in scheduled.partition.regions:
        schedule = scheduled.schedules[region.name]
        assert schedule == default(region)
        assert tuple(o.var for o in schedule.inputs) == region.inputs


def projections(b: Builder):
    """Products of one matrix with two of their own, whose contracted axis is cut."""
    x = tensor(b, "x", (4096, 4096), BF16)
    return [K.dot(b, x, tensor(b, f"w{i}", (4096, 1024), BF16)) for i in range(2)]


def test_a_fold_of_an_equal_region_takes_that_regions_values():
    made = partition(build(projections))
    default = choose_by_estimate(V5E, templates_for(V5E))
    scheduled = assign_schedules(made, default)
    verify_schedules(scheduled, V5E)
    assert len(scheduled.schedules) == 2
    for region in scheduled.partition.regions:
        schedule = scheduled.schedules[region.name]
        assert schedule.carries
        assert schedule == default(region)


def test_equal_regions_are_rejected_for_one_reason():
    asked: list[Region] = []

    def choose(region: Region) -> Reject:
        asked.append(region)
        return Reject("XLA's code seems faster")

    scheduled = assign_schedules(partition(build(layers, (1000, 1000))), choose)
    assert len(asked) == 1
    assert {r.tier for r in scheduled.partition.regions} == {Tier.XLA}
    assert {r.reason for r in scheduled.partition.regions} == {"XLA's code seems faster"}


def between(b: Builder):
    """A negation between two softmaxes, which views that no kernel holds keep apart."""
    first = softmax(b, tensor(b, "x", (4096, 1000)))
    middle = b.op("neg", b.reshape(first, (1000, 4096)))
    return softmax(b, b.reshape(middle, (4096, 1000)))


def test_no_lone_kernel_stays_between_regions_that_lost_to_xla():
    made = partition(build(between))
    (lone,) = (r for r in made.regions if r.name == "neg")
    default = choose_by_estimate(V5E, templates_for(V5E), "pallas")

    def choose(region: Region) -> TileSchedule | Reject:
        return default(region) if region is lone else Reject("XLA's code seems faster")

    scheduled = assign_schedules(made, choose)
    assert list(scheduled.schedules) == ["neg"]
    settled = settle_neighbours(made, scheduled, V5E)
    assert not settled.schedules
    reasons = {r.reason for r in settled.partition.regions}
    assert "XLA fuses it with its neighbours" in reasons
    assert all(r.factoring is None for r in settled.partition.regions)


def test_kernels_far_from_what_lost_stay():
    made = partition(build(layers, (1000, 1024)))
    default = choose_by_estimate(V5E, templates_for(V5E), "pallas")

    def choose(region: Region) -> TileSchedule | Reject:
        return default(region) if region is made.regions[0] else Reject("XLA's code seems faster")

    scheduled = assign_schedules(made, choose)
    assert settle_neighbours(made, scheduled, V5E) == scheduled


def test_nothing_is_asked_again_where_nothing_lost():
    made = partition(build(layers, (1000,)))
    scheduled = assign_schedules(made, choose_by_estimate(V5E, templates_for(V5E), "pallas"))
    assert settle_neighbours(made, scheduled, V5E) is scheduled


def test_fuel_makes_the_first_of_the_kernels_that_all_other_choices_leave():
    made = partition(build(layers, (1000, 1024, 1000, 1000)))
    default = choose_by_estimate(V5E, templates_for(V5E), "pallas")

    def choose(region: Region) -> TileSchedule | Reject:
        return Reject("slow") if region is made.regions[1] else default(region)

    whole = settle_neighbours(made, assign_schedules(made, choose), V5E)
    names = list(whole.schedules)
    assert len(names) == 3
    for fuel in range(5):
        limited = limit_kernels(whole, fuel)
        assert list(limited.schedules) == names[:fuel]
        verify_schedules(limited, V5E)
        spent = [r.name for r in limited.partition.regions if r.reason == "out of fuel"]
        assert spent == names[fuel:]
    assert limit_kernels(whole, None) is whole
