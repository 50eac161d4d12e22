"""Streams a region along one axis: reductions that depend on earlier ones, in one pass of blocks.

Softmax times v needs the row's maximum before its exponentials, and their sum before the weights.
Streamed, each block of keys is weighed with the maximum so far, and what is kept of earlier blocks
is repaired when that grows. The rule knows nothing of attention. For every equation that closes the
axis, in order:

1. what is summed is written as sums of (row value) * (what varies), and the row values are taken
   out of the sums (`hoist`);
2. what then still depends on running results must move with them by a shift or a scale (`action`);
3. a sum takes a scale, an extreme a shift or a positive scale (`repair`).

It finds softmax(q k^T) v in every spelling, log-sum-exp, cross entropy after a linear layer,
softmax's backward times k, RMS norm times a weight. The idea is that of online softmax; see FuseMax
(arXiv 2406.10491), Flashlight (arXiv 2511.02043), Neptune (PLDI 2026), RedFuser (ASPLOS 2026).
"""

from dataclasses import dataclass

from tpu_inductor.errors import InvalidIR, Reject
from tpu_inductor.graph.constants import copy_constants
from tpu_inductor.graph.core import Eqn, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Factor, Factoring, factorise, flat
from tpu_inductor.streams.axis import AxisUse, NotStreamable, trace_axis
from tpu_inductor.streams.close import MERGES, close_axis
from tpu_inductor.streams.finish import Guarded, guard_tags
from tpu_inductor.streams.place import Places, place_equations
from tpu_inductor.streams.repair import Repair
from tpu_inductor.streams.rewrite import Rewriter


@dataclass(frozen=True, slots=True)
class Carry:
    """The result of equation `eqn` of a stream, which is kept from block to block.

    What is kept is repaired, then merged with the block's result by the primitive `merge`. It
    starts as what `merge` leaves alone: 0, 1, an infinity, a truth.
    """

    eqn: int
    merge: str
    repair: Repair | None


@dataclass(frozen=True, slots=True)
class Stream:
    """A region as one pass over blocks of `axis`, whose factors are those of `factoring`.

    `before` are the indices of equations that run once, `body` of those that run for every block,
    tags first, and `finish` of those that run after the last, when every carry is complete. In the
    body the result of a carry stands for what is kept, merged; its tags' old values are those after
    the block before, or at the first those that follow from the carries' starting values.
    """

    eqns: tuple[Eqn, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    factoring: Factoring
    axis: frozenset[Factor]
    carries: tuple[Carry, ...]
    before: tuple[int, ...]
    body: tuple[int, ...]
    finish: tuple[int, ...]

    def __str__(self) -> str:
        carries = {c.eqn: c for c in self.carries}
        lines = [f"stream along {', '.join(map(str, sorted(self.axis, key=lambda f: f.id)))}"]
        for name in ("before", "body", "finish"):
            lines += [f"  {name}"] if getattr(self, name) else []
            for i in getattr(self, name):
                lines.append(f"    {self.eqns[i]}")
                if i in carries:
                    lines.append(f"      keep {carries[i].merge}")
                    text = str(carries[i].repair or "").rstrip().splitlines()
                    lines += [f"      {line}" for line in text]
        return "\n".join(lines) + f"\n  return {', '.join(map(str, self.outputs))}\n"


def stream_rows(
    eqns: tuple[Eqn, ...], inputs: tuple[Var, ...], outputs: tuple[Var, ...]
) -> Stream | Reject:
    """The region from `inputs` to `outputs` as a stream along the axes that it reduces."""
    eqns = copy_constants(eqns, inputs)
    factoring = factorise(eqns, FACTOR_RULES)
    if isinstance(factoring, Reject):
        return factoring
    return find_stream(eqns, inputs, outputs, factoring, streamed_factors(eqns, factoring))


def streamed_factors(eqns: tuple[Eqn, ...], factoring: Factoring) -> frozenset[Factor]:
    """The axes along which to stream: those that reductions end, and those that a contraction ends
    in what another has made."""
    late: set[Value] = set()
    found = set(factoring.reduced)
    for i, eqn in enumerate(eqns):
        slots = [slot for slot, v in enumerate(eqn.inputs) if v in late]
        is_product = PRIMS[eqn.prim].kind is Kind.DOT
        if slots or is_product:
            late.update(eqn.outputs)
        if is_product:
            for slot in slots:
                found |= flat(factoring.of(eqns, i, slot)) - flat(factoring.values[eqn.out])
    return frozenset(found)


def find_stream(
    eqns: tuple[Eqn, ...],
    inputs: tuple[Var, ...],
    outputs: tuple[Var, ...],
    factoring: Factoring,
    axis: frozenset[Factor],
) -> Stream | Reject:
    """The region from `inputs` to `outputs` as a stream along `axis`, or what prevents it."""
    try:
        use = trace_axis(eqns, factoring, axis)
        rw = Rewriter.of(use, inputs)
        for i in range(len(eqns)):
            if i in use.closings:
                close_axis(rw, i)
            else:
                rw.copy(i)
        results = tuple(_result(use, rw, v) for v in outputs)
        guarded = guard_tags(rw, results, outputs)
    except NotStreamable as problem:
        return Reject(str(problem))
    return _stream(use, guarded, inputs, outputs)


def _result(use: AxisUse, rw: Rewriter, output: Var) -> Value:
    """An output in the new equations. One that has the axis may not depend on what closes it."""
    along = output in use.factoring.values and use.along(use.factoring.values[output])
    if not along:
        return rw.row(output)
    if output in use.late:
        raise NotStreamable(f"{output} has the axis and depends on the whole of it")
    return output if output in use.varying else rw.repeat(output)


def _stream(
    use: AxisUse, guarded: Guarded, inputs: tuple[Var, ...], outputs: tuple[Var, ...]
) -> Stream:
    eqns = guarded.eqns
    factoring = factorise(eqns, FACTOR_RULES)
    if isinstance(factoring, Reject):
        raise InvalidIR(f"a stream lost its axes: {factoring.reason}")
    closings = [i for i, eqn in enumerate(eqns) if eqn.out in guarded.closings]
    first = closings[0]
    along = guarded.closings[eqns[first].out]
    axis = frozenset(f for d in along for f in factoring.of(eqns, first, 0)[d])
    carries = tuple(
        Carry(i, MERGES[eqns[i].prim], guarded.repairs.get(eqns[i].out)) for i in closings
    )
    places: Places = place_equations(eqns, outputs, factoring, axis, closings)
    return Stream(
        eqns, inputs, outputs, factoring, axis, carries, places.before, places.body, places.finish
    )
