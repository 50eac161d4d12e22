"""A kernel as a loop nest: a tree that says what happens where, and over which axes.

    loop rows grid                        for every block of rows
      fold cols                             over the blocks of columns, in order
        carry s: reduce_sum f32[256,1]        kept from block to block
        each                                  for every block:
          load x; y = mul x x; s += y
        last                                  after the last one:
          r = rsqrt s; store r

Memory, cost, verifying, text and printing are folds over it.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.arrays import Operand, Order
from tpu_inductor.schedule.bound import Span


class How(enum.Enum):
    """How a loop goes over its axis."""

    GRID = "grid"
    """An axis of the grid; its blocks are independent, and cores may share them."""
    LOOP = "loop"
    """In the kernel, over the chunks of a block."""


@dataclass(frozen=True, slots=True)
class Load:
    """Reads the part of an operand that the loops around are at."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Store:
    """Writes the value of a result."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Compute:
    """One equation of the region: its result in `order`, its operand i in `reads[i]`.

    What lies beyond the end of the axes `tails` must not count. In a fold that carries the
    equation its result is added to what is kept. A sum in `lanes` leaves in each of so many lanes
    the sum of one element in so many. Where a mask hides nothing its result is operand `taken`.
    """

    eqn: int
    order: Order
    reads: tuple[Order, ...]
    tails: tuple[str, ...] = ()
    lanes: int = 0
    taken: int | None = None


class Lanes(enum.Enum):
    """What the lanes of a carry hold that has one number a row."""

    ONE = "one"
    """The number, in the first."""
    COPIES = "copies"
    """The number, each: so nothing is repeated when rows meet it."""
    PARTS = "parts"
    """Numbers that add up to it: so lanes are added once, at the end."""


@dataclass(frozen=True, slots=True)
class Carry:
    """What a fold keeps in scratch from block to block: the result so far of equation `eqn`.

    It starts as `start`, or else as what the equation `closing` gives of nothing. Where `old` is
    named, the equations of a block read it and say what is kept next; otherwise each block's result
    is added to it.
    """

    eqn: int
    closing: Eqn
    order: Order
    shape: tuple[int, ...]
    dtype: DType
    old: Var | None = None
    lanes: Lanes = Lanes.ONE
    start: Lit | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Reads what has been kept so far, as the value `var`: of the blocks before, or of all."""

    carry: Carry
    var: Var


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps the value of a carry's equation for the next block."""

    carry: Carry


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` for every block of an axis, or for every `stride` chunks of a block.

    `unroll` turns are written out together. A `span` says which chunks are visited.
    """

    axis: str
    how: How
    body: "Nest"
    unroll: int = 1
    stride: int = 1
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Interleave:
    """`body` at several places, written out: at every combination of so many chunks of `axes`.

    The first `ahead` nodes of a place stand before the others of the place before it, so that one
    unit of the processor works for the next place while another works for this one.
    """

    axes: tuple[tuple[str, int], ...]
    ahead: int
    body: "Nest"


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction or contraction over the blocks of `axes`, which the grid takes in order.

    `each` runs in every block and adds to the carries, `last` after the last block. Without axes
    `each` runs once, and has the loop inside.
    """

    axes: tuple[str, ...]
    carries: tuple[Carry, ...]
    each: "Nest"
    last: "Nest"


Node: TypeAlias = Load | Store | Take | Keep | Compute | Loop | Interleave | Fold
Nest: TypeAlias = tuple[Node, ...]


def children(node: Node) -> tuple[Nest, ...]:
    """The nests inside a node, in the order in which they run."""
    if isinstance(node, (Loop, Interleave)):
        return (node.body,)
    return (node.each, node.last) if isinstance(node, Fold) else ()


def walk(nest: Nest) -> Iterator[Node]:
    """Every node, in the order in which they run."""
    for node in nest:
        yield node
        for inner in children(node):
            yield from walk(inner)


def computes_of(nest: Nest) -> Iterator[Compute]:
    """Every equation that is computed, in order; one in two orders twice."""
    return (node for node in walk(nest) if isinstance(node, Compute))


def folds_of(nest: Nest) -> Iterator[Fold]:
    return (node for node in walk(nest) if isinstance(node, Fold))


def grid_of(nest: Nest) -> tuple[str, ...]:
    """The axes of the grid, outermost first: those of folds are the inner ones."""
    grid: list[str] = []
    for node in walk(nest):
        if isinstance(node, Loop) and node.how is How.GRID:
            grid.append(node.axis)
        elif isinstance(node, Fold):
            grid.extend(node.axes)
    return tuple(grid)


def with_names(nest: Nest, operands: Mapping[Operand, Operand], values: Mapping[Var, Var]) -> Nest:
    """The nest over other operands and with other values, as of an equal region."""
    return tuple(_with_names(node, operands, values) for node in nest)


def _with_names(node: Node, operands: Mapping[Operand, Operand], values: Mapping[Var, Var]) -> Node:
    if isinstance(node, (Load, Store)):
        return replace(node, operand=operands[node.operand])
    if isinstance(node, Take):
        return Take(_carry_with_names(node.carry, values), values[node.var])
    if isinstance(node, Keep):
        return Keep(_carry_with_names(node.carry, values))
    if isinstance(node, (Loop, Interleave)):
        return replace(node, body=with_names(node.body, operands, values))
    if isinstance(node, Fold):
        each, last = (with_names(nest, operands, values) for nest in (node.each, node.last))
        carries = tuple(_carry_with_names(carry, values) for carry in node.carries)
        return Fold(node.axes, carries, each, last)
    return node


def _carry_with_names(carry: Carry, values: Mapping[Var, Var]) -> Carry:
    """A carry of another region; those of streams, whose equations it has not, are never shared."""
    eqn = carry.closing
    inputs = tuple(value if isinstance(value, Lit) else values[value] for value in eqn.inputs)
    outputs = tuple(values[value] for value in eqn.outputs)
    return replace(carry, closing=replace(eqn, inputs=inputs, outputs=outputs))


@dataclass(frozen=True, slots=True)
class Product:
    """The axes of a matrix product: which its result takes from the left and from the right side,
    and which it sums over."""

    rows: Order
    columns: Order
    contracted: Order

    @property
    def names(self) -> Order:
        return (*self.rows, *self.columns, *self.contracted)


def product_of(node: Compute) -> Product:
    """The axes of the matrix product that `node` computes."""
    left, right = node.reads
    return Product(
        tuple(a for a in left if a in node.order and a not in right),
        tuple(a for a in right if a in node.order and a not in left),
        tuple(a for a in left if a not in node.order),
    )
