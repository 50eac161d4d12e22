"""Gives every pallas region of a partition a schedule; a region that gets none goes to XLA."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Partition, Region, Segment, Tier
from tpu_inductor.schedule.choose import choose_schedule
from tpu_inductor.schedule.text import schedule_text
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates import templates_for


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A partition in which every pallas region has a schedule, by the region's name."""

    partition: Partition
    schedules: Mapping[str, TileSchedule]

    def __str__(self) -> str:
        return "\n".join(schedule_text(s) for s in self.schedules.values())


def assign_schedules(partition: Partition, target: TpuTarget) -> Scheduled:
    """Chooses a schedule for every pallas region on `target`."""
    schedules: dict[str, TileSchedule] = {}
    segments: list[Segment] = []
    for segment in partition.segments:
        regions = tuple(_assign(region, target, schedules) for region in segment.regions)
        segments.append(replace(segment, regions=regions))
    return Scheduled(replace(partition, segments=tuple(segments)), schedules)


def _assign(region: Region, target: TpuTarget, schedules: dict[str, TileSchedule]) -> Region:
    if region.tier is not Tier.PALLAS:
        return region
    schedule = choose_schedule(region, target, templates_for(target))
    if isinstance(schedule, Reject):
        return replace(region, tier=Tier.XLA, factoring=None, reason=schedule.reason)
    schedules[region.name] = schedule
    return region
