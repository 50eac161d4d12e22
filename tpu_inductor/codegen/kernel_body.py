"""Prints the body of a kernel: every block, the accumulation, and the epilogue.

acc_ref[...] += lax.dot_general(x, w, ...)
@pl.when(k == steps - 1)
def _():
    out_ref[...] = acc_ref[...] + bias_ref[...]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tpu_inductor.codegen.body import CHUNK_AT, Body, factors_of
from tpu_inductor.codegen.expr_literal import dtype_text
from tpu_inductor.codegen.held import LocalNames
from tpu_inductor.codegen.reduction_text import identity_text, reduction_text
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import Accumulator, Operand, Role, Space, TileSchedule


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
    refs = {o: names.unique(f"{_base(o.var)}_ref") for o in schedule.inputs}
    outs = {o: names.unique(f"{_base(o.var)}_ref") for o in schedule.outputs}
    accs = {a: names.unique("acc_ref") for a in schedule.accumulators}
    pids = {axis: names.unique(f"{axis}_id") for axis in schedule.grid}
    body = Body(schedule, names, refs, pids)
    _print_steps(body, accs)
    _store(body, outs, late=False)
    lines = _looped(schedule, body.lines)
    if accs:
        lines = [*_initialise(schedule, accs, pids), *lines, *_epilogue(body, accs, outs)]
    used = "\n".join(lines)
    heads = [f"{name} = pl.program_id({i})" for i, name in enumerate(pids.values()) if name in used]
    return KernelBody(
        tuple(refs.values()), tuple(outs.values()), tuple(accs.values()), (*heads, *lines)
    )


def _looped(schedule: TileSchedule, lines: list[str]) -> list[str]:
    """`lines` for every chunk of the block, if the schedule has chunks."""
    axis = schedule.loop
    if axis is None:
        return list(lines)
    unroll = f", unroll={axis.unroll}" if axis.unroll > 1 else ""
    head = [
        f"@pl.loop(0, {axis.tile // axis.chunk}{unroll})",
        "def _chunk(chunk):",
        f"    {CHUNK_AT} = pl.multiple_of(chunk * {axis.chunk}, {axis.chunk})",
    ]
    return [*head, *(f"    {line}" for line in lines)]


def _base(var: Var) -> str:
    """The name that values of `var` start from, without using it up."""
    return LocalNames().fresh(var)


def _print_steps(body: Body, accs: dict[Accumulator, str]) -> None:
    """What every block computes: values, or its part of each accumulator."""
    schedule = body.schedule
    gathered = {a.eqn: ref for a, ref in accs.items()}
    for index in schedule.body:
        eqn = schedule.eqns[index]
        if PRIMS[eqn.prim].kind is Kind.DOT:
            text, axes = _dot_text(body, index)
            if index in gathered:
                body.lines.append(f"{gathered[index]}[...] += {text}")
            else:
                body.values[Space.MAIN, eqn.out] = body.define(eqn, text, axes)
        elif index in gathered:
            body.lines.append(_gather_text(body, index, gathered[index]))
        else:
            body.run((index,), Space.MAIN)


def _gather_text(body: Body, index: int, ref: str) -> str:
    eqn = body.schedule.eqns[index]
    axes = tuple(a for a in body.seen_axes(Space.MAIN) if a.is_reduced)
    operand = body.operand(index, 0, Space.MAIN)
    every = body.seen_axes(Space.MAIN)
    operand = body.spread(operand, every, Space.MAIN)
    part = body.partial_reduction(eqn, operand, axes, Space.MAIN)
    combine = reduction_text(eqn.prim, eqn.inputs[0].type.dtype).combine
    return f"{ref}[...] = {combine.format(f'{ref}[...]', part)}"


def _dot_text(body: Body, index: int) -> tuple[str, frozenset[str]]:
    """The product of this block's matrices, and the axes of the result."""
    eqn = body.schedule.eqns[index]
    lhs = _dot_side(body, index, 0, Space.LHS)
    rhs = _dot_side(body, index, 1, Space.RHS)
    # The free dimensions of the first come first, and the outer axes belong in front.
    first, second = (lhs, rhs) if len(lhs.axes) >= len(rhs.axes) else (rhs, lhs)
    batch = [name for name in first.axes if name in second.axes and name != "k"]
    numbers = (
        f"((({first.axes.index('k')},), ({second.axes.index('k')},)), "
        f"({_indices(first.axes, batch)}, {_indices(second.axes, batch)}))"
    )
    how = f"{numbers}{_precision_text(eqn)}, preferred_element_type=jnp.float32"
    text = f"lax.dot_general({first.text}, {second.text}, {how})"
    free = [n for side in (first, second) for n in side.axes if n not in (*batch, "k")]
    made = [*batch, *free]
    return _in_main_order(body, text, made), frozenset(made)


@dataclass(frozen=True, slots=True)
class _DotSide:
    """A matrix of a product: its text, and the axis of each of its dimensions."""

    text: str
    axes: tuple[str, ...]


