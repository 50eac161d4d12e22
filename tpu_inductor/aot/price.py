"""What one compiled program would cost on a TPU that is not here, from what libtpu dumped of it.

`final_bundles` is what the TensorCore would run. Its scalar half runs here, against a clock: loop
counters, guards, sizes of DMAs, skipped fetches. Its vector half does not. The same rules hold for
a Pallas kernel and for XLA's own code, so the two may be compared. `machine` lists its blind spots.

    price_dump(Path("dump"), TARGETS["v5e"]).time_us  -->  21.57
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tpu_inductor.aot.dump import TOP_LEVEL_PROGRAM, Dump, read_dump
from tpu_inductor.aot.machine import TOP_LEVEL, Machine, OpCount
from tpu_inductor.aot.timing import ChipTiming, chip_timing
from tpu_inductor.target import TpuTarget

_HLO_RESULT = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = ")
_HLO_CYCLES = re.compile(r'estimated_cycles":"(\d+)"')


@dataclass(frozen=True, slots=True)
class OpPrice:
    """What one HLO instruction, or the top level program, did on one core, in all its calls.

    `cycles` are those of issuing bundles, `interlock_cycles` among them; `stall_cycles` those of
    waiting for DMAs. `local_bytes` were moved by DMAs on the chip. `shortest_run_bytes` is the
    shortest contiguous run of a strided DMA, 0 without one. `vmem_bytes` is scoped VMEM.
    `xla_cycles` is XLA's own estimate, 0 for Pallas kernels and where no HLO was given.
    """

    name: str
    calls: int
    cycles: float
    interlock_cycles: float
    stall_cycles: float
    mxu_cycles: float
    read_bytes: int
    written_bytes: int
    local_bytes: int
    dmas: int
    shortest_run_bytes: int
    vmem_bytes: int
    xla_cycles: int


@dataclass(frozen=True, slots=True)
class Price:
    """Of one run on one JAX device of `target`. Cycles of `ops` are at `clock_mhz`.

    `compute_us` is the time of issuing bundles, `hbm_us` that of `hbm_bytes` at full bandwidth;
    `time_us` is both with the waits that are left. Not `trusted`: the price rests on guesses
    (`unknown_branches`), on HLO instructions without a dump (`missing`), or stops (`truncated`).
    """

    target: str
    time_us: float
    compute_us: float
    hbm_bytes: int
    hbm_us: float
    mxu_utilisation: float
    vmem_bytes: int
    unknown_branches: int
    missing: tuple[str, ...]
    truncated: bool
    clock_mhz: float
    ops: tuple[OpPrice, ...]

    @property
    def trusted(self) -> bool:
        return not (self.unknown_branches or self.missing or self.truncated)


def price_dump(folder: Path, target: TpuTarget, *, warm: bool = False, hlo: str = "") -> Price:
    """Prices the one compilation that libtpu dumped into `folder`. Same files, same numbers.

    `warm`: what XLA prefetches of a parameter for the next run has been done, and is free. `hlo` is
    the compiled module's text, where XLA's own estimates are. Raises DumpError without a top level
    program, Unsupported if `target` is no TPU.
    """
    timing, dump = chip_timing(target), read_dump(folder)
    machine = Machine(dump.listings, timing, is_warm=warm)
    machine.run(TOP_LEVEL_PROGRAM, TOP_LEVEL)
    xla_cycles = _read_cycles(hlo)
    ops = tuple(_price_op(op, dump, xla_cycles) for op in machine.ops.values())
    return _sum_up(machine, ops, target, timing)


def _price_op(op: OpCount, dump: Dump, xla_cycles: Mapping[str, int]) -> OpPrice:
    cycles = xla_cycles.get(op.name, 0) * op.calls
    return OpPrice(**asdict(op), vmem_bytes=dump.vmem_bytes.get(op.name, 0), xla_cycles=cycles)


def _sum_up(
    machine: Machine, ops: tuple[OpPrice, ...], target: TpuTarget, timing: ChipTiming
) -> Price:
    mhz = timing.clock_mhz
    time_us = max(machine.time, machine.hbm_free) / mhz
    hbm_bytes = timing.cores * sum(op.read_bytes + op.written_bytes for op in ops)
    mxu_us = sum(op.mxu_cycles for op in ops) / mhz
    return Price(
        target=target.name,
        time_us=time_us,
        compute_us=sum(op.cycles for op in ops) / mhz,
        hbm_bytes=hbm_bytes,
        hbm_us=hbm_bytes / timing.hbm_gbps / 1e3,
        mxu_utilisation=mxu_us / time_us if time_us else 0.0,
        vmem_bytes=max(op.vmem_bytes for op in ops),
        unknown_branches=machine.doubts,
        missing=tuple(sorted(machine.missing)),
        truncated=machine.is_truncated,
        clock_mhz=mhz,
        ops=ops,
    )


def _read_cycles(hlo: str) -> dict[str, int]:
    """XLA's estimates of the cycles of one call, by name of the instruction."""
    cycles: dict[str, int] = {}
    for line in hlo.split("\n"):
        result, estimate = _HLO_RESULT.match(line), _HLO_CYCLES.search(line)
        if result and estimate:
            cycles[result[1]] = int(estimate[1])
    return cycles
