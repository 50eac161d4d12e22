"""The kernels of a workload as points of a roofline: their part of the price of its programs."""

from bounds import count_flops
from figures import Figure
from spellings import Spelling
from versus import KernelFigure

from tpu_inductor.codegen.program import Program
from tpu_inductor.pipeline import Lowered
from tpu_inductor.schedule.text import axis_text
from tpu_inductor.schedule.types import TileSchedule


def kernel_figures(spelling: Spelling, ours: Figure) -> tuple[KernelFigure, ...]:
    """Each distinct kernel of the programs, all its calls together; no times in a failed figure."""
    return tuple(
        _kernel_figure(function, schedules, ours)
        for lowered in spelling.lowered
        for function, schedules in _launches(lowered).items()
    )


def _launches(lowered: Lowered) -> dict[str, list[TileSchedule]]:
    """The functions that launch kernels, with the schedules of the regions that they run."""
    found: dict[str, list[TileSchedule]] = {}
    for step in lowered.plan.steps:
        for call in step.calls if isinstance(step, Program) else ():
            schedule = lowered.scheduled.schedules[call.region]
            found.setdefault(call.function, []).append(schedule)
    return found


def _kernel_figure(function: str, schedules: list[TileSchedule], ours: Figure) -> KernelFigure:
    first = schedules[0]
    # HLO names the calls of a launcher `softmax.1`, `softmax.2`.
    ops = [op for op in ours.ops if op.name.split(".")[0] == function]
    return KernelFigure(
        function,
        len(schedules),
        ", ".join(dict.fromkeys(eqn.prim for eqn in first.eqns)),
        first.template,
        "; ".join(" ".join(axis_text(first, a.name).split()) for a in first.axes),
        sum(op.time_us for op in ops),
        sum(count_flops(schedule.eqns) for schedule in schedules),
        sum(op.hbm_bytes for op in ops),
    )
