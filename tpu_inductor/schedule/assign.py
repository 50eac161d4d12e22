"""Gives every pallas region of a partition a schedule; a region that gets none goes to XLA."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tpu_inductor.errors import Reject
from tpu_inductor.regions.canonical import canonical_region, region_text, values_of
from tpu_inductor.regions.neighbours import find_losers
from tpu_inductor.regions.region import Partition, Region, Rows, Segment, Tier
from tpu_inductor.regions.wiring import Wiring
from tpu_inductor.schedule.arrays import Operand
from tpu_inductor.schedule.choose import choose_schedule
from tpu_inductor.schedule.nest import with_names
from tpu_inductor.schedule.template import Template
from tpu_inductor.schedule.text import schedule_text
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget

Choice: TypeAlias = Callable[[Region], TileSchedule | Reject]
"""Gives a pallas region, by its canonical form alone, a schedule or the reason why XLA runs it.

A reason names none of the region's values.
"""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A partition in which every pallas region has a schedule, by the region's name."""

    partition: Partition
    schedules: Mapping[str, TileSchedule]

    def __str__(self) -> str:
        return "\n".join(schedule_text(s) for s in self.schedules.values())


def choose_by_estimate(
    target: TpuTarget, templates: Sequence[Template], prefer: str = "auto"
) -> Choice:
    """The choice that measures nothing: the best candidate by the cost model, or XLA."""
    return functools.partial(choose_schedule, target=target, templates=templates, prefer=prefer)


def assign_schedules(partition: Partition, choose: Choice) -> Scheduled:
    """Gives every pallas region what `choose` says.

    Regions with equal canonical forms are asked about once.
    """
    chosen = _Chosen(choose)
    schedules: dict[str, TileSchedule] = {}
    segments: list[Segment] = []
    for segment in partition.segments:
        regions = tuple(_assign(region, chosen.of, schedules) for region in segment.regions)
        segments.append(replace(segment, regions=regions))
    return Scheduled(replace(partition, segments=tuple(segments)), schedules)


def _assign(region: Region, choose: Choice, schedules: dict[str, TileSchedule]) -> Region:
    if region.tier is not Tier.PALLAS:
        return region
    schedule = choose(region)
    if isinstance(schedule, Reject):
        return _to_xla(region, schedule.reason)
    schedules[region.name] = schedule
    return region


def _to_xla(region: Region, reason: str) -> Region:
    return replace(region, tier=Tier.XLA, factoring=None, rows=Rows.PASSED, reason=reason)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What has been chosen so far, with the first of equal regions and its canonical form."""

    choose: Choice
    known: dict[str, tuple[Region, Region, TileSchedule | Reject]] = field(
        default_factory=dict[str, tuple[Region, Region, TileSchedule | Reject]]
    )

    def of(self, region: Region) -> TileSchedule | Reject:
        canonical = canonical_region(region)
        text = region_text(canonical)
        if text in self.known and self.known[text][1].factoring == canonical.factoring:
            first, _, found = self.known[text]
            return found if isinstance(found, Reject) else _schedule_equal(found, first, region)
        found = self.choose(region)
        # The equations of a stream are made for it, with names from the region's.
        if isinstance(found, Reject) or region.rows is not Rows.STREAMED:
            self.known[text] = region, canonical, found
        return found


def _schedule_equal(schedule: TileSchedule, first: Region, region: Region) -> TileSchedule:
    """The schedule of `first` for an equal region."""
    renamed = dict(zip(values_of(first), values_of(region), strict=True))

    def of(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, var=renamed[o.var]) for o in operands)

    inputs, outputs = of(schedule.inputs), of(schedule.outputs)
    known = dict(zip((*schedule.inputs, *schedule.outputs), (*inputs, *outputs), strict=True))
    nest = with_names(schedule.nest, known, renamed)
    return replace(schedule, region=region, inputs=inputs, outputs=outputs, nest=nest)


def settle_neighbours(partition: Partition, scheduled: Scheduled, target: TpuTarget) -> Scheduled:
    """Asks again beside the regions that scheduling left to XLA, as `partition` did before.

    A kernel between two regions of XLA may be worth less than the fusion that it prevents.
    """
    pairs = zip(partition.regions, scheduled.partition.regions, strict=True)
    lost = [old for old, new in pairs if old.tier is not new.tier]
    if not lost:
        return scheduled
    wiring = Wiring.of(partition.graph)
    kernels = {
        region.name: _members(wiring, region)
        for region in partition.regions
        if region.name in scheduled.schedules
    }
    compute = [i for region in lost for i in _members(wiring, region) if not wiring.free[i]]
    return _leave_to_xla(scheduled, find_losers(wiring, kernels, target, beside=compute))


def limit_kernels(scheduled: Scheduled, fuel: int | None) -> Scheduled:
    """Leaves all kernels but the first `fuel` to XLA, if given.

    Comes after every other choice, so that what the first kernels are does not depend on `fuel`.
    """
    if fuel is None:
        return scheduled
    return _leave_to_xla(scheduled, dict.fromkeys([*scheduled.schedules][fuel:], "out of fuel"))


def _leave_to_xla(scheduled: Scheduled, left: Mapping[str, str]) -> Scheduled:
    """`left` has the reasons by the names of regions."""
    segments = tuple(
        replace(
            segment,
            regions=tuple(
                _to_xla(r, left[r.name]) if r.name in left else r for r in segment.regions
            ),
        )
        for segment in scheduled.partition.segments
    )
    kept = {name: s for name, s in scheduled.schedules.items() if name not in left}
    return Scheduled(replace(scheduled.partition, segments=segments), kept)


def _members(wiring: Wiring, region: Region) -> tuple[int, ...]:
    return tuple(wiring.producer[eqn.outputs[0]] for eqn in region.eqns)
