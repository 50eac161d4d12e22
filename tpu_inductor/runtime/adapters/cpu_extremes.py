"""Whether a program needs maxima and minima that spread NaN.

XLA:CPU hands reductions, with the pointwise operations before them, to a library whose maxima
skip NaN. torch's do not. A softmax may use it still: NaN minus any maximum is NaN, and the sum
spreads it.
"""

from collections.abc import Iterable, Mapping

from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind

EXTREMES = frozenset(
    ("max", "min", "reduce_max", "reduce_min", "argmax", "argmin", "cummax", "cummin")
)


def spreads_nan(eqns: Iterable[Eqn], results: Iterable[Value]) -> bool:
    """Whether some float maximum or minimum among `eqns` must not skip NaN."""
    members = tuple(eqns)
    readers: dict[Value, list[Eqn]] = {}
    for eqn in members:
        for v in eqn.operands:
            readers.setdefault(v, []).append(eqn)
    made: dict[Value, Eqn] = {v: eqn for eqn in members for v in eqn.outputs}
    returned = frozenset(results)
    return any(
        eqn.prim in EXTREMES
        and eqn.inputs[0].type.dtype.is_float
        and not _is_of_softmax(eqn, readers, made, returned)
        for eqn in members
    )


def _is_of_softmax(
    eqn: Eqn,
    readers: Mapping[Value, list[Eqn]],
    made: Mapping[Value, Eqn],
    returned: frozenset[Value],
) -> bool:
    """Whether what depends on a row maximum is x - max, exp of that, and what their sum joins."""
    if eqn.prim != "reduce_max":
        return False
    shifted = _readers_through_views(eqn.out, readers, returned)
    if shifted is None or not all(
        s.prim == "sub" and s.inputs[0] is eqn.inputs[0] for s in shifted
    ):
        return False
    for sub in shifted:
        exps = _readers_through_views(sub.out, readers, returned)
        if exps is None or not all(e.prim == "exp" or _joins_sum(e, made) for e in exps):
            return False
        for exp in (e for e in exps if e.prim == "exp"):
            ends = _readers_through_views(exp.out, readers, returned)
            if ends is None or not all(e.prim == "reduce_sum" or _joins_sum(e, made) for e in ends):
                return False
    return True


def _joins_sum(eqn: Eqn, made: Mapping[Value, Eqn]) -> bool:
    """Whether it is a division by a sum, or takes the logarithm of one away."""
    if eqn.prim not in ("div", "sub"):
        return False
    source = _source(eqn.inputs[1], made)
    if source is not None and eqn.prim == "sub" and source.prim == "log":
        source = _source(source.inputs[0], made)
    return source is not None and source.prim == "reduce_sum"


def _source(value: Value, made: Mapping[Value, Eqn]) -> Eqn | None:
    """The equation behind the views of `value`."""
    eqn = None if isinstance(value, Lit) else made.get(value)
    while eqn is not None and PRIMS[eqn.prim].kind is Kind.VIEW:
        eqn = made.get(eqn.inputs[0])
    return eqn


def _readers_through_views(
    var: Var, readers: Mapping[Value, list[Eqn]], returned: frozenset[Value]
) -> list[Eqn] | None:
    """Who computes with `var`; None if it leaves the program, or nobody does."""
    found: list[Eqn] = []
    todo = [var]
    while todo:
        value = todo.pop()
        if value in returned:
            return None
        for eqn in readers.get(value, []):
            if PRIMS[eqn.prim].kind is Kind.VIEW:
                todo += eqn.outputs
            else:
                found.append(eqn)
    return found or None
