"""Chooses the schedule of a region: the cheapest candidate, by estimate, that fits VMEM.

region --> TileSchedule, or Reject with the reason of every template and candidate
"""

from collections.abc import Sequence
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.candidates import list_candidates
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.api import Template

SHOWN = 4
"""Rejected candidates that a schedule keeps for its readers, best first."""


def choose_schedule(
    region: Region, target: TpuTarget, templates: Sequence[Template]
) -> TileSchedule | Reject:
    """The best schedule for a pallas region on `target`."""
    candidates = list_candidates(region, target, templates)
    if isinstance(candidates, Reject):
        return candidates
    best, *others = candidates.fitting
    slower = [f"{s.template}, {s.reason}: {s.cost.time_us:.1f} us" for s in others[:SHOWN]]
    return replace(best, rejected=(*slower, *candidates.refused)[:SHOWN])
