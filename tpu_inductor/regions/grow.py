"""Grows groups of equations into regions, each join checked by the join rules.

Joins are tried in three passes: every equation alone, then with the producers of its operands
(a matmul first, so that bias, activation and residual become its epilogue), then siblings that read the
same tensor over the same axes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Graph, Var
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Factoring, factorise
from tpu_inductor.regions.groups import Flow, Group, Wiring, is_free
from tpu_inductor.regions.mosaic import reject_for_mosaic
from tpu_inductor.regions.rules import JOIN_RULES, Proposal, flat
from tpu_inductor.target import TpuTarget

MAX_EQNS = 256
"""Regions beyond this size gain nothing and make compile time quadratic."""


@dataclass(slots=True)
class Growth:
    """The groups so far, by leader, and what was refused on the way."""

    groups: dict[int, Group] = field(default_factory=dict[int, Group])
    left: dict[int, str] = field(default_factory=dict[int, str])
    refused: dict[int, dict[str, None]] = field(default_factory=dict[int, dict[str, None]])
    failed: set[Group] = field(default_factory=set[Group])


@dataclass(frozen=True, slots=True)
class Grower:
    """Decides joins for one graph and target."""

    wiring: Wiring
    target: TpuTarget

    def grow(self) -> Growth:
        """Groups of the equations that become kernels, and why the others do not."""
        flow, growth = Flow.of(self.wiring), Growth()
        self._seed(growth)
        for i in sorted(growth.groups):
            for source in self._producers(i):
                self._join(flow, growth, flow.leader[source], flow.leader[i])
        for a, b in self._siblings():
            if flow.leader.get(a) != flow.leader.get(b):
                self._join(flow, growth, flow.leader[a], flow.leader[b], needs_shared=True)
        return growth

    def propose(self, group: Group) -> Factoring | Reject:
        """The factors of `group` as one kernel, or why it cannot be one."""
        eqns = self.eqns(group)
        if len(eqns) > MAX_EQNS:
            return Reject(f"a region of more than {MAX_EQNS} equations")
        factoring = factorise(eqns, FACTOR_RULES)
        if isinstance(factoring, Reject):
            return factoring
        proposal = Proposal(eqns, factoring, self.wiring.outputs(group), self.target)
        for rule in JOIN_RULES:
            refusal = rule(proposal)
            if refusal is not None:
                return refusal
        return factoring

    def eqns(self, group: Group) -> tuple[Eqn, ...]:
        return tuple(self._graph.eqns[i] for i in group.members)

    @property
    def _graph(self) -> Graph:
        return self.wiring.graph

    def _seed(self, growth: Growth) -> None:
        """Every equation that can be a kernel alone; its closure ends where factors would clash."""
        for i, eqn in enumerate(self._graph.eqns):
            if eqn.prim == EAGER or is_free(eqn):
                continue
            refusal: Reject | None = reject_for_mosaic(eqn)
            if refusal is None:
                for closure in (self._closure(i), frozenset[int]()):
                    group = Group(frozenset({i}), closure)
                    result = self.propose(group)
                    if not isinstance(result, Reject):
                        growth.groups[i] = group
                        break
                    refusal = result
            if i not in growth.groups and refusal is not None:
                growth.left[i] = refusal.reason

    def _closure(self, index: int) -> frozenset[int]:
        """The free equations before `index` whose types a kernel can hold."""
        found: set[int] = set()
        todo = list(self._graph.eqns[index].operands)
        while todo:
            source = self.wiring.producer.get(todo.pop())
            if source is None or source in found:
                continue
            eqn = self._graph.eqns[source]
            if is_free(eqn) and reject_for_mosaic(eqn) is None:
                found.add(source)
                todo.extend(eqn.operands)
        return frozenset(found)

    def _producers(self, index: int) -> list[int]:
        """The computing equations that `index` reads, matmuls first, then the latest."""
        sources = self.wiring.sources(index)
        is_dot = {s: PRIMS.get(self._graph.eqns[s].prim, None) for s in sources}
        return sorted(
            sources, key=lambda s: (getattr(is_dot[s], "kind", None) is not Kind.DOT, -s)
        )

    def _siblings(self) -> Iterator[tuple[int, int]]:
        """Pairs of computing equations that read one value, next neighbours first."""
        for readers in self._readers().values():
            yield from zip(readers, readers[1:], strict=False)

    def _readers(self) -> dict[Var, list[int]]:
        """The computing equations that read each value that is not free, through free ones."""
        readers: dict[Var, list[int]] = {}
        for i, eqn in enumerate(self._graph.eqns):
            if is_free(eqn):
                continue
            free = self.wiring.closure(i)
            read = {v for j in (i, *free) for v in self._graph.eqns[j].operands}
            for v in read:
                if self.wiring.producer.get(v) not in free:
                    readers.setdefault(v, []).append(i)
        return readers

    def _join(
        self, flow: Flow, growth: Growth, a: int, b: int, needs_shared: bool = False
    ) -> None:
        if a == b or a not in growth.groups or b not in growth.groups:
            return
        group = growth.groups[a] | growth.groups[b]
        if group in growth.failed:
            return
        result = self._try(flow, group, a, b, needs_shared)
        if isinstance(result, Reject):
            growth.failed.add(group)
            growth.refused.setdefault(b, {})[f"{self._name(a)}: {result.reason}"] = None
            return
        kept = flow.merge(a, b)
        growth.groups[kept] = group
        del growth.groups[b]
        growth.refused[kept] = growth.refused.pop(a, {}) | growth.refused.pop(b, {})

    def _try(
        self, flow: Flow, group: Group, a: int, b: int, needs_shared: bool
    ) -> Factoring | Reject:
        if flow.closes_cycle(a, b):
            return Reject("it would close a cycle")
        result = self.propose(group)
        if not isinstance(result, Reject) and needs_shared and not self._shares(group, result):
            return Reject("they read no tensor over the same axes")
        return result

    def _shares(self, group: Group, factoring: Factoring) -> bool:
        """Whether some outer value is read twice, over every axis, and both readings are one."""
        eqns = self.eqns(group)
        seen: set[tuple[object, object]] = set()
        for access, dims in factoring.accesses.items():
            key = (eqns[access.eqn].inputs[access.slot], dims)
            if key in seen and flat(dims) == factoring.factors:
                return True
            seen.add(key)
        return False

    def _name(self, leader: int) -> str:
        return self._graph.eqns[leader].outputs[0].name
