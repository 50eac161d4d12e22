"""Who makes and who reads each value of a graph, straight or through views.

Only equations that compute are grouped. Views, creations and masks of positions are free: each
group holds its own copies of those between its equations and the values it reads (its closure), so
that a mask or a broadcast bias is never written to memory. A view has one operand, so behind every
value lies one base: the value that it is a view of, however many views there are between.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn, Graph, Value, Var
from tpu_inductor.graph.prims import COMPARE, EAGER, PRIMS, Kind

CHEAP = frozenset(
    [
        "add",
        "sub",
        "mul",
        "neg",
        "abs",
        "min",
        "max",
        "and",
        "or",
        "not",
        "convert",
        "select",
        *COMPARE,
    ]
)
"""What a kernel rather computes again from positions than reads."""


def is_free(eqn: Eqn) -> bool:
    """Whether the equation moves or makes values without computing: copies of it cost nothing."""
    return eqn.prim != EAGER and PRIMS[eqn.prim].kind in (Kind.VIEW, Kind.CREATE)


@dataclass(frozen=True, slots=True)
class Wiring:
    """A graph with its edges, by equation index.

    `readers` are those that read a value itself. `bases[i]` are the bases of what equation i reads,
    `users` the computing equations that read a base, through views or not. `results` are values
    that the graph returns, `returned` their bases.
    """

    graph: Graph
    free: tuple[bool, ...]
    producer: dict[Var, int]
    readers: dict[Var, tuple[int, ...]]
    bases: tuple[tuple[Var, ...], ...]
    users: dict[Var, tuple[int, ...]]
    results: frozenset[Value]
    returned: frozenset[Var]
    eager_before: dict[int, int]

    @staticmethod
    def of(graph: Graph) -> "Wiring":
        free = _find_free(graph)
        producer = {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
        base = _find_bases(graph, free)
        bases = tuple(_unique(base[v] for v in eqn.operands if v in base) for eqn in graph.eqns)
        readers: dict[Var, list[int]] = {}
        users: dict[Var, list[int]] = {}
        for i, eqn in enumerate(graph.eqns):
            for v in eqn.operands:
                readers.setdefault(v, []).append(i)
            for v in () if free[i] else bases[i]:
                users.setdefault(v, []).append(i)
        eager = [i for i, eqn in enumerate(graph.eqns) if eqn.prim == EAGER]
        return Wiring(
            graph,
            free,
            producer,
            {v: tuple(r) for v, r in readers.items()},
            bases,
            {v: tuple(r) for v, r in users.items()},
            frozenset(graph.outputs),
            frozenset(base[v] for v in graph.outputs if isinstance(v, Var) and v in base),
            dict(zip(eager[1:], eager, strict=False)),
        )

    def sources(self, index: int) -> set[int]:
        """The computing equations that run before `index`: those whose values it reads, through
        free ones, and for an eager call the eager call before it (random numbers come in order).
        """
        found = {self.producer[v] for v in self.bases[index] if v in self.producer}
        return found | ({self.eager_before[index]} if index in self.eager_before else set())

    def outputs(self, members: Iterable[int]) -> tuple[Var, ...]:
        """The computed values of these equations that something outside reads, in order."""
        compute = {i for i in members if not self.free[i]}
        made = [v for i in sorted(compute) for v in self.graph.eqns[i].outputs]
        return tuple(
            v for v in made if v in self.returned or not compute.issuperset(self.users.get(v, ()))
        )


def _find_free(graph: Graph) -> tuple[bool, ...]:
    """Views and creations, and what is made cheaply of creations alone: masks of positions."""
    made: set[Var] = set()
    free: list[bool] = []
    for eqn in graph.eqns:
        is_moved = is_free(eqn)
        is_made = (is_moved or eqn.prim in CHEAP) and made.issuperset(eqn.operands)
        if is_made:
            made.update(eqn.outputs)
        free.append(is_moved or is_made)
    return tuple(free)


def _find_bases(graph: Graph, free: tuple[bool, ...]) -> dict[Var, Var]:
    """The base of every value; none behind a created one."""
    base = {v: v for v in graph.inputs}
    for is_view, eqn in zip(free, graph.eqns, strict=True):
        for out in eqn.outputs:
            if not is_view:
                base[out] = out
            elif eqn.operands and eqn.operands[0] in base:
                base[out] = base[eqn.operands[0]]
    return base


def _unique(values: Iterable[Var]) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(values))
