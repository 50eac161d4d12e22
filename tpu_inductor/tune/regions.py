"""Distinct regions with the schedules that are worth measuring, and the verdicts on them.

Region --> Heat, with its programs and its key in the store --> Verdict
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import Reject
from tpu_inductor.regions.canonical import canonical_region, region_text
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.assign import Choice
from tpu_inductor.schedule.candidates import list_candidates
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates import templates_for
from tpu_inductor.tune.measure import Measurer
from tpu_inductor.tune.printing import print_alone
from tpu_inductor.tune.select import TOP, Race, select
from tpu_inductor.tune.store import TuningStore
from tpu_inductor.tune.verdict import Decisions, Verdict, decisions_of, judge, name_of


@dataclass(frozen=True, slots=True)
class Heat:
    """One distinct region: its schedules, the default first, and a program for each of them.

    `rival` is XLA's code for the region, if that may win. `text` is the region's canonical text.
    """

    text: str
    schedules: tuple[TileSchedule, ...]
    programs: tuple[Program, ...]
    rival: Program | None

    @property
    def race(self) -> Race[Program]:
        return Race(self.programs, seeds=(0,), rival=self.rival)

    @property
    def contenders(self) -> list[tuple[Decisions, str]]:
        """What each schedule is, and is called."""
        return [(decisions_of(s), name_of(s)) for s in self.schedules]

    def key(self, store: TuningStore, target: TpuTarget, measurer: Measurer) -> str:
        """What the times depend on; the programs stand for the candidates of this version."""
        rival = self.rival.source if self.rival else ""
        sources = (program.source for program in self.programs)
        return store.key(("region", target.name, measurer.label, self.text, rival, *sources))

    def has(self, decisions: Decisions) -> bool:
        """Whether one of the schedules comes from these decisions."""
        return any(decisions_of(s) == decisions for s in self.schedules)


def prepare_heat(
    region: Region, target: TpuTarget, default: Choice, *, with_xla: bool
) -> Heat | None:
    """What to measure for a pallas region; None where no schedule fits."""
    canonical = canonical_region(region)
    candidates = list_candidates(canonical, target, templates_for(target))
    if isinstance(candidates, Reject):
        return None
    schedules = _with_default(candidates.fitting, default(canonical))
    programs = tuple(print_alone(canonical, target, s) for s in schedules)
    rival = print_alone(canonical, target, None) if with_xla else None
    return Heat(region_text(canonical), schedules, programs, rival)


def _with_default(
    fitting: Sequence[TileSchedule], default: TileSchedule | Reject
) -> tuple[TileSchedule, ...]:
    """The most promising schedules, behind the default. That is the first if XLA is preferred."""
    seed = fitting[0]
    if isinstance(default, TileSchedule):
        decisions = decisions_of(default)
        seed = next((s for s in fitting if decisions_of(s) == decisions), seed)
    return (seed, *(s for s in fitting if s is not seed))[:TOP]


def find_schedule(region: Region, target: TpuTarget, decisions: Decisions) -> TileSchedule | None:
    """The candidate of `region` that `decisions` describe."""
    candidates = list_candidates(region, target, templates_for(target))
    fitting = () if isinstance(candidates, Reject) else candidates.fitting
    return next((s for s in fitting if decisions_of(s) == decisions), None)


def measure_heats(heats: Sequence[Heat], measurer: Measurer) -> list[Verdict | None]:
    """The verdict on each region. All are measured together. None where nothing can be compared."""
    races = [heat.race for heat in heats]
    outcomes = select(races, measurer.measure, is_deterministic=measurer.is_deterministic)
    return [judge(heat.contenders, outcome) for heat, outcome in zip(heats, outcomes, strict=True)]
