"""Prints the nest of a kernel: loops, folds, and the equations in them.

acc_ref[...] += lax.dot_general(x, w, ...)
@pl.when(k == steps - 1)
def _():
    out_ref[...] = acc_ref[...] + bias_ref[...]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpu_inductor.codegen.body import CHUNK_AT, Body
from tpu_inductor.codegen.expr_literal import dtype_text
from tpu_inductor.codegen.held import LocalNames
from tpu_inductor.codegen.product_text import product_text
from tpu_inductor.codegen.reduction_text import identity_text, reduction_text
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import flat
from tpu_inductor.schedule.nest import Carry, Compute, Fold, How, Keep, Load, Loop, Nest, Node, Take
from tpu_inductor.schedule.types import TileSchedule


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
    names.used.update(("chunk", CHUNK_AT))
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
        elif isinstance(node, Fold):
            self._fold(body, node)
        elif isinstance(node, Take):
            assert node.carry.old is not None
            _take(body, node.carry, self.accs[node.carry], node.carry.old)
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
            body.values[node.order, eqn.out] = body.define(eqn, text, axes)
        else:
            body.lines.append(f"{ref}[...] += {text}")

    def _loop(self, body: Body, loop: Loop) -> None:
        """The body as it is for every block of the grid, or for every chunk of the block."""
        if loop.how is How.GRID:
            self.nest(body, loop.body)
            return
        axis, inner = body.schedule.axis(loop.axis), body.inner()
        self.nest(inner, loop.body)
        unroll = f", unroll={loop.unroll}" if loop.unroll > 1 else ""
        body.lines += [
            f"@pl.loop(0, {axis.turns}{unroll})",
            "def _chunk(chunk):",
            f"    {CHUNK_AT} = pl.multiple_of(chunk * {axis.chunk}, {axis.chunk})",
            *(f"    {line}" for line in inner.lines),
        ]

    def _fold(self, body: Body, fold: Fold) -> None:
        """What every block adds, between the first block's zeros and what follows the last."""
        first, last = (_all_at(body, fold, last=at_end) for at_end in (False, True))
        body.lines += [f"@pl.when({first})", "def _initialise():"]
        body.lines += [f"    {_initial_text(body, c, self.accs[c])}" for c in fold.carries]
        body.lines.append("")
        gathering = {c.eqn: self.accs[c] for c in fold.carries if c.old is None}
        _Printer(self.accs, gathering).nest(body, fold.each)
        after = body.after()
        for carry in fold.carries:
            _take(after, carry, self.accs[carry], body.schedule.eqns[carry.eqn].out)
        self.nest(after, fold.last)
        body.lines += ["", f"@pl.when({last})", "def _finish():"]
        body.lines += [f"    {line}" for line in after.lines]


def _gather_text(body: Body, node: Compute, ref: str) -> str:
    eqn = body.schedule.eqns[node.eqn]
    operand = body.spread(body.read(node, 0), body.seen_axes(node.order), node.order)
    part = body.partial_reduction(node, eqn, operand)
    combine = reduction_text(eqn.prim, eqn.inputs[0].type.dtype).combine
    return f"{ref}[...] = {combine.format(f'{ref}[...]', part)}"


def _initial_text(body: Body, carry: Carry, ref: str) -> str:
    identity = identity_text(carry.closing.prim, _operand_type(carry.closing))
    return f"{ref}[...] = jnp.full({carry.shape}, {identity}, {dtype_text(carry.dtype)})"


def _operand_type(eqn: Eqn) -> DType:
    return DType.F32 if PRIMS[eqn.prim].kind is Kind.DOT else eqn.inputs[0].type.dtype


def _take(body: Body, carry: Carry, ref: str, var: Var) -> None:
    """What a fold has gathered so far, as the value `var`."""
    schedule = body.schedule
    eqn, text = schedule.eqns[carry.eqn], f"{ref}[...]"
    if var.type.dtype is DType.BOOL:
        text = f"{text} != 0"
    factors = flat(schedule.factoring.values[eqn.out])
    axes = (a for a in schedule.axes if not a.factors or not factors.isdisjoint(a.factors))
    named = replace(eqn, outputs=(var,))
    body.values[carry.order, var] = body.define(named, text, frozenset(a.name for a in axes))


def _keep(body: Body, carry: Carry, ref: str) -> None:
    var = body.schedule.eqns[carry.eqn].out
    text = body.values[carry.order, var].text
    if var.type.dtype is DType.BOOL:
        text = f"jnp.where({text}, 1, 0)"
    body.lines.append(f"{ref}[...] = {text}")


def _all_at(body: Body, fold: Fold, *, last: bool) -> str:
    """The condition that every folded axis is at its first or last block."""
    axes = map(body.schedule.axis, fold.axes)
    tests = [f"({body.pids[a.name]} == {a.blocks - 1 if last else 0})" for a in axes]
    return " & ".join(tests) if len(tests) > 1 else tests[0][1:-1]
