"""A tile schedule: every decision about one kernel, as frozen fields with their reasons."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Access, Factor
from tpu_inductor.regions.region import Region


class Role(enum.Enum):
    """How the kernel goes over an axis."""

    PARALLEL = "parallel"
    """A grid axis whose steps are independent."""
    ARBITRARY = "arbitrary"
    """A grid axis whose steps add to one accumulator, in order."""
    WHOLE = "whole"
    """Entirely in every block."""


class Space(enum.Enum):
    """Where a value lives: results and what is pointwise with them, or an operand of the matmul."""

    MAIN = "main"
    LHS = "lhs"
    RHS = "rhs"


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
    """One axis of a kernel: a run of factors, and the extent of its block.

    A squeezed axis has blocks of 1 that the kernel body does not see as a dimension. With a `chunk`
    the body loops over the block, that much of it at a time: blocks as large as the memory likes,
    code as short as the compiler likes. `unroll` turns of the loop are written out together, so
    that the vector work of one overlaps the products of the next.
    """

    name: str
    factors: tuple[Factor, ...]
    size: int
    tile: int
    role: Role
    is_reduced: bool = False
    is_squeezed: bool = False
    chunk: int = 0
    unroll: int = 1

    @property
    def extent(self) -> int:
        """How much of a block the body works on at once."""
        return self.chunk or self.tile

    @property
    def steps(self) -> int:
        return -(-self.size // self.tile)

    @property
    def has_tail(self) -> bool:
        """Whether the last block reaches beyond the axis."""
        return self.size % self.tile != 0

    def __str__(self) -> str:
        text = f"{self.name:8}{self.size} = {self.steps} x {self.tile}  {self.role.value}"
        text += f" in chunks of {self.chunk}" if self.chunk else ""
        text += f", {self.unroll} together" if self.unroll > 1 else ""
        return text + (" reduced" if self.is_reduced else "")


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
    space: Space
    stored: tuple[int, ...]
    perm: tuple[int, ...]
    places: tuple[Place, ...]
    accesses: frozenset[Access]
    form: Form = Form.ARRAY


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Scratch in which the reduction `eqns[eqn]` gathers over the arbitrary axes."""

    eqn: int
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel is estimated to do. An estimate, never a measurement."""

    flops: int
    transcendentals: int
    hbm_bytes: int
    time_us: float


@dataclass(frozen=True, slots=True)
class TileSchedule:
    """How one region runs as one kernel.

    `grid` lists grid axes, outermost first; `members` the equations of each space. `body` are
    indices of the region's equations in every block, `epilogue` of those after the last one.
    """

    region: Region
    template: str
    axes: tuple[Axis, ...]
    grid: tuple[str, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    accumulators: tuple[Accumulator, ...]
    members: Mapping[Space, tuple[int, ...]]
    body: tuple[int, ...]
    epilogue: tuple[int, ...]
    vmem_bytes: int
    vmem_limit_bytes: int
    cost: Cost
    reason: str
    rejected: tuple[str, ...] = ()

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        return self.region.eqns

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    @property
    def loop(self) -> Axis | None:
        """The axis over whose blocks the body loops, if any."""
        return next((a for a in self.axes if a.chunk), None)

    def block(self, operand: Operand) -> tuple[int | None, ...]:
        """The block shape of `operand`; None is a squeezed dimension."""
        if operand.form is Form.WHOLE_VECTOR:
            return self.array(operand)
        return tuple(self._block_extent(place) for place in _dims(operand))

    def array(self, operand: Operand) -> tuple[int, ...]:
        """The shape of the array that the kernel gets for `operand`."""
        return tuple(self.axis(p.axis).size if p.is_present else 1 for p in _dims(operand))

    def index(self, operand: Operand) -> tuple[str, ...]:
        """The grid axis that indexes each dimension of the array, or "0"."""
        if operand.form is Form.WHOLE_VECTOR:
            return ("0",)
        return tuple(
            p.axis if p.is_present and p.axis in self.grid else "0" for p in _dims(operand)
        )

    def _block_extent(self, place: Place) -> int | None:
        axis = self.axis(place.axis)
        if axis.is_squeezed:
            return None
        return axis.tile if place.is_present else 1


def _dims(operand: Operand) -> tuple[Place, ...]:
    """The places that are dimensions of the operand's array."""
    return operand.places[-1:] if operand.form.is_vector else operand.places
