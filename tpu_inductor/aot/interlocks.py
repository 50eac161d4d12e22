"""How long the hardware holds a basic block back, whatever its bundles' own cycles.

The compiler's schedule covers the latency of MXU, XLU and EUP where it has other work, and leaves
the rest to interlocks: a pop waits for its result. Nor does it always leave a matmul its time
(v5e: 12 bundles where the MXU needs 16 cycles), so each MXU works in order behind a short queue,
and issue stops while that is full. Scalar work and DMAs are not seen here.
"""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from tpu_inductor.aot.bundles import Instruction
from tpu_inductor.aot.timing import MXU_QUEUE, ChipTiming

_RESULT_BUFFER = re.compile(r"mrb\[\d+\]")


@dataclass(frozen=True, slots=True)
class Interlocks:
    """Of one run of a block, in cycles: how long it is held back, how long all MXUs are busy."""

    stall_cycles: float
    mxu_cycles: float


def find_interlocks(block: Sequence[Sequence[Instruction]], timing: ChipTiming) -> Interlocks:
    """The interlocks of the bundles of `block`, all of whose units are idle when it starts."""
    units = _Units(timing)
    for at, bundle in enumerate(block):
        for instruction in bundle:
            units.issue(instruction, at)
    return Interlocks(units.stall, units.mxu_cycles)


class _Units:
    """The units' state: the cycles at which results are ready and queued matmuls are done."""

    def __init__(self, timing: ChipTiming) -> None:
        self.timing = timing
        self.stall = self.mxu_cycles = 0.0
        self._weights: dict[str, float] = {}
        self._matmuls: dict[str, list[float]] = defaultdict(list)
        self._results: dict[str, deque[float]] = defaultdict(deque)
        self._buffers: dict[str, float] = {}
        self._transposes: dict[str, float] = {}
        self._transposed: dict[str, float] = {}
        self._values: dict[str, float] = {}

    def issue(self, instruction: Instruction, at: int) -> None:
        """Lets `instruction` of bundle `at` wait for its unit, and start."""
        op, unit = instruction.op, instruction.unit
        if op.startswith("vmatpush"):
            free = max(at + self.stall, self._weights.get(unit, 0))
            self._weights[unit] = free + self.timing.push_cycles
        elif op.startswith("vmatmul"):
            self._start_matmul(instruction, at)
        elif op.startswith("vpop"):
            self.stall = max(self.stall, self._pop(instruction, at) - at)
        elif op.startswith("vxpose"):
            self._start_transpose(unit, at)
        elif unit:
            timing = self.timing
            latency = timing.eup_latency if unit == "eup" else timing.xlu_latency
            self._values[instruction.result] = at + self.stall + latency

    def _start_matmul(self, instruction: Instruction, at: int) -> None:
        op, unit, timing = instruction.op, instruction.unit, self.timing
        rows = 8 if ".f32" in op else 16 if ".bf16" in op else 32
        cycles, queue = min(rows, 16) * timing.row_cycles, self._matmuls[unit]
        if len(queue) >= MXU_QUEUE:
            self.stall = max(self.stall, queue[-MXU_QUEUE] - at)
        start = max(at + self.stall, queue[-1] if queue else 0, self._weights.pop(unit, 0))
        queue.append(start + cycles)
        self.mxu_cycles += cycles / timing.mxus
        if buffer := _RESULT_BUFFER.search(instruction.operands):
            self._buffers[buffer[0] + unit] = start + timing.mxu_latency
        else:
            registers = rows // 8 * (2 if "mubr" in op else 1)
            self._results[unit].extend([start + timing.mxu_latency] * registers)

    def _start_transpose(self, unit: str, at: int) -> None:
        cycles = self.timing.transpose_cycles
        done = max(at + self.stall, self._transposes.get(unit, 0)) + cycles
        self._transposes[unit] = done
        self._transposed[unit] = max(done + cycles, self._transposed.get(unit, 0))

    def _pop(self, instruction: Instruction, at: int) -> float:
        """When what `instruction` takes from a unit is ready."""
        op, unit = instruction.op, instruction.unit
        if ".trf" in op:
            ready = self._transposed.get(unit, 0)
            self._transposed[unit] = max(ready, at + self.stall) + self.timing.transpose_cycles
            return ready
        if buffer := _RESULT_BUFFER.search(instruction.operands):
            return self._buffers.get(buffer[0] + unit, 0)
        if ".mr" in op:
            return self._results[unit].popleft() if self._results[unit] else 0
        return max((self._values.get(value, 0) for value in instruction.values), default=0)
