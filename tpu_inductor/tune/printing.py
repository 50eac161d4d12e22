"""Programs without what does not matter for their time: names and lines of users."""

from collections.abc import Iterable
from dataclasses import replace

from tpu_inductor.codegen.program import Program, print_program
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.regions.region import Region, Segment, Tier
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget


def print_alone(region: Region, target: TpuTarget, schedule: TileSchedule | None) -> Program:
    """A program of this region alone: the kernel of `schedule`, or XLA's code without one."""
    if schedule is None:
        region = replace(region, tier=Tier.XLA, factoring=None)
    schedules = {} if schedule is None else {region.name: schedule}
    segment = Segment((region,), region.inputs, region.outputs)
    return print_program(region.name, target.name, segment, schedules)


def print_without_lines(scheduled: Scheduled, target: TpuTarget) -> Program:
    """The one program of a graph, without comments that tell the user's lines."""
    (segment,) = scheduled.partition.segments
    regions = tuple(_without_lines(region) for region in segment.regions)
    schedules = {
        name: replace(s, region=_without_lines(s.region)) for name, s in scheduled.schedules.items()
    }
    return print_program("graph", target.name, replace(segment, regions=regions), schedules)


def _without_lines(region: Region) -> Region:
    return replace(region, eqns=_blank(region.eqns))


def _blank(eqns: Iterable[Eqn]) -> tuple[Eqn, ...]:
    return tuple(replace(eqn, origin=COMPILER) for eqn in eqns)
