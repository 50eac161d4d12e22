"""What partitioning decides: regions, their tier and the segments that run in turn."""

import enum
from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn, Graph, Var
from tpu_inductor.regions.factors import Factoring


class Tier(enum.Enum):
    """Who runs a region."""

    PALLAS = "pallas"
    XLA = "xla"
    EAGER = "eager"


class Rows(enum.Enum):
    """What a kernel does with the axes that it reduces."""

    PASSED = "passed"
    """Nothing that follows a reduction has them again: blocks of them add up."""
    KEPT = "kept"
    """They are needed again, and whole in every block."""
    STREAMED = "streamed"
    """They are needed again, and go by in blocks, after each of which what is kept is repaired."""


@dataclass(frozen=True, slots=True)
class Region:
    """Equations that run together, in order, from `inputs` to `outputs`.

    `factoring` is given for the pallas tier. `reason` says why the tier is not pallas, and
    `refused` why neighbours did not join.
    """

    name: str
    tier: Tier
    eqns: tuple[Eqn, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    factoring: Factoring | None
    rows: Rows = Rows.PASSED
    reason: str = ""
    refused: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The operators of the region, and the user's line of the last that has one."""
        named = [e.origin for e in self.eqns if e.origin.node]
        ops = ", ".join(dict.fromkeys(o.op for o in named))
        return f"{ops} at {named[-1].place}" if named else ""

    def __str__(self) -> str:
        ends = f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})"
        why = f"  # {self.reason}" if self.reason else ""
        lines = [f"region {self.name} {self.tier.value} {ends}{why}"]
        lines += [f"  {eqn}" for eqn in self.eqns]
        lines += [f"  refused  {line}" for line in self.refused]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Segment:
    """Regions between two eager calls: one program. An eager segment holds one eager region."""

    regions: tuple[Region, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]

    @property
    def is_eager(self) -> bool:
        return self.regions[0].tier is Tier.EAGER


@dataclass(frozen=True, slots=True)
class Partition:
    """A graph as segments, in the order in which they run."""

    graph: Graph
    segments: tuple[Segment, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(region for segment in self.segments for region in segment.regions)

    def __str__(self) -> str:
        parts: list[str] = []
        for i, segment in enumerate(self.segments):
            parts.append(f"segment {i} {'eager' if segment.is_eager else 'program'}")
            parts += [str(region) for region in segment.regions]
        return "\n".join(parts) + "\n"