def _dot_side(body: Body, index: int, slot: int, space: Space) -> _DotSide:
    """Operand `slot` without what lies beyond the contracted axis, and without axes it lacks."""
    body.run(body.schedule.members[space], space)
    held = body.operand(index, slot, space)
    text = body.masked(held.text, (body.schedule.axis("k"),), "0", space)
    seen = [a.name for a in body.seen_axes(space)]
    absent = tuple(i for i, name in enumerate(seen) if name not in held.axes)
    present = tuple(name for name in seen if name in held.axes)
    return _DotSide(f"lax.squeeze({text}, {absent})" if absent else text, present)


def _in_main_order(body: Body, text: str, made: list[str]) -> str:
    """`text`, whose dimensions are along `made`, as an array of the main space."""
    main = [a.name for a in body.seen_axes(Space.MAIN)]
    order = [name for name in main if name in made]
    if order != made:
        text = f"jnp.transpose({text}, {_indices(made, order)})"
    absent = tuple(i for i, name in enumerate(main) if name not in made)
    return f"lax.expand_dims({text}, {absent})" if absent else text


def _precision_text(eqn: Eqn) -> str:
    if eqn.inputs[0].type.dtype is not DType.F32:
        return ""
    # Mosaic has one pass or six, but not the three of "high".
    passes = "DEFAULT" if cast(A.Dot, eqn.attrs).precision == "default" else "HIGHEST"
    return f", precision=lax.Precision.{passes}"


def _indices(order: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    return tuple(order.index(n) for n in names)


def _initialise(
    schedule: TileSchedule, accs: dict[Accumulator, str], pids: dict[str, str]
) -> list[str]:
    lines = [f"@pl.when({_all_at(schedule, pids, last=False)})", "def _initialise():"]
    for acc, ref in accs.items():
        eqn = schedule.eqns[acc.eqn]
        identity = identity_text(eqn.prim, _operand_type(eqn))
        lines.append(f"    {ref}[...] = jnp.full({acc.shape}, {identity}, {dtype_text(acc.dtype)})")
    return [*lines, ""]


def _operand_type(eqn: Eqn) -> DType:
    return DType.F32 if PRIMS[eqn.prim].kind is Kind.DOT else eqn.inputs[0].type.dtype


def _all_at(schedule: TileSchedule, pids: dict[str, str], *, last: bool) -> str:
    """The condition that every arbitrary axis is at its first or last step."""
    axes = [schedule.axis(n) for n in schedule.grid]
    tests = [
        f"({pids[a.name]} == {a.steps - 1 if last else 0})"
        for a in axes
        if a.role is Role.ARBITRARY
    ]
    return " & ".join(tests) if len(tests) > 1 else tests[0][1:-1]


def _epilogue(body: Body, accs: dict[Accumulator, str], outs: dict[Operand, str]) -> list[str]:
    """The equations that follow the last accumulation, and their results."""
    schedule = body.schedule
    late = Body(schedule, body.names, body.refs, body.pids)
    for acc, ref in accs.items():
        eqn = schedule.eqns[acc.eqn]
        text = f"{ref}[...]"
        if eqn.out.type.dtype is DType.BOOL:
            text = f"{text} != 0"
        axes = frozenset(
            a.name
            for a in schedule.axes
            if not a.factors or not factors_of(schedule, eqn.out).isdisjoint(a.factors)
        )
        late.values[Space.MAIN, eqn.out] = late.define(eqn, text, axes)
    late.run(schedule.epilogue, Space.MAIN)
    _store(late, outs, late=True)
    condition = _all_at(schedule, body.pids, last=True)
    return ["", f"@pl.when({condition})", "def _finish():", *(f"    {x}" for x in late.lines)]


def _store(body: Body, outs: dict[Operand, str], *, late: bool) -> None:
    """Writes the results of one phase, at their full extent."""
    schedule = body.schedule
    for operand, ref in outs.items():
        held = body.values.get((Space.MAIN, operand.var))
        if held is None or (not late and _is_late(schedule, operand)):
            continue
        axes = [schedule.axis(p.axis) for p in operand.places if p.is_present]
        full = body.spread(held, [a for a in axes if not a.is_squeezed], Space.MAIN)
        text = full.text
        if operand.var.type.dtype is DType.BOOL:
            # Converted without the select, a mask becomes one of bytes, which v4 cannot compare.
            text = f"jnp.where({text}, 1, 0).astype({dtype_text(stored_dtype(operand.var.type))})"
        if operand.form.is_vector:
            text = f"{text}.reshape({schedule.block(operand)[0]})"
        body.lines.append(f"{body.ref_text(operand, ref)} = {text}")


def _is_late(schedule: TileSchedule, operand: Operand) -> bool:
    """Whether a result follows the accumulation: it lacks the arbitrary axes."""
    arbitrary = {a.name for a in schedule.axes if a.role is Role.ARBITRARY}
    return bool(arbitrary) and not any(p.is_present and p.axis in arbitrary for p in operand.places)
