"""Prints the nest of a kernel: loops, folds, and the equations in them.

acc_ref[...] += lax.dot_general(x, w, ...)
@pl.when(k == steps - 1)
def _():
    out_ref[...] = acc_ref[...] + bias_ref[...]
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tpu_inductor.codegen.body import Body
from tpu_inductor.codegen.bound_text import span_text
from tpu_inductor.codegen.expr_literal import dtype_text, number
from tpu_inductor.codegen.held import LocalNames
from tpu_inductor.codegen.product_text import product_text
from tpu_inductor.codegen.reduction_text import identity_text, reduction_text
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import flat
from tpu_inductor.schedule.nest import (
    Carry,
    Compute,
    Fold,
    How,
    Interleave,
    Keep,
    Lanes,
    Load,
    Loop,
    Nest,
    Node,
    Take,
)
from tpu_inductor.schedule.types import TileSchedule

LOOP = ("chunk", "start")
"""The variables of a loop: the number of a chunk, and where it begins in its block. Those of loops
inside of others end in the axis."""


@dataclass(frozen=True, slots=True)
class KernelBody:
    """The parameters of a kernel function, in the order of `pallas_call`, and its lines."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: tuple[str, ...]
    lines: tuple[str, ...]


def print_body(schedule: TileSchedule) -> KernelBody:
    """The kernel function's parameters and lines."""
    names = LocalNames()
    names.used.update(f"{word}{end}" for word in LOOP for end in ("", *_endings(schedule)))
    refs = {o: names.unique(f"{_base(o.var)}_ref") for o in (*schedule.inputs, *schedule.outputs)}
    accs = {carry: names.unique("acc_ref") for carry in schedule.carries}
    pids = {axis: names.unique(f"{axis}_id") for axis in schedule.grid}
    body = Body(schedule, names, refs, pids)
    _Printer(accs).nest(body, schedule.nest)
    used = "\n".join(body.lines)
    heads = [f"{name} = pl.program_id({i})" for i, name in enumerate(pids.values()) if name in used]
    return KernelBody(
        tuple(refs[o] for o in schedule.inputs),
        tuple(refs[o] for o in schedule.outputs),
        tuple(accs.values()),
        (*heads, *body.lines),
    )


def _endings(schedule: TileSchedule) -> list[str]:
    return [f"_{axis.name}" for axis in schedule.axes]


def _base(var: Var) -> str:
    """The name that values of `var` start from, without using it up."""
    return LocalNames().fresh(var)


@dataclass(frozen=True, slots=True)
class _Printer:
    """Prints nodes. `accs` names the scratch of carries, `gathering` that of the fold around."""

    accs: Mapping[Carry, str]
    gathering: Mapping[int, str] = field(default_factory=dict[int, str])

    def nest(self, body: Body, nest: Nest) -> None:
        for node in nest:
            self._node(body, node)

    def _node(self, body: Body, node: Node) -> None:
        if isinstance(node, Load):
            body.load(node.operand)
        elif isinstance(node, Compute):
            self._compute(body, node)
        elif isinstance(node, Loop):
            self._loop(body, node)
        elif isinstance(node, Interleave):
            self._interleave(body, node)
        elif isinstance(node, Fold):
            self._fold(body, node)
        elif isinstance(node, Take):
            _take(body, node, self.accs[node.carry])
        elif isinstance(node, Keep):
            _keep(body, node.carry, self.accs[node.carry])
        else:
            body.store(node.operand)

    def _compute(self, body: Body, node: Compute) -> None:
        eqn, ref = body.schedule.eqns[node.eqn], self.gathering.get(node.eqn)
        if PRIMS[eqn.prim].kind is not Kind.DOT:
            if ref is None:
                body.compute(node)
            else:
                body.lines.append(_gather_text(body, node, ref))
            return
        text, axes = product_text(body, node)
        if ref is None:
            body.hold(eqn.out, node.order, body.define(eqn, text, axes))
        else:
            body.lines.append(f"{ref}[...] += {text}")

    def _loop(self, body: Body, loop: Loop) -> None:
        """The body as it is for every block of the grid, or for every chunk of the block."""
        if loop.how is How.GRID:
            self.nest(body, loop.body)
            return
        axis = body.schedule.axis(loop.axis)
        chunk, start = (f"{word}_{axis.name}" if body.starts else word for word in LOOP)
        turns, at, extent = f"0, {axis.turns // loop.stride}", chunk, axis.extent * loop.stride
        if loop.span is not None:
            turns, at = span_text(body, loop.span, loop.stride, chunk)
            extent = axis.extent
        inner = body.inner({loop.axis: start})
        self.nest(inner, loop.body)
        unroll = f", unroll={loop.unroll}" if loop.unroll > 1 else ""
        body.lines += [
            f"@pl.loop({turns}{unroll})",
            f"def _{chunk}({chunk}):",
            f"    {start} = pl.multiple_of({at} * {extent}, {extent})",
            *(f"    {line}" for line in inner.lines),
        ]

    def _interleave(self, body: Body, node: Interleave) -> None:
        """The first part of every place before the second part of the place before it."""
        places = [_starts(body, node, at) for at in _positions(node)]
        inners = [body.inner(starts) for starts in places]
        first, second = node.body[: node.ahead], node.body[node.ahead :]
        self.nest(inners[0], first)
        body.lines += _taken(inners[0])
        for inner, following in itertools.zip_longest(inners, inners[1:]):
            if following is not None:
                self.nest(following, first)
                body.lines += _taken(following)
            self.nest(inner, second)
            body.lines += _taken(inner)

    def _fold(self, body: Body, fold: Fold) -> None:
        """What every block adds, between the first block's zeros and what follows the last."""
        if not fold.axes:
            self._fold_inside(body, fold)
            return
        first, last = (_all_at(body, fold, last=at_end) for at_end in (False, True))
        body.lines += [f"@pl.when({first})", "def _initialise():"]
        body.lines += [f"    {_initial_text(body, c, self.accs[c])}" for c in fold.carries]
        body.lines.append("")
        gathering = {c.eqn: self.accs[c] for c in fold.carries if c.old is None}
        _Printer(self.accs, gathering).nest(body, fold.each)
        after = body.after()
        self.nest(after, fold.last)
        body.lines += ["", f"@pl.when({last})", "def _finish():"]
        body.lines += [f"    {line}" for line in after.lines]

    def _fold_inside(self, body: Body, fold: Fold) -> None:
        """A fold of which the loop is inside."""
        body.lines += [_initial_text(body, c, self.accs[c]) for c in fold.carries]
        self.nest(body, fold.each)
        self.nest(body, fold.last)


