"""The distinct kernels of torch functions, and which of their schedules calibrate the cost model.

Case --> Kernel, with all schedules that fit --> Samples, of those that were priced
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibration import Sample, spread
from kernel_prices import KernelPrice, KernelPrices
from spellings import Spelling

from tpu_inductor.aot.messages import CompileRequest, argument_of
from tpu_inductor.errors import Reject
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.canonical import canonical_region, region_text
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.candidates import list_candidates
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates import templates_for
from tpu_inductor.tune.printing import print_alone

MATMUL_CANDIDATES = 3
"""Matmuls take longest to compile, so fewer of their schedules are priced."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A distinct kernel on one chip: its schedules, cheapest first by estimate."""

    name: str
    target: TpuTarget
    region: Region
    schedules: tuple[TileSchedule, ...]

    @property
    def floor_us(self) -> float:
        """How long its arrays need to pass the HBM of all cores once."""
        nbytes = sum(v.type.nbytes for v in {*self.region.inputs, *self.region.outputs})
        return nbytes / (self.target.hbm_gbps * self.target.cores * 1e3)

    def places(self, wanted: int) -> tuple[int, ...]:
        """Which schedules to price."""
        has_dot = any(PRIMS[eqn.prim].kind is Kind.DOT for eqn in self.region.eqns)
        return spread(len(self.schedules), min(wanted, MATMUL_CANDIDATES) if has_dot else wanted)

    def request(self, place: int) -> CompileRequest:
        """The program of one schedule alone, for the compiler."""
        program = print_alone(self.region, self.target, self.schedules[place])
        arguments = tuple(map(argument_of, program.inputs))
        return CompileRequest(program.name, program.source, arguments, self.target.name)

    def sample(self, place: int, price: KernelPrice) -> Sample:
        """What is known of one schedule once it is priced."""
        schedule = self.schedules[place]
        return Sample(
            self.name,
            self.target.name,
            schedule.template,
            _tiling(schedule),
            place,
            round(schedule.cost.time_us, 3),
            round(self.floor_us, 3),
            price,
        )


def _tiling(schedule: TileSchedule) -> str:
    """`1024 x 512 x 2048 over n m k`: the tile of every axis, and the grid."""
    tiles = " x ".join(str(axis.tile) for axis in schedule.axes)
    return f"{tiles} over {' '.join(schedule.grid)}" if schedule.grid else tiles


def find_kernels(
    name: str, spelled: Spelling, target: TpuTarget, seen: set[str]
) -> Iterator[Kernel]:
    """The kernels of the case `name` that are not in `seen`, which grows by them."""
    for lowered in spelled.lowered:
        schedules = lowered.scheduled.schedules
        for region_name, schedule in schedules.items():
            region = canonical_region(schedule.region)
            text = region_text(region)
            candidates = list_candidates(region, target, templates_for(target))
            if text not in seen and not isinstance(candidates, Reject):
                seen.add(text)
                full_name = name if len(schedules) == 1 else f"{name}/{region_name}"
                yield Kernel(full_name, target, region, candidates.fitting)


def price_kernels(kernels: Sequence[Kernel], wanted: int, prices: KernelPrices) -> list[Sample]:
    """Samples of all kernels, each in up to `wanted` schedules."""
    places = [(kernel, place) for kernel in kernels for place in kernel.places(wanted)]
    priced = prices.price([kernel.request(place) for kernel, place in places])
    return [kernel.sample(place, p) for (kernel, place), p in zip(places, priced, strict=True)]
