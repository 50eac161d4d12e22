"""A stream as a scan: what one block makes of what is kept, spelled as equations.

    carry l: sum, scale by exp(m_old - m)   -->   l = l_old * exp(m_old - m) + sum(...)

So a kernel needs to know nothing of repairs: it takes what is kept, computes, and keeps the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpu_inductor.errors import InvalidIR, Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Factoring, factorise
from tpu_inductor.streams.stream import Carry, Stream


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept from block to block: `old` comes in, `new` goes out.

    It starts as what the reduction or contraction `closing` gives of nothing, unless as `start`.
    """

    old: Var
    new: Var
    closing: Eqn
    start: Lit | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Equations over what is kept, beside a region's own inputs and outputs.

    The values `kept` are complete after the last block, where the outputs are computed from them.
    """

    eqns: tuple[Eqn, ...]
    factoring: Factoring
    kept: tuple[Kept, ...]


def scan_stream(stream: Stream) -> Scan:
    """The equations of `stream` with every repair and merge written out."""
    limits = _find_limits(stream)
    writer = _Writer.of(stream, {limit.closed: limit.least for limit in limits.values()})
    carries = {c.eqn: c for c in stream.carries}
    for i, eqn in enumerate(stream.eqns):
        if i in carries:
            writer.close(eqn, carries[i])
        elif i in limits:
            writer.rename(eqn.out, limits[i].seen)
        else:
            writer.add(eqn)
    eqns = tuple(writer.eqns)
    factoring = factorise(eqns, FACTOR_RULES)
    if isinstance(factoring, Reject):
        raise InvalidIR(f"a scan lost its axes: {factoring.reason}")
    return Scan(eqns, factoring, tuple(writer.kept))


@dataclass(frozen=True, slots=True)
class _Limit:
    """A maximum of `least` and what is `closed`, which nothing else reads but as it is `seen`."""

    closed: Var
    seen: Value
    least: Lit


def _find_limits(stream: Stream) -> dict[int, _Limit]:
    """The equations that keep a running maximum above a number: it can start there as well."""
    readers: dict[Value, list[int]] = {}
    for i, eqn in enumerate(stream.eqns):
        for v in eqn.operands:
            readers.setdefault(v, []).append(i)
    found: dict[int, _Limit] = {}
    for carry in stream.carries:
        seen = closed = stream.eqns[carry.eqn].out
        while len(readers.get(seen, ())) == 1 and seen not in stream.outputs:
            eqn = stream.eqns[readers[seen][0]]
            if eqn.prim == "max" and carry.merge == "max" and isinstance(eqn.inputs[1], Lit):
                found[readers[seen][0]] = _Limit(closed, seen, eqn.inputs[1])
                break
            if PRIMS[eqn.prim].kind is not Kind.VIEW:
                break
            seen = eqn.out
    return found


@dataclass(slots=True)
class _Writer:
    """The equations so far. `old` has the values of tags, and of what they come from, before.

    `builder` knows the names that are taken.
    """

    builder: Builder
    starts: Mapping[Var, Lit]
    makers: dict[Var, Eqn]
    eqns: list[Eqn]
    kept: list[Kept]
    old: dict[Var, Var]
    inlined: dict[object, Var] = field(default_factory=dict[object, Var])
    names: dict[Value, Value] = field(default_factory=dict[Value, Value])

    @staticmethod
    def of(stream: Stream, starts: Mapping[Var, Lit]) -> "_Writer":
        builder = Builder.after(Graph("", stream.inputs, stream.eqns, ()))
        makers = {v: eqn for eqn in stream.eqns for v in eqn.outputs}
        closed = (stream.eqns[c.eqn].out for c in stream.carries)
        old = {v: Var(builder.fresh(f"{v.name}_old"), v.type) for v in closed}
        return _Writer(builder, starts, makers, [], [], old)

    def rename(self, var: Var, same: Value) -> None:
        """Reads `same` in place of `var`."""
        self.names[var] = same

    def add(self, eqn: Eqn) -> None:
        """An equation of the stream."""
        inputs = tuple(self.names.get(v, v) for v in eqn.inputs)
        eqn = replace(eqn, inputs=inputs)
        self.makers.update((v, eqn) for v in eqn.outputs)
        self.eqns.append(eqn)

    def close(self, eqn: Eqn, carry: Carry) -> None:
        """The closing equation of one block, and the merging of its result."""
        new, kept = eqn.out, self.old[eqn.out]
        self.kept.append(Kept(kept, new, eqn, self.starts.get(new)))
        part = self.fresh(new)
        self.add(replace(eqn, outputs=(part,)))
        moved = kept
        if carry.repair is not None:
            tags = tuple(self.names.get(tag, tag) for tag in carry.repair.tags)
            given = (*(self._before(tag) for tag in tags), *tags)
            change = self._inline(carry.repair.graph, given)
            moved = self.fresh(new)
            prim = "mul" if carry.repair.kind == "scale" else "add"
            self.eqns.append(Eqn(prim, (kept, change), (moved,), A.NoAttrs(), eqn.origin))
        self.eqns.append(Eqn(carry.merge, (moved, part), (new,), A.NoAttrs(), eqn.origin))

    def _before(self, value: Value) -> Value:
        """`value` as it follows from what was kept before this block."""
        if not isinstance(value, Var) or value in self.old:
            return self.old[value] if isinstance(value, Var) else value
        eqn = self.makers.get(value)
        inputs = () if eqn is None else tuple(map(self._before, eqn.inputs))
        if eqn is None or inputs == eqn.inputs:
            return value
        self.old[value] = self.fresh(value)
        self.eqns.append(replace(eqn, inputs=inputs, outputs=(self.old[value],)))
        return self.old[value]

    def _inline(self, graph: Graph, given: tuple[Value, ...]) -> Value:
        """The result of `graph` for the values `given`: several repairs may be the same."""
        names: dict[Value, Value] = dict(zip(graph.inputs, given, strict=True))
        for eqn in graph.eqns:
            inputs = tuple(names.get(v, v) for v in eqn.inputs)
            key = (eqn.prim, inputs, eqn.attrs, eqn.out.type)
            if key not in self.inlined:
                self.inlined[key] = self.fresh(eqn.out)
                self.eqns.append(replace(eqn, inputs=inputs, outputs=(self.inlined[key],)))
            names[eqn.out] = self.inlined[key]
        (result,) = graph.outputs
        return names.get(result, result)

    def fresh(self, like: Var) -> Var:
        return Var(self.builder.fresh(like.name), like.type)
