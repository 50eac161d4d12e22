"""What a template is: a way to go over the axes of a region, with the tilings worth trying."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Loops
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class Tiling:
    """Axes with their tiles, the loops over them, and why these."""

    loops: Loops
    reason: str


@dataclass(frozen=True, slots=True)
class Template:
    """A family of schedules. `accepts` says whether it fits a region, `candidates` its tilings."""

    name: str
    accepts: Callable[[Region, KernelAxes, TpuTarget], Reject | None]
    candidates: Callable[[Region, KernelAxes, TpuTarget], Iterator[Tiling]]
