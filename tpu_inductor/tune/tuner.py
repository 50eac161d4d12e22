"""`mode="max-autotune"`: schedules by measurement, and XLA's code wherever that is faster.

    Tuner(...).tune(partition, all_xla)  -->  TunedGraph, with the regions and their schedules

First every distinct region of a graph is measured alone, as a kernel and as XLA's code. Then
programs are measured as a whole: with the fastest code of each region, with kernels
alone, with the default schedules, and XLA's own compilation of the graph. So a tuned program is
slower neither than what runs without tuning nor than XLA's, by the same measure.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.canonical import canonical_region, region_text
from tpu_inductor.regions.region import Partition, Region, Tier
from tpu_inductor.schedule.assign import (
    Choice,
    Scheduled,
    assign_schedules,
    settle_neighbours,
)
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget
from tpu_inductor.tune.measure import Measurer
from tpu_inductor.tune.programs import prepare_programs
from tpu_inductor.tune.regions import Heat, find_schedule, measure_heats, prepare_heat
from tpu_inductor.tune.store import TuningStore
from tpu_inductor.tune.verdict import Verdict

log = logging.getLogger("tpu_inductor")

FASTEST = "the fastest code of each region"
KERNELS = "the fastest kernel of each region"
DEFAULT = "the default of each region"

SHOWN = 4
"""Slower and rejected candidates that a schedule keeps for its readers, best first."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found of a region or a program: `verdict` is None where nothing was comparable.

    `names` are those of all equal regions.
    """

    names: tuple[str, ...]
    verdict: Verdict | None
    is_from_disk: bool

    def __str__(self) -> str:
        source = "kept on disk" if self.is_from_disk else "measured now"
        body = "  nothing could be compared\n" if self.verdict is None else str(self.verdict)
        return f"{', '.join(self.names)}  # {source}\n{body}"


@dataclass(frozen=True, slots=True)
class TunedGraph:
    """A graph with the faster code for each region, and for all of it. `str` lists the times.

    `program` is None where the graph as a whole was not compared: it is no single program, it has
    no kernels, or there is no choice.
    """

    scheduled: Scheduled
    regions: tuple[Tuned, ...]
    program: Tuned | None

    def __str__(self) -> str:
        parts = [f"region {tuned}" for tuned in self.regions]
        parts += [f"program {self.program}"] if self.program else []
        return "".join(parts) or "nothing to tune\n"


@dataclass(frozen=True, slots=True)
class Tuner:
    """Everything that tuning for one target needs.

    `default` gives what would run without tuning, and is always among what is measured. XLA's code
    can win where `may_use_xla`.
    """

    target: TpuTarget
    default: Choice
    store: TuningStore
    measurer: Measurer
    may_use_xla: bool = True

    def tune(self, partition: Partition, all_xla: Partition) -> TunedGraph:
        """Chooses the code of every pallas region, or takes `all_xla`, the same graph in XLA."""
        regions = self.tune_regions(partition)
        choices = {
            FASTEST: self._assign(partition, regions, self.may_use_xla),
            KERNELS: self._assign(partition, regions, False),
            DEFAULT: self._assign_default(partition),
        }
        program = self._tune_program(choices, all_xla)
        verdict = program.verdict if program else None
        if verdict is None:
            scheduled = choices[FASTEST]
        elif verdict.xla_wins:
            why = f"XLA runs the whole program: {verdict.reason(self.measurer.label)}"
            scheduled = Scheduled(_with_reason(all_xla, why), {})
        else:
            scheduled = choices[verdict.decisions["program"]]
        return TunedGraph(scheduled, tuple(regions.values()), program)

    def _assign(
        self, partition: Partition, regions: Mapping[str, Tuned], may_use_xla: bool
    ) -> Scheduled:
        def choose(region: Region) -> TileSchedule | Reject:
            return self._choose(region, regions, may_use_xla)

        return assign_schedules(partition, choose)

    def _assign_default(self, partition: Partition) -> Scheduled:
        """What would run without tuning."""
        scheduled = assign_schedules(partition, self.default)
        if not self.may_use_xla:
            return scheduled
        return settle_neighbours(partition, scheduled, self.target)

    def tune_regions(self, partition: Partition) -> Mapping[str, Tuned]:
        """What is found of every distinct pallas region, by its canonical text."""
        named: dict[str, list[Region]] = {}
        for region in partition.regions:
            if region.tier is Tier.PALLAS:
                named.setdefault(region_text(canonical_region(region)), []).append(region)
        heats = [heat for first, *_ in named.values() if (heat := self._prepare(first))]
        kept = {heat.text: found for heat in heats if (found := self._load(heat))}
        new = [heat for heat in heats if heat.text not in kept]
        verdicts = measure_heats(new, self.measurer)
        found = kept | {h.text: v for h, v in zip(new, verdicts, strict=True)}
        self._save({self._key(h): v for h, v in zip(new, verdicts, strict=True)})
        return {
            text: Tuned(tuple(r.name for r in regions), found[text], text in kept)
            for text, regions in named.items()
            if text in found
        }

    def _prepare(self, region: Region) -> Heat | None:
        return prepare_heat(region, self.target, self.default, with_xla=self.may_use_xla)

    def _key(self, heat: Heat) -> str:
        return heat.key(self.store, self.target, self.measurer)

    def _load(self, heat: Heat) -> Verdict | None:
        verdict = self.store.load(self._key(heat))
        return verdict if verdict and heat.has(verdict.decisions) else None

    def _save(self, verdicts: Mapping[str, Verdict | None]) -> None:
        self.store.save({key: v for key, v in verdicts.items() if v and v.is_lasting})

    def _choose(
        self, region: Region, regions: Mapping[str, Tuned], may_use_xla: bool
    ) -> TileSchedule | Reject:
        found = regions.get(region_text(canonical_region(region)))
        verdict = found.verdict if found else None
        if verdict is None:
            return self.default(region)
        if verdict.xla_wins and (may_use_xla or verdict.best.us is None):
            return Reject(verdict.reason(self.measurer.label))
        schedule = find_schedule(region, self.target, verdict.decisions)
        return self.default(region) if schedule is None else self._explained(schedule, verdict)

    def _explained(self, schedule: TileSchedule, verdict: Verdict) -> TileSchedule:
        doubt = f", {verdict.best.note}" if verdict.best.note else ""
        reason = f"{schedule.reason}; {self.measurer.label}: {verdict.best.us:.1f} us{doubt}"
        if verdict.xla_wins:
            reason += "; XLA's code is faster alone, but not in the program"
        rivals = [r for r in (verdict.xla, *verdict.losers) if r is not None]
        return replace(schedule, reason=reason, rejected=tuple(map(str, rivals[:SHOWN])))

    def _tune_program(self, choices: Mapping[str, Scheduled], all_xla: Partition) -> Tuned | None:
        partition = choices[FASTEST].partition
        name = partition.graph.name
        if not any(scheduled.schedules for scheduled in choices.values()):
            return None
        if len(partition.segments) != 1:
            log.info("graph %s is not compared as a whole: it is more than one program", name)
            return None
        heat = prepare_programs(choices, all_xla if self.may_use_xla else None, self.target)
        if heat.is_decided:
            return None
        key = heat.key(self.store, self.target, self.measurer)
        kept = self.store.load(key)
        if kept and heat.has(kept.decisions):
            return Tuned((name,), kept, True)
        verdict = heat.measure(self.measurer)
        self._save({key: verdict})
        return Tuned((name,), verdict, False)


def _with_reason(partition: Partition, reason: str) -> Partition:
    segments = tuple(
        replace(segment, regions=tuple(replace(r, reason=reason) for r in segment.regions))
        for segment in partition.segments
    )
    return replace(partition, segments=segments)
