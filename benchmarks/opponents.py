"""XLA at its best: every way in which it may do a workload, and the figure of the fastest.

XLA compiles the graph's primitives, and whatever is written by hand. Each is compiled as XLA is by
default, and once more with the VMEM for its fusions that our kernels may take for themselves, where
that can still win.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bounds import Bound
from figures import Figure
from pricing import Job, Pricer
from spellings import Spelling, hand_job
from workloads import Workload

from tpu_inductor.aot.require import tpu_target

GRAPH = "graph"
"""The spelling that is the graph's own primitives under one jax.jit."""

RAISED = ", VMEM raised"

NEAR_BOUND = 1.02
"""Of the bound: what is faster has no more to gain from VMEM."""


@dataclass(frozen=True, slots=True)
class Opponent:
    """One spelling for one chip: its programs, or why there are none."""

    spelling: str
    jobs: tuple[Job, ...]
    error: str = ""

    def with_vmem(self, kib: int) -> "Opponent":
        """The same programs, compiled with `kib` of scoped VMEM."""
        jobs = (replace(j, request=replace(j.request, scoped_vmem_kib=kib)) for j in self.jobs)
        return Opponent(self.spelling + RAISED, tuple(jobs), self.error)


def find_opponents(workload: Workload, xla: Spelling, chip: str) -> list[Opponent]:
    """The spellings of a workload, with XLA's defaults."""
    by_hand = ((f.__name__, (hand_job(workload, f, chip),)) for f in workload.by_hand)
    return [Opponent(GRAPH, xla.jobs, xla.error), *(Opponent(*named) for named in by_hand)]


def raise_vmem(
    opponents: Sequence[Opponent], figures: Iterable[Figure], bound: Bound | None, chip: str
) -> list[Opponent]:
    """Those that may still win with the VMEM of a kernel: none where one is near the bound."""
    times = [figure.time_us for figure in figures if figure.ok]
    if bound is not None and times and min(times) <= NEAR_BOUND * bound.time_us:
        return []
    kib = tpu_target(chip).vmem_limit_bytes >> 10
    return [opponent.with_vmem(kib) for opponent in opponents if not opponent.error]


def price_each(pricer: Pricer, contests: Sequence[Sequence[Sequence[Job]]]) -> list[list[Figure]]:
    """For each contest the figure of each of its groups of programs, which run in turn."""
    groups = [group for groups in contests for group in groups]
    figures = iter(pricer.price([job for jobs in groups for job in jobs]))
    totals = iter([Figure.total([next(figures) for _ in jobs]) for jobs in groups])
    return [[next(totals) for _ in groups] for groups in contests]


def name_figures(opponents: Iterable[Opponent], figures: Iterable[Figure]) -> list[Figure]:
    """The figures, each with its spelling, and the errors of what has no programs."""
    return [
        replace(Figure(o.error) if o.error else figure, spelling=o.spelling)
        for o, figure in zip(opponents, figures, strict=True)
    ]
