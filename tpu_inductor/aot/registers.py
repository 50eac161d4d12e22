"""Which scalar values share a register, and which of them matter to the clock.

A value such as `%s12_s3` has a place of its own; values that a phi joins share one by construction.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tpu_inductor.aot.bundles import Instruction
from tpu_inductor.aot.statements import EFFECTS

_VALUE = re.compile(r"%(\w+)")


class Registers:
    """The places of the scalar values of one program, "r[0]" and on, in order of first use."""

    def __init__(self, bundles: Sequence[Sequence[Instruction]]) -> None:
        self._joined: dict[str, str] = {}
        self._places: dict[str, str] = {}
        for instruction in (i for bundle in bundles for i in bundle):
            if instruction.op == "sphi":
                for operand in _VALUE.findall(instruction.operands):
                    self._joined[self._root(instruction.result)] = self._root(operand)
        self._live = self._find_live(i for bundle in bundles for i in bundle)

    def _root(self, value: str) -> str:
        while (joined := self._joined.get(value, value)) != value:
            value = joined
        return value

    def place(self, value: str) -> str:
        """Where `value` is kept."""
        return self._places.setdefault(self._root(value), f"r[{len(self._places)}]")

    def is_live(self, value: str) -> bool:
        """Whether `value` reaches a branch, a DMA, a wait or SMEM."""
        return self._root(value) in self._live

    def __len__(self) -> int:
        """How many places were given."""
        return len(self._places)

    def _find_live(self, instructions: Iterable[Instruction]) -> set[str]:
        work: list[str] = []
        sources: dict[str, list[str]] = defaultdict(list)
        for instruction in instructions:
            values = [self._root(value) for value in instruction.values]
            if instruction.op.startswith(EFFECTS):
                work += values
            if instruction.result:
                sources[self._root(instruction.result)] += values
        live: set[str] = set()
        while work:
            if (value := work.pop()) not in live:
                live.add(value)
                work += sources[value]
        return live
