"""Compiles every program and every kernel of a torch model for a TPU that is not here.

>>> print(tpu_inductor.aot.aot_compile(model, ids, target="v6e"))
v6e: 3 of 3 kernels and 1 of 1 programs compile, 0 eager calls
...
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpu_inductor.aot.messages import CompileReply, CompileRequest, argument_of
from tpu_inductor.aot.pool import CompilerPool, Progress
from tpu_inductor.aot.require import require_libtpu, tpu_target
from tpu_inductor.codegen.kernel import Kernel
from tpu_inductor.codegen.program import KernelCall, Program
from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Var
from tpu_inductor.regions.region import Region, Tier
from tpu_inductor.reports.blame import find_problem
from tpu_inductor.reports.compile_report import EagerReport, KernelReport, ProgramReport, Report
from tpu_inductor.reports.explain import Explanation, explain
from tpu_inductor.reports.explain_region import place_of, report_region
from tpu_inductor.schedule.types import TileSchedule


@dataclass(frozen=True, slots=True)
class _ProgramJob:
    """A program with the regions that it runs."""

    program: Program
    regions: tuple[Region, ...]
    schedules: Mapping[str, TileSchedule]

    def request(self, target: str) -> CompileRequest:
        return _request(self.program, self.program.inputs, target, "program")

    def report(self, reply: CompileReply) -> ProgramReport:
        problem = find_problem(reply.result, self.program, self.regions)
        return ProgramReport(self.program.name, reply.result, reply.price, problem)


@dataclass(frozen=True, slots=True)
class _KernelJob:
    """A kernel as one program launches it, and how many regions do."""

    program: Program
    call: KernelCall
    region: Region
    schedule: TileSchedule
    calls: int

    def request(self, target: str) -> CompileRequest:
        variables = [o.var for o in self.schedule.inputs]
        return _request(self.program, variables, target, self.call.function)

    def report(self, reply: CompileReply) -> KernelReport:
        return KernelReport(
            self.call.function,
            self.program.name,
            self.calls,
            report_region(self.region, self.schedule),
            reply.result,
            reply.price,
            find_problem(reply.result, self.program, (self.region,)),
        )


def aot_compile(
    model: Callable[..., Any],
    *args: Any,
    target: str = "v5e",
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, object] | None = None,
    pool: CompilerPool | None = None,
    progress: Progress = lambda done, total: None,
) -> Report:
    """What libtpu makes of `model(*args, **kwargs)`: programs as a whole, and each kernel alone.

    Traces the model as `explain` does: it runs once, in torch. Its tensors may be fake or on the
    meta device, so it need not fit into memory. Without torch.no_grad() backward graphs are
    compiled as well. Raises Unsupported without libtpu and for a target that is no TPU.
    """
    chip = tpu_target(target)
    require_libtpu()
    explanation = explain(
        model, *args, options={**(options or {}), "target": chip.name}, **(kwargs or {})
    )
    jobs = list(_program_jobs(explanation))
    kernels = _kernel_jobs(jobs)
    requests = [job.request(chip.name) for job in (*jobs, *kernels)]
    if pool is None:
        with CompilerPool() as own:
            replies = list(own.run(requests, progress))
    else:
        replies = list(pool.run(requests, progress))
    rest = replies[len(jobs) :]
    return Report(
        chip.name,
        tuple(job.report(reply) for job, reply in zip(jobs, replies, strict=False)),
        tuple(job.report(reply) for job, reply in zip(kernels, rest, strict=True)),
        tuple(_eager_reports(explanation)),
    )


def _program_jobs(explanation: Explanation) -> Iterator[_ProgramJob]:
    for graph in explanation.graphs:
        if isinstance(graph.lowered, Reject):
            continue
        scheduled = graph.lowered.scheduled
        segments = [s for s in scheduled.partition.segments if not s.is_eager]
        for program, segment in zip(graph.programs, segments, strict=True):
            yield _ProgramJob(program, segment.regions, scheduled.schedules)


def _kernel_jobs(jobs: Sequence[_ProgramJob]) -> list[_KernelJob]:
    """Each distinct kernel once, where it is first called."""
    first: dict[Kernel, tuple[_ProgramJob, KernelCall]] = {}
    calls: dict[Kernel, int] = {}
    for job in jobs:
        for call in job.program.calls:
            first.setdefault(call.kernel, (job, call))
            calls[call.kernel] = calls.get(call.kernel, 0) + 1
    return [_kernel_job(job, call, calls[kernel]) for kernel, (job, call) in first.items()]


def _kernel_job(job: _ProgramJob, call: KernelCall, calls: int) -> _KernelJob:
    region = next(r for r in job.regions if r.name == call.region)
    return _KernelJob(job.program, call, region, job.schedules[call.region], calls)


def _request(program: Program, variables: Sequence[Var], target: str, entry: str) -> CompileRequest:
    arguments = tuple(argument_of(v) for v in variables)
    name = program.name if entry == "program" else entry
    return CompileRequest(name, program.source, arguments, target, entry)


def _eager_reports(explanation: Explanation) -> Iterator[EagerReport]:
    for graph in explanation.graphs:
        if isinstance(graph.lowered, Reject):
            yield EagerReport(f"graph {graph.name}", "", graph.lowered.reason)
            continue
        for region in graph.lowered.scheduled.partition.regions:
            if region.tier is Tier.EAGER:
                origin = region.eqns[0].origin
                yield EagerReport(origin.op, place_of(origin), region.reason)
