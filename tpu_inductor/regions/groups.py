"""Groups of equations that grow into regions, and the paths between them.

Only equations that compute are grouped. Views and creations are free: each group holds its own
copies of those between its equations and the values it reads (its closure), so that a mask or a
broadcast bias is never written to memory. `Flow` keeps, for every group, the set of equations it
reaches, as bits of a Python integer, so that "does this join close a cycle?" is a few operations.
"""

from dataclasses import dataclass, field

from tpu_inductor.graph.core import Eqn, Graph, Value, Var
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind


def is_free(eqn: Eqn) -> bool:
    """Whether the equation moves or makes values without computing: copies of it cost nothing."""
    return eqn.prim != EAGER and PRIMS[eqn.prim].kind in (Kind.VIEW, Kind.CREATE)


@dataclass(frozen=True, slots=True)
class Group:
    """Indices of the equations of one region to be: what it computes, and its free closure."""

    compute: frozenset[int]
    closure: frozenset[int]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(sorted(self.compute | self.closure))

    def __or__(self, other: "Group") -> "Group":
        return Group(self.compute | other.compute, self.closure | other.closure)


@dataclass(frozen=True, slots=True)
class Wiring:
    """Who defines and who reads each value of a graph, by equation index."""

    graph: Graph
    producer: dict[Var, int]
    readers: dict[Var, tuple[int, ...]]
    eager: tuple[int, ...]
    results: frozenset[Value]

    @staticmethod
    def of(graph: Graph) -> "Wiring":
        producer = {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
        readers: dict[Var, list[int]] = {}
        for i, eqn in enumerate(graph.eqns):
            for v in eqn.operands:
                readers.setdefault(v, []).append(i)
        eager = tuple(i for i, eqn in enumerate(graph.eqns) if eqn.prim == EAGER)
        return Wiring(
            graph,
            producer,
            {v: tuple(r) for v, r in readers.items()},
            eager,
            frozenset(graph.outputs),
        )

    def closure(self, index: int) -> frozenset[int]:
        """The free equations through which equation `index` reads its operands."""
        found: set[int] = set()
        todo = list(self.graph.eqns[index].operands)
        while todo:
            source = self.producer.get(todo.pop())
            if source is None or source in found or not is_free(self.graph.eqns[source]):
                continue
            found.add(source)
            todo.extend(self.graph.eqns[source].operands)
        return frozenset(found)

    def sources(self, index: int) -> frozenset[int]:
        """The computing equations that run before `index`: those whose values it reads, through
        free ones, and for an eager call the eager call before it (random numbers come in order).
        """
        free = self.closure(index)
        read = {v for i in (index, *free) for v in self.graph.eqns[i].operands}
        found = frozenset(self.producer[v] for v in read if v in self.producer) - free
        earlier = [i for i in self.eager if i < index] if index in self.eager else []
        return found | frozenset(earlier[-1:])

    def compute_readers(self, var: Var) -> frozenset[int]:
        """The computing equations that read `var`, through free ones."""
        found: set[int] = set()
        todo = [var]
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                eqn = self.graph.eqns[reader]
                if is_free(eqn):
                    todo.extend(eqn.outputs)
                else:
                    found.add(reader)
        return frozenset(found)

    def outputs(self, group: Group) -> tuple[Var, ...]:
        """The computed values of `group` that something outside reads, in order."""
        made = [v for i in sorted(group.compute) for v in self.graph.eqns[i].outputs]
        return tuple(v for v in made if self._escapes(v, group))

    def _escapes(self, var: Var, group: Group) -> bool:
        """Whether the graph's caller or another group reads `var`, itself or through free ones."""
        todo = [var]
        while todo:
            value = todo.pop()
            if value in self.results:
                return True
            for reader in self.readers.get(value, ()):
                if is_free(self.graph.eqns[reader]):
                    todo.extend(self.graph.eqns[reader].outputs)
                elif reader not in group.compute:
                    return True
        return False


@dataclass(slots=True)
class Flow:
    """Reachability between groups while they merge. `leader[i]` names the group of equation i."""

    leader: dict[int, int]
    members: dict[int, int]
    after: dict[int, int]
    next: dict[int, set[int]] = field(default_factory=dict[int, set[int]])

    @staticmethod
    def of(wiring: Wiring) -> "Flow":
        """Every computing equation as its own group."""
        nodes = [i for i, e in enumerate(wiring.graph.eqns) if not is_free(e)]
        flow = Flow({i: i for i in nodes}, {i: 1 << i for i in nodes}, dict.fromkeys(nodes, 0))
        for i in nodes:
            for source in wiring.sources(i):
                flow.next.setdefault(source, set()).add(i)
        for i in reversed(nodes):
            for j in flow.next.get(i, ()):
                flow.after[i] |= flow.members[j] | flow.after[j]
        return flow

    def closes_cycle(self, a: int, b: int) -> bool:
        """Whether a path leads from one group to the other through a third."""
        return self._detour(a, b) or self._detour(b, a)

    def merge(self, a: int, b: int) -> int:
        """Makes two groups one, named `a`."""
        for i, leader in self.leader.items():
            if leader == b:
                self.leader[i] = a
        self.members[a] |= self.members.pop(b)
        self.next[a] = (self.next.get(a, set()) | self.next.pop(b, set())) - {a, b}
        self.after[a] |= self.after.pop(b)
        self.after[a] &= ~self.members[a]
        for leader, reached in self.after.items():
            if reached & self.members[a]:
                self.after[leader] = reached | self.members[a] | self.after[a]
        return a

    def _detour(self, a: int, b: int) -> bool:
        for i in self.next.get(a, ()):
            step = self.leader[i]
            if step not in (a, b) and self.after[step] & self.members[b]:
                return True
        return False
