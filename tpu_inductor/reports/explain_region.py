"""One region as `explain` shows it.

softmax: pallas
  ops         aten._softmax
  at          model.py:12 `return torch.softmax(x, -1)`
  template    rows, grid m
  tiles       m 4096 = 4 x 1024 parallel; n 1024 = 1 x 1024 whole reduced
  VMEM        20480 KiB
  estimate    41.0 us, 33554432 bytes of HBM, 0 flops
  not joined  ...
"""

from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.origin import Origin
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind
from tpu_inductor.regions.region import Region, Tier
from tpu_inductor.schedule.text import axis_text
from tpu_inductor.schedule.types import TileSchedule


@dataclass(frozen=True, slots=True)
class RegionReport:
    """A region with its schedule, if it is a kernel. `reason` says why it is none otherwise.

    `operators` are ATen operators and `places` the user's lines, both in order, each once.
    """

    region: Region
    schedule: TileSchedule | None
    operators: tuple[str, ...]
    places: tuple[str, ...]
    reason: str

    @property
    def tier(self) -> Tier:
        return self.region.tier

    @property
    def tiles(self) -> str:
        """`m 4096 = 4 x 1024 parallel; ...`, or nothing for what is no kernel."""
        if self.schedule is None:
            return ""
        texts = [axis_text(self.schedule, a.name) for a in self.schedule.axes]
        return "; ".join(" ".join(text.split()) for text in texts)

    @property
    def words(self) -> tuple[str, ...]:
        """The operators' short names, `softmax` for `aten._softmax`, each once."""
        return tuple(dict.fromkeys(_short(op) for op in self.operators))

    @property
    def cells(self) -> tuple[str, ...]:
        """Tier, operators, tiles, memory with the estimated time, and reason, for a table."""
        schedule = self.schedule
        if schedule is None:
            return self.tier.value, ", ".join(self.words), "", "", self.reason
        plan = f"{_vmem(schedule)} VMEM, {_estimate(schedule)} estimated"
        plan = plan if _is_for_tpu(schedule) else ""
        return self.tier.value, ", ".join(self.words), self.tiles, plan, self.reason

    def __str__(self) -> str:
        lines = [("ops", ", ".join(self.operators))]
        lines += [("at", place) for place in self.places]
        if self.schedule:
            lines += _schedule_lines(self.schedule, self.tiles)
        lines += [("why", self.reason)] if self.reason else []
        lines += [("not joined", text) for text in self.region.refused]
        body = [f"  {key:11} {text}" for key, text in lines if text]
        return "\n".join([f"{self.region.name}: {self.tier.value}", *body])


def _schedule_lines(schedule: TileSchedule, tiles: str) -> list[tuple[str, str]]:
    grid = " ".join(schedule.grid) or "one point"
    lines = [("template", f"{schedule.template}, grid {grid}")]
    lines += [("tiles", tiles), ("chosen", schedule.reason)]
    if _is_for_tpu(schedule):
        work = f"{schedule.cost.hbm_bytes} bytes of HBM, {schedule.cost.flops} flops"
        lines += [("VMEM", _vmem(schedule)), ("estimate", f"{_estimate(schedule)}, {work}")]
        lines += [("rejected", text) for text in schedule.rejected]
    return lines


def _is_for_tpu(schedule: TileSchedule) -> bool:
    """Nothing limits the blocks of the CPU, and the cost model knows TPUs alone."""
    return schedule.vmem_limit_bytes > 0


def _vmem(schedule: TileSchedule) -> str:
    return f"{schedule.vmem_bytes >> 10} KiB"


def _estimate(schedule: TileSchedule) -> str:
    return f"{schedule.cost.time_us:.1f} us"


def report_region(region: Region, schedule: TileSchedule | None) -> RegionReport:
    """The report of one region."""
    origins = [e.origin for e in region.eqns if e.origin.node]
    operators = tuple(dict.fromkeys(o.op for o in origins)) or _prims(region)
    places = tuple(dict.fromkeys(place_of(o) for o in origins if o.file))
    return RegionReport(region, schedule, operators, places, _reason(region))


def place_of(origin: Origin) -> str:
    """The user's line; files of installed packages are named from the package on."""
    return origin.place.split("site-packages/")[-1]


def _prims(region: Region) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.prim for e in region.eqns))


def _reason(region: Region) -> str:
    if region.tier is Tier.XLA and all(_is_free(e) for e in region.eqns):
        return "only views and new tensors"
    return region.reason


def _is_free(eqn: Eqn) -> bool:
    return eqn.prim != EAGER and PRIMS[eqn.prim].kind in (Kind.VIEW, Kind.CREATE)


def _short(op: str) -> str:
    return op.removeprefix("aten.").split(".")[0].strip("_")
