"""Values inside a kernel body: their text, and along which axes they extend.

Within one space every array has one dimension per axis that the body sees, of extent 1 where
the value does not vary. So broadcasts, reshapes and transposes of the graph print nothing.
"""

import re
from dataclasses import dataclass, field

from tpu_inductor.codegen.names import Names
from tpu_inductor.graph.core import Lit, Var


@dataclass(frozen=True, slots=True)
class Held:
    """A name in the kernel body, or a literal; `axes` are those along which it varies.

    With `lanes` it has so many along its minor dimension although it lacks that axis: every lane
    has the value of its row, or a part of it.
    """

    text: str
    axes: frozenset[str]
    lit: Lit | None = None
    lanes: int = 0


@dataclass(slots=True)
class LocalNames:
    """Names for one kernel, without the numbers that tell apart the values of a whole graph.

    Equal kernels of different layers thereby have equal text.
    """

    names: Names = field(default_factory=Names)
    used: set[str] = field(default_factory=set[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def fresh(self, var: Var) -> str:
        return self.unique(re.sub(r"[_\d]+$", "", var.name) or "value")

    def unique(self, base: str) -> str:
        base = self.names.identifier(base)
        name, count = base, self.counts.get(base, 1)
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        self.counts[base] = count
        return name
