"""Guards the tags that the body reads, and completes what is kept after the last block."""

from dataclasses import dataclass, replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.graph.simplify import drop_dead
from tpu_inductor.streams.repair import (
    Moves,
    Repair,
    find_moves,
    write_change,
    write_guard,
    write_repair,
)
from tpu_inductor.streams.rewrite import Rewriter


@dataclass(frozen=True, slots=True)
class Guarded:
    """The equations of a stream, the results that close the axis, and the repairs of some."""

    eqns: tuple[Eqn, ...]
    closings: dict[Var, tuple[int, ...]]
    repairs: dict[Var, Repair]


def guard_tags(rw: Rewriter, results: tuple[Value, ...], outputs: tuple[Var, ...]) -> Guarded:
    """The equations with guards and repairs, whose results have the names of `outputs`.

    Raises NotStreamable where what is closed cannot be repaired.
    """
    live = drop_dead(Graph("", (), rw.eqns, (*results, *rw.shown.values()))).eqns
    closings = [eqn for eqn in live if eqn.out in rw.closings]
    moves = {eqn.out: found for eqn in closings if (found := find_moves(rw, eqn)) is not None}
    start = len(rw.builder.sink.eqns)
    guards: dict[Var, Var] = {}
    for tag, how in _tags(moves).items():
        guard = write_guard(rw, tag, how)
        if guard is not None:
            guards[tag] = guard
    ready = {out: write_repair(rw, m, guards) for out, m in moves.items()}
    body = _insert_guards(live, rw.eqns[start:], guards, rw)
    done, finals = _complete(rw, body, moves, guards, results)
    eqns, names = _name_outputs(rw.builder, done, finals, outputs)
    return Guarded(
        drop_dead(Graph("", (), eqns, outputs)).eqns,
        {_renamed(names, e.out): rw.closings[e.out] for e in closings},
        {_renamed(names, out): _rename_tags(names, repair) for out, repair in ready.items()},
    )


def _tags(moves: dict[Var, Moves]) -> dict[Var, set[str]]:
    found: dict[Var, set[str]] = {}
    for m in moves.values():
        for tag, how in m.tags.items():
            found.setdefault(tag, set()).update(how)
    return found


def _insert_guards(
    live: tuple[Eqn, ...], extra: tuple[Eqn, ...], guards: dict[Var, Var], rw: Rewriter
) -> list[Eqn]:
    """Every guard after its tag; what repeats a tag along the axis repeats its guard."""
    body: list[Eqn] = []
    waiting = list(extra)
    defined = {v for eqn in live for v in eqn.operands} - {v for eqn in live for v in eqn.outputs}
    for eqn in live:
        if eqn.out in rw.repeated:
            eqn = replace(eqn, inputs=tuple(_mapped(guards, v) for v in eqn.inputs))
        body.append(eqn)
        defined.update(eqn.outputs)
        for late in list(waiting):
            if defined.issuperset(late.operands):
                body.append(late)
                defined.update(late.outputs)
                waiting.remove(late)
    return body


def _complete(
    rw: Rewriter,
    body: list[Eqn],
    moves: dict[Var, Moves],
    guards: dict[Var, Var],
    results: tuple[Value, ...],
) -> tuple[list[Eqn], tuple[Value, ...]]:
    """Takes what is kept from the guarded tags to the tags, for all that is read at the end."""
    start = len(rw.builder.sink.eqns)
    final: dict[Var, Value] = {}
    for eqn in body:
        if eqn.out in moves:
            new = {tag: final.get(tag, tag) for tag in moves[eqn.out].tags}
            whole = _whole(rw, moves[eqn.out], guards, new)
            final |= {} if whole == eqn.out else {eqn.out: whole}
        elif eqn.out not in rw.varying and any(v in final for v in eqn.operands):
            inputs = tuple(_mapped(final, v) for v in eqn.inputs)
            final[eqn.out] = rw.row_op(eqn, eqn.prim, *inputs, attrs=eqn.attrs)
    ends = tuple(_mapped(final, v) for v in results)
    return [*body, *rw.eqns[start:]], ends


def _whole(rw: Rewriter, moves: Moves, guards: dict[Var, Var], new: dict[Var, Value]) -> Value:
    """What is kept, as it would be with the tags of the whole axis."""
    eqn = moves.eqn
    change = write_change(rw, moves, {tag: guards.get(tag, tag) for tag in new}, new)
    if change is None:
        return eqn.out
    change = rw.convert(eqn, change, eqn.out.type.dtype)
    whole = rw.row_op(eqn, "mul" if moves.kind == "scale" else "add", eqn.out, change)
    if eqn.out in rw.shown:
        return rw.row_op(eqn, "select", rw.shown[eqn.out], whole, eqn.out)
    return whole


def _name_outputs(
    builder: Builder, eqns: list[Eqn], results: tuple[Value, ...], outputs: tuple[Var, ...]
) -> tuple[tuple[Eqn, ...], dict[Var, Value]]:
    """Gives results the names of the outputs; what had such a name gets a new one.

    A result that has another name to keep is copied. Also returns the new names.
    """
    names: dict[Var, Value] = {}
    copies: list[Eqn] = []
    made = {v for eqn in eqns for v in eqn.outputs}
    for result, output in zip(results, outputs, strict=True):
        if result == output:
            continue
        names[output] = Var(builder.fresh(output.name), output.type)
        if isinstance(result, Var) and result in made and result not in (*names, *outputs):
            names[result] = output
        else:
            attrs = A.Reshape(output.type.shape)
            copies.append(Eqn("reshape", (result,), (output,), attrs, COMPILER))
    inside = [replace(e, outputs=tuple(_renamed(names, v) for v in e.outputs)) for e in eqns]
    every = (*inside, *copies)
    return tuple(
        replace(e, inputs=tuple(_mapped(names, v) for v in e.inputs)) for e in every
    ), names


def _rename_tags(names: dict[Var, Value], repair: Repair) -> Repair:
    return replace(repair, tags=tuple(_renamed(names, tag) for tag in repair.tags))


def _renamed(names: dict[Var, Value], var: Var) -> Var:
    new = names.get(var, var)
    assert isinstance(new, Var)
    return new


def _mapped(names: dict[Var, Value] | dict[Var, Var], value: Value) -> Value:
    return value if isinstance(value, Lit) else names.get(value, value)
