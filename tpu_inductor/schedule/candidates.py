"""Every schedule worth trying for a region, with its VMEM and its estimated time.

region --> Candidates, cheapest first, or Reject with the reason
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.region import Region
from tpu_inductor.regions.rules import flat
from tpu_inductor.schedule.axes import KernelAxes, find_axes
from tpu_inductor.schedule.blocks import form_of
from tpu_inductor.schedule.cost import estimate
from tpu_inductor.schedule.operands import Bindings, bind_operands, leading_to
from tpu_inductor.schedule.types import Accumulator, Cost, Operand, Role, Space, TileSchedule
from tpu_inductor.schedule.vmem import accumulator_shape, limit_for, vmem_bytes
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.api import Template, Tiling


@dataclass(frozen=True, slots=True)
class Candidates:
    """The schedules that fit VMEM, cheapest first by estimate; `refused` says why others do not."""

    fitting: tuple[TileSchedule, ...]
    refused: tuple[str, ...]


def list_candidates(
    region: Region, target: TpuTarget, templates: Sequence[Template]
) -> Candidates | Reject:
    """The candidates of a pallas region on `target`: at least one, or a Reject."""
    kernel_axes = find_axes(region, target)
    if isinstance(kernel_axes, Reject):
        return kernel_axes
    bindings = bind_operands(region, kernel_axes)
    if isinstance(bindings, Reject):
        return bindings
    fitting: list[TileSchedule] = []
    refused: list[str] = []
    for name, tiling in _tilings(region, kernel_axes, target, templates):
        schedule = build_schedule(region, kernel_axes, bindings, name, tiling, target)
        if schedule.vmem_bytes <= target.vmem_limit_bytes:
            fitting.append(schedule)
        else:
            refused.append(_over_limit(schedule, target))
    if not fitting:
        return Reject("; ".join(refused[-1:]) or "no template takes it")
    return Candidates(tuple(sorted(fitting, key=lambda s: s.cost.time_us)), tuple(refused))


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
    kernel_axes: KernelAxes,
    bindings: Bindings,
    template: str,
    tiling: Tiling,
    target: TpuTarget,
) -> TileSchedule:
    """The schedule that a tiling gives, with its VMEM and cost."""
    accumulating = any(a.role is Role.ARBITRARY for a in tiling.axes)
    closing = _closing(region) if accumulating else ()
    body, epilogue = _phases(region, bindings, closing, kernel_axes.dot)
    draft = TileSchedule(
        region=region,
        template=template,
        axes=tiling.axes,
        grid=tiling.grid,
        inputs=_formed(bindings.inputs, tiling, target, is_result=False),
        outputs=_formed(bindings.outputs, tiling, target, is_result=True),
        accumulators=_accumulators(region, kernel_axes, tiling, closing),
        members=bindings.members,
        body=body,
        epilogue=epilogue,
        vmem_bytes=0,
        vmem_limit_bytes=0,
        cost=Cost(0, 0, 0, 0.0),
        reason=tiling.reason,
    )
    need = vmem_bytes(draft, target)
    draft = replace(draft, vmem_bytes=need, vmem_limit_bytes=limit_for(need, target))
    return replace(draft, cost=estimate(draft, target))


def _formed(
    operands: Sequence[Operand], tiling: Tiling, target: TpuTarget, *, is_result: bool
) -> tuple[Operand, ...]:
    return tuple(
        replace(o, form=form_of(o, tiling.axes, target, is_result=is_result)) for o in operands
    )


def _closing(region: Region) -> tuple[int, ...]:
    """The equations that end the reduced axes."""
    kinds = (Kind.REDUCE, Kind.DOT)
    return tuple(i for i, e in enumerate(region.eqns) if PRIMS[e.prim].kind in kinds)


def _phases(
    region: Region, bindings: Bindings, closing: tuple[int, ...], dot: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What runs in every block, and what after the last: the second may repeat free equations."""
    main = bindings.members[Space.MAIN]
    if not closing:
        return tuple(sorted({*main, *(() if dot is None else (dot,))})), ()
    factoring = region.factoring
    assert factoring is not None
    late = [v for v in region.outputs if not flat(factoring.values[v]) & factoring.reduced]
    early: list[Var] = [v for v in region.outputs if v not in late]
    if dot is not None:
        return (dot,), main
    early += [v for i in closing for v in region.eqns[i].outputs]
    return leading_to(region.eqns, early), leading_to(region.eqns, late, stops=closing)


def _accumulators(
    region: Region, kernel_axes: KernelAxes, tiling: Tiling, closing: tuple[int, ...]
) -> tuple[Accumulator, ...]:
    axes = tiling.axes
    if kernel_axes.dot is not None:
        axes = tuple(a for a in axes if a.name != "k")
    return tuple(
        Accumulator(i, accumulator_shape(axes), _accumulator_type(region.eqns[i].out.type.dtype))
        for i in closing
    )


def _accumulator_type(dtype: DType) -> DType:
    """Masks gather as integers: scratch memory has no single bits."""
    return DType.I32 if dtype is DType.BOOL else dtype
