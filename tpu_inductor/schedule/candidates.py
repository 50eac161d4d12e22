"""Every schedule worth trying for a region, with its VMEM and its estimated time.

region --> Candidates, cheapest first, or Reject with the reason
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tpu_inductor.errors import InvalidIR, Reject
from tpu_inductor.regions.region import Region, Rows
from tpu_inductor.schedule.arrays import Axis, Operand
from tpu_inductor.schedule.axes import find_axes
from tpu_inductor.schedule.blocks import form_of
from tpu_inductor.schedule.cost import estimate
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import nest_region
from tpu_inductor.schedule.operands import Bindings, bind_operands
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.schedule.types import Cost, TileSchedule
from tpu_inductor.schedule.vmem import limit_for, vmem_bytes
from tpu_inductor.streams.scan import Kept, scan_stream
from tpu_inductor.streams.stream import stream_rows
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class Candidates:
    """The schedules that fit VMEM, cheapest first by estimate; `refused` says why others do not."""

    fitting: tuple[TileSchedule, ...]
    refused: tuple[str, ...]


def list_candidates(
    region: Region, target: TpuTarget, templates: Sequence[Template]
) -> Candidates | Reject:
    """The candidates of a pallas region on `target`: at least one, or a Reject."""
    region, kept = scan_region(region)
    kernel_axes = find_axes(region, target)
    if isinstance(kernel_axes, Reject):
        return kernel_axes
    kernel_axes = replace(kernel_axes, kept=kept)
    bindings = bind_operands(region, kernel_axes)
    if isinstance(bindings, Reject):
        return bindings
    fitting: list[TileSchedule] = []
    refused: list[str] = []
    for name, tiling in _tilings(region, kernel_axes, target, templates):
        schedule = build_schedule(region, bindings, name, tiling, target)
        if schedule.vmem_bytes <= target.vmem_limit_bytes:
            fitting.append(schedule)
        else:
            refused.append(_over_limit(schedule, target))
    if not fitting:
        return Reject("; ".join(refused[-1:]) or "no template takes it")
    return Candidates(tuple(sorted(fitting, key=lambda s: s.cost.time_us)), tuple(refused))


def scan_region(region: Region) -> tuple[Region, tuple[Kept, ...]]:
    """A region that streams, as equations over what it keeps from block to block; others as are."""
    if region.rows is not Rows.STREAMED:
        return region, ()
    stream = stream_rows(region.eqns, region.inputs, region.outputs)
    if isinstance(stream, Reject):
        raise InvalidIR(f"{region.name} does not stream: {stream.reason}")
    scan = scan_stream(stream)
    return replace(region, eqns=scan.eqns, factoring=scan.factoring), scan.kept


def _tilings(
    region: Region, kernel_axes: KernelAxes, target: TpuTarget, templates: Sequence[Template]
) -> Iterator[tuple[str, Tiling]]:
    for template in templates:
        if template.accepts(region, kernel_axes, target) is None:
            for tiling in template.candidates(region, kernel_axes, target):
                yield template.name, tiling


def _over_limit(schedule: TileSchedule, target: TpuTarget) -> str:
    need, limit = schedule.vmem_bytes >> 10, target.vmem_limit_bytes >> 10
    return f"{schedule.template}, {schedule.reason}: {need} KiB of VMEM, the limit is {limit} KiB"


def build_schedule(
    region: Region,
    bindings: Bindings,
    template: str,
    tiling: Tiling,
    target: TpuTarget,
) -> TileSchedule:
    """The schedule that a tiling gives, with its VMEM and cost."""
    axes = tiling.loops.axes
    formed = replace(
        bindings,
        inputs=_formed(bindings.inputs, axes, target, is_result=False),
        outputs=_formed(bindings.outputs, axes, target, is_result=True),
    )
    draft = TileSchedule(
        region=region,
        template=template,
        axes=axes,
        inputs=formed.inputs,
        outputs=formed.outputs,
        nest=nest_region(region, formed, tiling.loops),
        vmem_bytes=0,
        vmem_limit_bytes=0,
        cost=Cost(0, 0, 0, 0.0),
        reason=tiling.reason,
    )
    need = vmem_bytes(draft, target)
    draft = replace(draft, vmem_bytes=need, vmem_limit_bytes=limit_for(need, target))
    return replace(draft, cost=estimate(draft, target))


def _formed(
    operands: Sequence[Operand], axes: Sequence[Axis], target: TpuTarget, *, is_result: bool
) -> tuple[Operand, ...]:
    return tuple(replace(o, form=form_of(o, axes, target, is_result=is_result)) for o in operands)
