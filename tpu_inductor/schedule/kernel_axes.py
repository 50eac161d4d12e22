"""The axes of a kernel before tiles are chosen, and the orders of its values."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpu_inductor.regions.factors import Dims, flat
from tpu_inductor.schedule.arrays import Axis, Order
from tpu_inductor.schedule.nest import Product
from tpu_inductor.streams.scan import Kept


@dataclass(frozen=True, slots=True)
class KernelAxes:
    """The axes of a kernel, outermost first, before tiles are chosen.

    `orders` are those in which values are computed; each takes the first that has all of its axes.
    `products` has the axes of every contraction, by the index of its equation; axes that are in
    none of them are squeezed. `kept` is what a scan keeps from block to block of the axes that it
    reduces; `streamed` is the axis that one contraction makes and another ends.
    """

    axes: tuple[Axis, ...]
    orders: tuple[Order, ...]
    products: Mapping[int, Product]
    kept: tuple[Kept, ...] = ()
    streamed: str = ""

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    @property
    def of_matrices(self) -> frozenset[str]:
        """The axes of the products; the others are squeezed."""
        return frozenset(n for p in self.products.values() for n in p.names)

    def along(self, dims: Dims) -> frozenset[str]:
        """The axes that a value with these dimensions has."""
        factors = flat(dims)
        return frozenset(a.name for a in self.axes if not factors.isdisjoint(a.factors))

    def order_of(self, dims: Dims) -> Order:
        """The order in which a value with these dimensions is computed."""
        along = self.along(dims)
        return next((o for o in self.orders if along.issubset(o)), self.orders[0])
