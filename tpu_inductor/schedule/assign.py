"""Gives every pallas region of a partition a schedule; a region that gets none goes to XLA."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Partition, Region, Segment, Tier
from tpu_inductor.schedule.choose import choose_schedule
from tpu_inductor.schedule.text import schedule_text
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates import templates_for

Choice: TypeAlias = Callable[[Region], TileSchedule | Reject]
"""Gives a pallas region its schedule, or the reason why XLA runs it."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A partition in which every pallas region has a schedule, by the region's name."""

    partition: Partition
    schedules: Mapping[str, TileSchedule]

    def __str__(self) -> str:
        return "\n".join(schedule_text(s) for s in self.schedules.values())


def choose_by_estimate(target: TpuTarget, prefer: str = "auto") -> Choice:
    """The choice that measures nothing: the best candidate by the cost model, or XLA."""
    return functools.partial(
        choose_schedule, target=target, templates=templates_for(target), prefer=prefer
    )


def assign_schedules(
    partition: Partition, target: TpuTarget, choose: Choice | None = None
) -> Scheduled:
    """Gives every pallas region on `target` what `choose` says, by estimate unless told."""
    choose = choose or choose_by_estimate(target)
    schedules: dict[str, TileSchedule] = {}
    segments: list[Segment] = []
    for segment in partition.segments:
        regions = tuple(_assign(region, choose, schedules) for region in segment.regions)
        segments.append(replace(segment, regions=regions))
    return Scheduled(replace(partition, segments=tuple(segments)), schedules)


def _assign(region: Region, choose: Choice, schedules: dict[str, TileSchedule]) -> Region:
    if region.tier is not Tier.PALLAS:
        return region
    schedule = choose(region)
    if isinstance(schedule, Reject):
        return replace(region, tier=Tier.XLA, factoring=None, reason=schedule.reason)
    schedules[region.name] = schedule
    return region
