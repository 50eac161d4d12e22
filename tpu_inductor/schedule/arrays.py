"""The axes of a kernel, and the arrays that it reads and writes over them."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tpu_inductor.graph.core import Var
from tpu_inductor.regions.factors import Access, Factor

Order: TypeAlias = tuple[str, ...]
"""The axes along which a value of the body has dimensions, of extent 1 where it does not vary."""


Pattern: TypeAlias = tuple[str | None, ...]
"""An order of which only the axes that a value has are named. A value that has the same pattern in
two orders is the same array in both."""


class Form(enum.Enum):
    """How a kernel takes an operand or gives a result."""

    ARRAY = "array"
    """One dimension per place."""
    VECTOR = "vector"
    """Blocks of a vector, as it lies in memory."""
    WHOLE_VECTOR = "whole vector"
    """All of a vector in every block, of which the body reads the part along its grid axis."""
    ROW = "row"
    """A vector as a matrix of one row, which lies differently in memory: XLA copies it."""

    @property
    def is_vector(self) -> bool:
        return self in (Form.VECTOR, Form.WHOLE_VECTOR)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a kernel: a run of factors, and how much of it lies where.

    A block holds `tile` of it, and with a `chunk` the body works on so much of the block at once:
    blocks as large as the memory likes, code as short as the compiler likes. A squeezed axis has
    blocks of 1 that the body does not see as a dimension. `is_reduced` says that an equation of the
    region ends it.
    """

    name: str
    factors: tuple[Factor, ...]
    size: int
    tile: int
    is_reduced: bool = False
    is_squeezed: bool = False
    chunk: int = 0

    @property
    def extent(self) -> int:
        """How much of a block the body works on at once."""
        return self.chunk or self.tile

    @property
    def blocks(self) -> int:
        """How many blocks the axis has; with one it is whole in it, and no axis of the grid."""
        return -(-self.size // self.tile)

    @property
    def turns(self) -> int:
        """How often the body goes over a part of a block."""
        return self.tile // self.extent

    @property
    def is_whole(self) -> bool:
        return self.blocks == 1

    @property
    def has_tail(self) -> bool:
        """Whether the last block reaches beyond the axis."""
        return self.size % self.tile != 0


def pattern_of(order: Order, axes: Iterable[Axis], factors: frozenset[Factor]) -> Pattern:
    """How a value with these factors lies in `order`."""
    along = {a.name for a in axes if not factors.isdisjoint(a.factors)}
    return tuple(name if name in along else None for name in order)


@dataclass(frozen=True, slots=True)
class Place:
    """One dimension of an operand's array: along `axis`, or of extent 1 where it lacks the axis."""

    axis: str
    is_present: bool


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that the kernel reads or writes.

    The value `var` is reshaped to `stored` (one extent per axis, in its own order), transposed by
    `perm` and reshaped to one dimension per place, or to its last place alone in the form of a
    vector. Results take the way back. `accesses` names the readings that this operand serves.
    """

    var: Var
    stored: tuple[int, ...]
    perm: tuple[int, ...]
    places: tuple[Place, ...]
    accesses: frozenset[Access]
    form: Form = Form.ARRAY

    @property
    def order(self) -> Order:
        """The axes of its dimensions in the body."""
        return tuple(p.axis for p in self.places)

    @property
    def present(self) -> tuple[str, ...]:
        """The axes along which it extends."""
        return tuple(p.axis for p in self.places if p.is_present)

    @property
    def dims(self) -> tuple[Place, ...]:
        """The places that are dimensions of the array."""
        return self.places[-1:] if self.form.is_vector else self.places
