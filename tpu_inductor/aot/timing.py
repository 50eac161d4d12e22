"""What the clock of `machine` must know of a chip: rates, latencies and counts of units.

Bandwidth is that of `target`, per JAX device. Clocks are what its FLOP/s imply for its
MXUs. The DMA latency is an assumption, 1 us everywhere: many small DMAs are good to a factor of 2.
The XLU and EUP latencies of v4 are published measurements; the others follow from the distance of
push and pop in the compiler's own schedules, or from a sibling chip.
"""

from dataclasses import dataclass

from tpu_inductor.errors import Unsupported
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class ChipTiming:
    """One JAX device of its kind: a core of v4 or tpu7x, both cores of v5p. Cycles are a core's.

    `hbm_gbps` is the device's, which `cores` share. `granule_bytes` is the unit of DMA sizes and
    semaphores; `delay_slots` are the bundles that run after a branch. An MXU takes `row_cycles` for
    a row of a matmul and `push_cycles` for a register of weights; `transpose_cycles` lie between
    the registers of a transpose.
    """

    clock_mhz: float
    hbm_gbps: float
    dma_latency_ns: float
    cores: int
    granule_bytes: int
    delay_slots: int
    mxus: int
    row_cycles: float
    push_cycles: int
    mxu_latency: int
    xlu_latency: int
    transpose_cycles: int
    eup_latency: int

    @property
    def bytes_per_cycle(self) -> float:
        """A core's share of the HBM bandwidth."""
        return self.hbm_gbps * 1e3 / self.clock_mhz / self.cores

    @property
    def dma_latency_cycles(self) -> float:
        return self.dma_latency_ns * self.clock_mhz / 1e3


MXU_QUEUE = 4
"""Matmuls that may wait for an MXU before issue stops."""

TIMINGS = {
    "v4": ChipTiming(1050, 615, 1000, 1, 512, 1, 4, 1, 8, 91, 69, 8, 7),
    "v5e": ChipTiming(1503, 820, 1000, 1, 32, 4, 4, 1, 4, 100, 100, 8, 6),
    "v5p": ChipTiming(1751, 2765, 1000, 2, 32, 4, 4, 1, 4, 100, 100, 8, 8),
    "v6e": ChipTiming(1755, 1640, 1000, 1, 32, 4, 2, 0.5, 4, 192, 123, 4, 13),
    "tpu7x": ChipTiming(2200, 3700, 1000, 1, 32, 6, 2, 0.5, 4, 192, 127, 4, 10),
}
"""The timing of every TPU target, by the target's name."""


def chip_timing(target: TpuTarget) -> ChipTiming:
    """The timing of `target`. Raises Unsupported if it is no TPU."""
    timing = TIMINGS.get(target.name)
    if timing is None:
        raise Unsupported(f"no timing of target {target.name!r}. Valid: {', '.join(TIMINGS)}")
    return timing
