"""A graph as one program: several ways to schedule it against XLA's compilation of it.

The times of regions do not add up to that of a program: kernels hide values from XLA's fusion and
layouts, and XLA prefetches what a region alone waits for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpu_inductor.codegen.program import Program
from tpu_inductor.regions.region import Partition
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.target import TpuTarget
from tpu_inductor.tune.measure import Measurer
from tpu_inductor.tune.printing import print_without_lines
from tpu_inductor.tune.select import Race, select
from tpu_inductor.tune.store import TuningStore
from tpu_inductor.tune.verdict import Decisions, Verdict, judge


@dataclass(frozen=True, slots=True)
class ProgramHeat:
    """Distinct programs for one graph by name, the preferred first, and XLA's, if that may win."""

    programs: Mapping[str, Program]
    rival: Program | None

    @property
    def is_decided(self) -> bool:
        """Whether there is nothing to compare."""
        return len(self.programs) + (self.rival is not None) < 2

    def key(self, store: TuningStore, target: TpuTarget, measurer: Measurer) -> str:
        """What the times depend on."""
        rival = self.rival.source if self.rival else ""
        named = (text for name, p in self.programs.items() for text in (name, p.source))
        return store.key(("program", target.name, measurer.label, rival, *named))

    def has(self, decisions: Decisions) -> bool:
        return decisions.get("program") in self.programs

    def measure(self, measurer: Measurer) -> Verdict | None:
        """The verdict; None where nothing can be compared."""
        race = Race(tuple(self.programs.values()), seeds=(0,), rival=self.rival)
        (outcome,) = select([race], measurer.measure, is_deterministic=measurer.is_deterministic)
        contenders: Sequence[tuple[Decisions, str]] = [
            ({"program": name}, name) for name in self.programs
        ]
        return judge(contenders, outcome)


def prepare_programs(
    choices: Mapping[str, Scheduled], all_xla: Partition | None, target: TpuTarget
) -> ProgramHeat:
    """The programs of `choices`, of which none is XLA's alone; equal ones are taken once."""
    by_source: dict[str, tuple[str, Program]] = {}
    for name, scheduled in choices.items():
        if scheduled.schedules:
            program = print_without_lines(scheduled, target)
            by_source.setdefault(program.source, (name, program))
    rival = None if all_xla is None else print_without_lines(Scheduled(all_xla, {}), target)
    return ProgramHeat(dict(by_source.values()), rival)