def _positions(node: Interleave) -> Iterator[dict[str, int]]:
    names = [name for name, _ in node.axes]
    for place in itertools.product(*(range(count) for _, count in node.axes)):
        yield dict(zip(names, place, strict=True))


def _starts(body: Body, node: Interleave, place: dict[str, int]) -> dict[str, str]:
    """Where the chunks of one place begin, for the axes that go by chunks."""
    found: dict[str, str] = {}
    for axis in (body.schedule.axis(name) for name in place):
        if not axis.chunk:
            continue
        at = place[axis.name] * axis.chunk
        around = body.starts.get(axis.name)
        if around is None or not at:
            found[axis.name] = around or str(at)
        else:
            found[axis.name] = f"pl.multiple_of({around} + {at}, {axis.chunk})"
    return found


def _taken(body: Body) -> list[str]:
    """The lines of a body, which has none afterwards."""
    lines, body.lines = body.lines, []
    return lines


def _gather_text(body: Body, node: Compute, ref: str) -> str:
    eqn = body.schedule.eqns[node.eqn]
    operand = body.spread(body.read(node, 0), body.seen_axes(node.order), node.order)
    part = body.partial_reduction(node, eqn, operand)
    combine = reduction_text(eqn.prim, eqn.inputs[0].type.dtype).combine
    return f"{ref}[...] = {combine.format(f'{ref}[...]', part)}"


def _initial_text(body: Body, carry: Carry, ref: str) -> str:
    identity = identity_text(carry.closing.prim, _operand_type(carry.closing))
    identity = identity if carry.start is None else number(carry.start)
    return f"{ref}[...] = jnp.full({carry.shape}, {identity}, {dtype_text(carry.dtype)})"


def _operand_type(eqn: Eqn) -> DType:
    return DType.F32 if PRIMS[eqn.prim].kind is Kind.DOT else eqn.inputs[0].type.dtype


def _take(body: Body, node: Take, ref: str) -> None:
    """What a fold has gathered so far."""
    schedule, carry = body.schedule, node.carry
    eqn, text = schedule.eqns[carry.eqn], f"{ref}[{_part_text(body, carry)}]"
    if node.var.type.dtype is DType.BOOL:
        text = f"{text} != 0"
    is_complete = node.var == eqn.out
    if carry.lanes is Lanes.PARTS and is_complete:
        text = f"jnp.sum({text}, axis=(1,), keepdims=True)"
    factors = flat(schedule.factoring.values[eqn.out])
    axes = (a for a in schedule.axes if not a.factors or not factors.isdisjoint(a.factors))
    held = body.define(replace(eqn, outputs=(node.var,)), text, frozenset(a.name for a in axes))
    in_lanes = carry.lanes is Lanes.COPIES or (carry.lanes is Lanes.PARTS and not is_complete)
    lanes = carry.shape[-1] if in_lanes else 0
    body.hold(node.var, carry.order, replace(held, lanes=lanes))


def _keep(body: Body, carry: Carry, ref: str) -> None:
    var = body.schedule.eqns[carry.eqn].out
    held = body.held(var, carry.order)
    assert held is not None
    text = held.text
    if var.type.dtype is DType.BOOL:
        text = f"jnp.where({text}, 1, 0)"
    body.lines.append(f"{ref}[{_part_text(body, carry)}] = {text}")


def _part_text(body: Body, carry: Carry) -> str:
    """The part of a scratch array that the loops around are at."""
    parts = [
        f"pl.ds({body.starts[a.name]}, {a.chunk})"
        if a.name in body.starts and a.chunk < extent
        else ":"
        for a, extent in zip(body.seen_axes(carry.order), carry.shape, strict=True)
    ]
    return ", ".join(parts) if set(parts) != {":"} else "..."


def _all_at(body: Body, fold: Fold, *, last: bool) -> str:
    """The condition that every folded axis is at its first or last block."""
    axes = map(body.schedule.axis, fold.axes)
    tests = [f"({body.pids[a.name]} == {a.blocks - 1 if last else 0})" for a in axes]
    return " & ".join(tests) if len(tests) > 1 else tests[0][1:-1]
