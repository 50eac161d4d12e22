"""Regions and programs without what does not matter for their time: names and lines of users.

Equal layers of a model have equal canonical regions, so they are measured once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tpu_inductor.codegen.program import Program, print_program
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.regions.factors import Factoring
from tpu_inductor.regions.region import Region, Segment, Tier
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget

NAME = "region"


def canonical_region(region: Region) -> Region:
    """`region` with values numbered in the order in which they appear."""
    outputs = [v for eqn in region.eqns for v in eqn.outputs]
    renamed = {
        v: replace(v, name=f"v{i}") for i, v in enumerate(dict.fromkeys((*region.inputs, *outputs)))
    }
    return Region(
        NAME,
        region.tier,
        tuple(_rename(eqn, renamed) for eqn in region.eqns),
        tuple(renamed[v] for v in region.inputs),
        tuple(renamed[v] for v in region.outputs),
        _rename_factoring(region.factoring, renamed),
    )


def _rename(eqn: Eqn, renamed: Mapping[Var, Var]) -> Eqn:
    def of(value: Value) -> Value:
        return value if isinstance(value, Lit) else renamed[value]

    outputs = tuple(renamed[v] for v in eqn.outputs)
    return Eqn(eqn.prim, tuple(map(of, eqn.inputs)), outputs, eqn.attrs, COMPILER)


def _rename_factoring(factoring: Factoring | None, renamed: Mapping[Var, Var]) -> Factoring | None:
    if factoring is None:
        return None
    return replace(factoring, values={renamed[v]: dims for v, dims in factoring.values.items()})


def region_text(canonical: Region) -> str:
    """All there is to know of a canonical region, its types among it."""
    inputs = ", ".join(f"{v}: {v.type}" for v in canonical.inputs)
    return f"{inputs}\n{canonical}"


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
