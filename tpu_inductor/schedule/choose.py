"""Chooses the schedule of a region: the cheapest candidate, by estimate, that fits VMEM.

region --> TileSchedule, or Reject with the reason why XLA runs the region
"""

from collections.abc import Sequence
from dataclasses import replace

from tpu_inductor.errors import PREFER_XLA, Reject, blame
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.candidates import list_candidates
from tpu_inductor.schedule.template import Template
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.xla_time import xla_us
from tpu_inductor.target import TpuTarget

SHOWN = 4
"""Rejected candidates that a schedule keeps for its readers, best first."""


def choose_schedule(
    region: Region, target: TpuTarget, templates: Sequence[Template], prefer: str = "auto"
) -> TileSchedule | Reject:
    """The best schedule for a pallas region on `target`.

    Rejects a region that XLA seems to run faster, unless `prefer` is "pallas". Raises InvalidIR
    with the user's line for a bug of ours.
    """
    with blame(f"the schedule of {region.name}", region.place, PREFER_XLA):
        return _choose(region, target, templates, prefer)


def _choose(
    region: Region, target: TpuTarget, templates: Sequence[Template], prefer: str
) -> TileSchedule | Reject:
    candidates = list_candidates(region, target, templates)
    if isinstance(candidates, Reject):
        return candidates
    best, *others = candidates.fitting
    if target.is_tpu and prefer != "pallas":
        by_xla = xla_us(best, target)
        if best.cost.time_us > by_xla:
            return Reject(
                f"XLA's code seems faster: {by_xla:.1f} us against {best.cost.time_us:.1f} us of "
                f"{best.template}, {best.reason} (estimates)"
            )
    slower = [f"{s.template}, {s.reason}: {s.cost.time_us:.1f} us" for s in others[:SHOWN]]
    return replace(best, rejected=(*slower, *candidates.refused)[:SHOWN])
