"""Makes a graph smaller without changing a bit of its results.

One pass forwards rewrites each equation (see `rewrites`) and reuses equal ones; one pass backwards
drops what nothing reads. Eager calls are neither rewritten nor shared.
"""

from collections.abc import Hashable
from dataclasses import replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import CHECK, EAGER
from tpu_inductor.graph.rewrites import REWRITES, Makers


def simplify(graph: Graph) -> Graph:
    """The same function of the same inputs, in fewer equations."""
    return drop_dead(_rewrite(graph))


def _rewrite(graph: Graph) -> Graph:
    renamed: dict[Var, Value] = {}
    makers: dict[Var, Eqn] = {}
    seen: dict[Hashable, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if not renamed.keys().isdisjoint(eqn.operands):
            eqn = replace(eqn, inputs=tuple(_renamed(renamed, v) for v in eqn.inputs))
        new = eqn if eqn.prim == EAGER else _rewrite_eqn(eqn, makers)
        if not isinstance(new, Eqn):
            renamed[eqn.out] = new
            continue
        twin = seen.setdefault(_key(new), new)
        if twin is not new:
            renamed.update(zip(new.outputs, twin.outputs, strict=True))
            continue
        makers.update(dict.fromkeys(new.outputs, new))
        eqns.append(new)
    outputs = tuple(_renamed(renamed, v) for v in graph.outputs)
    return replace(graph, eqns=tuple(eqns), outputs=outputs)


def _renamed(renamed: dict[Var, Value], value: Value) -> Value:
    return renamed.get(value, value) if isinstance(value, Var) else value


def _rewrite_eqn(eqn: Eqn, makers: Makers) -> Value | Eqn:
    """Applies rewrites until none applies; each one shortens the chain behind `eqn`."""
    for rewrite in REWRITES:
        new = rewrite(eqn, makers)
        if isinstance(new, Eqn):
            return _rewrite_eqn(new, makers)
        if new is not None:
            return new
    return eqn


def _key(eqn: Eqn) -> Hashable:
    """Equal for equations that compute the same. Constants go by text, as 0.0 == -0.0."""
    if eqn.prim == EAGER:
        return eqn.outputs
    inputs = tuple((repr(v.value), v.dtype) if isinstance(v, Lit) else v for v in eqn.inputs)
    value = repr(eqn.attrs.value) if isinstance(eqn.attrs, A.Full) else ""
    return eqn.prim, inputs, eqn.attrs, value


def drop_dead(graph: Graph) -> Graph:
    """The graph without equations whose results nothing reads, but with every effect."""
    live = {v for v in graph.outputs if isinstance(v, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        if has_effect(eqn) or not live.isdisjoint(eqn.outputs):
            kept.append(eqn)
            live.update(eqn.operands)
    return replace(graph, eqns=tuple(reversed(kept)))


def has_effect(eqn: Eqn) -> bool:
    """Whether running the equation is visible beyond its results.

    So are checks, which raise, and calls that write an operand or draw random numbers, calls
    without results, and higher-order or opaque calls, which may do any of it.
    """
    if not isinstance(eqn.attrs, A.EagerCall):
        return eqn.prim == CHECK
    schema = getattr(eqn.attrs.target, "_schema", None)
    tags = {tag.name for tag in getattr(eqn.attrs.target, "tags", ())}
    random = "nondeterministic_seeded" in tags
    return schema is None or schema.is_mutable or random or not eqn.outputs
