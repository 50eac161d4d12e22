"""A tile schedule: every decision about one kernel, as frozen fields with their reasons."""

from dataclasses import dataclass
from functools import cached_property

from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factors import Access, Factoring, flat
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis, Form, Operand, Order, Pattern, Place, pattern_of
from tpu_inductor.schedule.nest import Carry, Compute, Nest, computes_of, folds_of, grid_of


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel is estimated to do. An estimate, never a measurement."""

    flops: int
    transcendentals: int
    hbm_bytes: int
    time_us: float


@dataclass(frozen=True)
class TileSchedule:
    """How one region runs as one kernel: `nest` says what happens where."""

    region: Region
    template: str
    axes: tuple[Axis, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    nest: Nest
    vmem_bytes: int
    vmem_limit_bytes: int
    cost: Cost
    reason: str
    rejected: tuple[str, ...] = ()

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        return self.region.eqns

    @property
    def factoring(self) -> Factoring:
        """The factors of the region."""
        assert self.region.factoring is not None
        return self.region.factoring

    def axis(self, name: str) -> Axis:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Axis]:
        return {a.name: a for a in self.axes}

    @cached_property
    def grid(self) -> tuple[str, ...]:
        """The axes of the grid, outermost first."""
        return grid_of(self.nest)

    @cached_property
    def folded(self) -> frozenset[str]:
        """The axes of the grid whose blocks add to one result, in order."""
        return frozenset(name for fold in folds_of(self.nest) for name in fold.axes)

    @cached_property
    def carries(self) -> tuple[Carry, ...]:
        """What the kernel keeps in scratch."""
        return tuple(carry for fold in folds_of(self.nest) for carry in fold.carries)

    @cached_property
    def products(self) -> tuple[Compute, ...]:
        """The matrix products."""
        every = computes_of(self.nest)
        return tuple(c for c in every if PRIMS[self.eqns[c.eqn].prim].kind is Kind.DOT)

    @cached_property
    def _news(self) -> dict[Var | None, Var]:
        """What is kept of the blocks before, by what is kept next, which has the same axes."""
        return {c.old: self.eqns[c.eqn].out for c in self.carries}

    def pattern(self, var: Var, order: Order) -> Pattern:
        """How a value of the body lies in an order of axes."""
        dims = self.factoring.values.get(self._news.get(var, var))
        return order if dims is None else pattern_of(order, self.axes, flat(dims))

    def access_pattern(self, access: Access, order: Order) -> Pattern:
        """How what is read from outside lies in an order of axes."""
        return pattern_of(order, self.axes, flat(self.factoring.accesses[access]))

    def block(self, operand: Operand) -> tuple[int | None, ...]:
        """The block shape of `operand`; None is a squeezed dimension."""
        if operand.form is Form.WHOLE_VECTOR:
            return self.array(operand)
        return tuple(self._block_extent(place) for place in operand.dims)

    def array(self, operand: Operand) -> tuple[int, ...]:
        """The shape of the array that the kernel gets for `operand`."""
        return tuple(self.axis(p.axis).size if p.is_present else 1 for p in operand.dims)

    def index(self, operand: Operand) -> tuple[str, ...]:
        """The grid axis that indexes each dimension of the array, or "0"."""
        if operand.form is Form.WHOLE_VECTOR:
            return ("0",)
        return tuple(p.axis if p.is_present and p.axis in self.grid else "0" for p in operand.dims)

    def _block_extent(self, place: Place) -> int | None:
        axis = self.axis(place.axis)
        if axis.is_squeezed:
            return None
        return axis.tile if place.is_present else 1
