"""Runs the basic blocks of compiled programs against a clock, in cycles of one TensorCore.

- A bundle takes one cycle, plus the interlocks of MXU, XLU and EUP.
- A DMA to or from HBM takes its latency and its bytes over the bandwidth. DMAs share one
  first-in-first-out HBM channel and run beside the bundles. A wait moves the clock to their end.

Branches and loop bounds that depend on data are guessed, and counted as `doubts`: what is guarded
runs, a loop stops. Not seen: VMEM bank conflicts, instruction fetch, HBM efficiency by stride, the
other core of a megacore, the host. DMAs that stay on the chip are priced by guess. One that only
its descriptor describes (`dma.general`) names no memories: it counts as one read of HBM, since it
is what XLA moves strided operands between HBM and VMEM with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tpu_inductor.aot.basic_blocks import BasicBlocks, build_basic_blocks
from tpu_inductor.aot.bundles import Listing
from tpu_inductor.aot.scalar import UNKNOWN, Scalar, Unknown, select
from tpu_inductor.aot.timing import ChipTiming

TOP_LEVEL = "<top level>"
"""The name under which the program that calls all others is counted."""

_SMALLEST_TRANSFER_BYTES = 512
_STEP_BYTES = 512
_DESCRIBED = "general"
_RUNTIME_BRANCHES = 2
_MOST_BLOCKS = 50_000_000


@dataclass(slots=True)
class OpCount:
    """What one HLO instruction, or the top level program, did on one core."""

    name: str
    calls: int = 0
    cycles: float = 0
    interlock_cycles: float = 0
    stall_cycles: float = 0
    mxu_cycles: float = 0
    read_bytes: int = 0
    written_bytes: int = 0
    local_bytes: int = 0
    dmas: int = 0
    shortest_run_bytes: int = 0


@dataclass(slots=True)
class _Flag:
    """A semaphore: its count, and the (cycle, count) of DMAs that are under way to raise it."""

    count: int = 0
    arrivals: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])


class Machine:
    """One core with its clock, SMEM and semaphores. The printed blocks call its methods.

    `is_warm`: what a program prefetches for its successor has been fetched, and costs nothing.
    """

    def __init__(
        self, listings: Mapping[str, Listing], timing: ChipTiming, *, is_warm: bool = False
    ) -> None:
        self.time = self.hbm_free = 0.0
        self.ops: dict[str, OpCount] = {}
        self.missing: set[str] = set()
        self.doubts = 0
        self.is_truncated = False
        self.arguments: Sequence[Scalar] = ()
        self._listings, self._timing, self._is_warm = listings, timing, is_warm
        self._bytes_per_cycle = timing.bytes_per_cycle
        self._latency = timing.dma_latency_cycles
        self._memory: dict[int, Scalar] = {}
        self._flags: dict[int | None, _Flag] = {}
        self._programs: dict[str, BasicBlocks] = {}
        self._op = OpCount(TOP_LEVEL)
        self._depth = 0
        self._runtime_branches = _RUNTIME_BRANCHES

    def run(self, program: str, name: str) -> None:
        """Runs `program` from its first block to its end, counted under `name`."""
        built = self._build(program)
        caller, self._op = self._op, self.ops.setdefault(name, OpCount(name))
        registers: list[Scalar] = [UNKNOWN] * built.registers
        runs, visits = [block.run for block in built.blocks], [0] * len(built.blocks)
        at, left = 0 if runs else -1, _MOST_BLOCKS
        while at >= 0 and left:
            visits[at] += 1
            at = runs[at](registers, self)
            left -= 1
        self.is_truncated |= not left
        for block, times in zip(built.blocks, visits, strict=True):
            self._op.cycles += times * block.cycles
            self._op.interlock_cycles += times * block.interlock_cycles
            self._op.mxu_cycles += times * block.mxu_cycles
        self._op.calls += 1
        self._op = caller

    def _build(self, program: str) -> BasicBlocks:
        if program not in self._programs:
            number = len(self._programs)
            self._programs[program] = build_basic_blocks(
                self._listings[program], number, self._timing
            )
        return self._programs[program]

    def call(self, program: str, arguments: Sequence[Scalar]) -> None:
        """Runs `program`, if it was dumped; else it is `missing`."""
        if program in self._listings:
            outer, self.arguments = self.arguments, arguments
            self._depth += 1
            self.run(program, program)
            self._depth -= 1
            self.arguments = outer
        elif not program.startswith("<late"):  # the runtime's prologue and epilogue
            self.missing.add(program)

    def load(self, address: Scalar) -> Scalar:
        """What was stored at `address` of SMEM."""
        return UNKNOWN if isinstance(address, Unknown) else self._memory.get(address, UNKNOWN)

    def store(self, address: Scalar, value: Scalar) -> None:
        if not isinstance(address, Unknown):
            self._memory[address] = value

    def select(self, condition: Scalar, on_true: Scalar, on_false: Scalar) -> Scalar:
        """Of two sizes at top level, one is 0: the one if the program before did prefetch this."""
        if not isinstance(condition, Unknown) or self._depth:
            return select(condition, on_true, on_false)
        if isinstance(on_true, Unknown) or isinstance(on_false, Unknown):
            return UNKNOWN
        if max(on_true, on_false) <= 1:
            return UNKNOWN
        return on_true if self._is_warm else on_false

    def divide(self, pair: tuple[Scalar, Scalar] | Unknown, is_remainder: bool) -> Scalar:
        """Quotient or remainder of unsigned numbers; unknown for a divisor of 0."""
        if isinstance(pair, Unknown):
            return UNKNOWN
        dividend, divisor = pair
        if isinstance(dividend, Unknown) or isinstance(divisor, Unknown) or not divisor:
            return UNKNOWN
        return dividend % divisor if is_remainder else dividend // divisor

    def holds(self, guard: Scalar, is_timed: bool) -> bool:
        """Whether a guarded instruction runs. If unknown it does, in doubt if it takes time."""
        if not isinstance(guard, Unknown):
            return bool(guard)
        self.doubts += is_timed
        return True

    def takes(self, condition: Scalar) -> bool:
        """Whether a branch is taken. If unknown it is not.

        The first of those at top level are the runtime's: whether the random numbers are seeded,
        and whether this is the program to run. They are no doubts.
        """
        if not isinstance(condition, Unknown):
            return bool(condition)
        if self._depth or not self._runtime_branches:
            self.doubts += 1
        else:
            self._runtime_branches -= 1
        return False

    def dma(
        self,
        way: str,
        granules: Scalar | None,
        target_flag: Scalar | None,
        source_flag: Scalar | None,
        steps: Scalar | None,
    ) -> None:
        """Starts a DMA. `way` is as "hbm_to_vmem"; `steps` of 512 bytes each lie side by side."""
        if granules is None or isinstance(granules, Unknown):
            self.doubts += 1
            return
        size, op = granules * self._timing.granule_bytes, self._op
        op.dmas += 1
        if way.startswith(_DESCRIBED):
            way = "hbm_to_vmem"
        if way.startswith("hbm") or way.endswith("hbm"):
            if steps is not None and not isinstance(steps, Unknown):
                shortest = op.shortest_run_bytes or size
                op.shortest_run_bytes = min(shortest, steps * _STEP_BYTES, size)
            end = self._pass_hbm(way, size)
        else:
            op.local_bytes += size
            # A guess: 4 times the bandwidth of HBM, a quarter of its latency.
            end = self.time + self._latency / 4 + size / (4 * self._bytes_per_cycle)
        for flag in (target_flag, source_flag):
            if flag is not None:
                self._flag(flag).arrivals.append((end, granules))

    def _pass_hbm(self, way: str, size: int) -> float:
        """Queues `size` bytes for HBM and gives the cycle of their arrival."""
        self._op.read_bytes += size * way.startswith("hbm")
        self._op.written_bytes += size * way.endswith("hbm")
        moved = way.count("hbm") * max(size, _SMALLEST_TRANSFER_BYTES)
        self.hbm_free = max(self.hbm_free, self.time) + moved / self._bytes_per_cycle
        return self.hbm_free + self._latency

    def wait(self, flag: Scalar, count: Scalar) -> None:
        """Moves the clock to when `flag` has reached `count`; if unknown, to its last arrival."""
        semaphore = self._flag(flag)
        arrivals = semaphore.arrivals
        if isinstance(count, Unknown):
            count = semaphore.count + sum(more for _, more in arrivals)
        arrivals.sort()
        while semaphore.count < count and arrivals:
            end, more = arrivals.pop(0)
            semaphore.count += more
            self._op.stall_cycles += max(0.0, end - self.time)
            self.time = max(self.time, end)
        # What is still lacking is signalled by someone who is not run here.
        semaphore.count = max(semaphore.count, count)

    def set_flag(self, flag: Scalar, count: Scalar) -> None:
        if not isinstance(count, Unknown):
            self._flags[_key(flag)] = _Flag(count)

    def add_flag(self, flag: Scalar, count: Scalar) -> None:
        if not isinstance(count, Unknown):
            self._flag(flag).count += count

    def _flag(self, flag: Scalar) -> _Flag:
        found = self._flags.get(key := _key(flag))
        if found is None:
            found = self._flags[key] = _Flag()
        return found


def _key(flag: Scalar) -> int | None:
    """Semaphores that cannot be told apart are one."""
    return None if isinstance(flag, Unknown) else flag
