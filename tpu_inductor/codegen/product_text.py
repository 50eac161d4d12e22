"""How kernels spell a matrix product of blocks.

(b, m, k) x (b, n, k) -> (b, m, n)   -->   lax.dot_general(x, w, (((2,), (2,)), ((0,), (0,))), ...)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tpu_inductor.codegen.body import Body
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.arrays import Order
from tpu_inductor.schedule.nest import Compute, product_of


def product_text(body: Body, node: Compute) -> tuple[str, frozenset[str]]:
    """The product of this block's matrices, and the axes of the result."""
    eqn, contracted = body.schedule.eqns[node.eqn], product_of(node).contracted
    lhs, rhs = _side(body, node, 0), _side(body, node, 1)
    # The free dimensions of the first come first, and the outer axes belong in front.
    first, second = (lhs, rhs) if _is_first(lhs, rhs, node.order) else (rhs, lhs)
    batch = [n for n in first.axes if n in second.axes and n not in contracted]
    ended = [n for n in first.axes if n in contracted]
    numbers = (
        f"(({_indices(first.axes, ended)}, {_indices(second.axes, ended)}), "
        f"({_indices(first.axes, batch)}, {_indices(second.axes, batch)}))"
    )
    how = f"{numbers}{_precision_text(eqn)}, preferred_element_type=jnp.float32"
    text = f"lax.dot_general({first.text}, {second.text}, {how})"
    free = [n for side in (first, second) for n in side.axes if n not in (*batch, *ended)]
    made = [*batch, *free]
    return _in_order(body, text, made, node.order), frozenset(made)


@dataclass(frozen=True, slots=True)
class _Side:
    """A matrix of a product: its text, and the axis of each of its dimensions."""

    text: str
    axes: tuple[str, ...]


def _side(body: Body, node: Compute, slot: int) -> _Side:
    """Operand `slot` without what lies beyond the contracted axis, and without axes it lacks."""
    held, order = body.read(node, slot), node.reads[slot]
    text = body.masked(held.text, node.tails, "0", order)
    seen = [a.name for a in body.seen_axes(order)]
    absent = tuple(i for i, name in enumerate(seen) if name not in held.axes)
    present = tuple(name for name in seen if name in held.axes)
    return _Side(f"lax.squeeze({text}, {absent})" if absent else text, present)


def _is_first(side: _Side, other: _Side, order: Order) -> bool:
    """Whether the free axis of `side` comes first in the order of the result."""
    if len(side.axes) != len(other.axes):
        return len(side.axes) > len(other.axes)
    own = [n for n in side.axes if n in order and n not in other.axes]
    others = [n for n in other.axes if n in order and n not in side.axes]
    return not own or not others or order.index(own[0]) < order.index(others[0])


def _in_order(body: Body, text: str, made: list[str], order: Order) -> str:
    """`text`, whose dimensions are along `made`, as an array in `order`."""
    seen = [a.name for a in body.seen_axes(order)]
    wanted = [name for name in seen if name in made]
    if wanted != made:
        text = f"jnp.transpose({text}, {_indices(made, wanted)})"
    absent = tuple(i for i, name in enumerate(seen) if name not in made)
    return f"lax.expand_dims({text}, {absent})" if absent else text


def _precision_text(eqn: Eqn) -> str:
    if eqn.inputs[0].type.dtype is not DType.F32:
        return ""
    # Mosaic has one pass or six, but not the three of "high".
    passes = "DEFAULT" if cast(A.Dot, eqn.attrs).precision == "default" else "HIGHEST"
    return f", precision=lax.Precision.{passes}"


def _indices(order: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    return tuple(order.index(n) for n in names)
