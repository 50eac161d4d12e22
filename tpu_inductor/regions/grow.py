"""Grows groups of equations into regions, the most profitable join first.

A join is worth the memory traffic that it saves: a value that then stays inside a kernel is neither
written nor read, one that two members read is read once. Every join is checked by the join rules.

    h = mm + x; sq = h * h; ms = mean(sq); y = h * rsqrt(ms)
    --> {mm, h} saves mm twice;  {sq, ms} saves sq twice;  {sq, ms, y} reads h once
"""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Var
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

    flow: Flow
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
        growth = Growth(Flow.of(self.wiring))
        self._seed(growth)
        queue = [(-self._saved(growth, a, b), a, b) for a, b in self._pairs(growth)]
        heapq.heapify(queue)
        while queue:
            score, i, j = heapq.heappop(queue)
            a, b = growth.flow.leader[i], growth.flow.leader[j]
            if a == b:
                continue
            now = -self._saved(growth, a, b)
            if now > score:
                heapq.heappush(queue, (now, i, j))
            elif now < 0:
                self._join(growth, a, b)
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
        return tuple(self.wiring.graph.eqns[i] for i in group.members)

    # -- one equation alone -------------------------------------------------------
    def _seed(self, growth: Growth) -> None:
        """Every equation that can be a kernel alone."""
        for i, eqn in enumerate(self.wiring.graph.eqns):
            if eqn.prim == EAGER or is_free(eqn):
                continue
            refusal = reject_for_mosaic(eqn)
            seed = self._alone(i) if refusal is None else refusal
            if isinstance(seed, Reject):
                growth.left[i] = seed.reason
            else:
                growth.groups[i] = seed

    def _alone(self, index: int) -> Group | Reject:
        """The equation with as much of its closure as leaves its axes whole.

        A view that would break an axis apart is left to XLA: first on one operand, then on all.
        """
        chains = [self._closure(v) for v in self.wiring.graph.eqns[index].operands]
        every = frozenset[int]().union(*chains)
        without = [every - chain for chain in chains if chain]
        refusal = Reject("no closure")
        for closure in dict.fromkeys([every, *without, frozenset[int]()]):
            group = Group(frozenset({index}), closure)
            result = self.propose(group)
            if not isinstance(result, Reject):
                return group
            refusal = result
        return refusal

    def _closure(self, operand: Var) -> frozenset[int]:
        """The free equations behind `operand` whose types a kernel can hold."""
        found: set[int] = set()
        todo = [operand]
        while todo:
            source = self.wiring.producer.get(todo.pop())
            if source is None or source in found:
                continue
            eqn = self.wiring.graph.eqns[source]
            if is_free(eqn) and reject_for_mosaic(eqn) is None:
                found.add(source)
                todo.extend(eqn.operands)
        return frozenset(found)

    # -- what to join -------------------------------------------------------------
    def _pairs(self, growth: Growth) -> set[tuple[int, int]]:
        """Producers with consumers, and neighbouring readers of one value."""
        pairs: set[tuple[int, int]] = set()
        readers: dict[Var, list[int]] = {}
        for i, group in sorted(growth.groups.items()):
            for v in self._reads(group):
                source = self.wiring.producer.get(v)
                if source in growth.groups:
                    pairs.add((source, i))
                readers.setdefault(v, []).append(i)
        for same in readers.values():
            pairs.update(itertools.pairwise(same))
        return pairs

    def _reads(self, group: Group) -> set[Var]:
        eqns = self.eqns(group)
        inside = {v for e in eqns for v in e.outputs}
        return {v for e in eqns for v in e.operands} - inside

    def _saved(self, growth: Growth, a: int, b: int) -> int:
        """Bytes that need not be moved if the two groups were one."""
        first, second = growth.groups[a], growth.groups[b]
        reads, others = self._reads(first), self._reads(second)
        shared = sum(v.type.nbytes for v in reads & others)
        together = first | second
        left = set(self.wiring.outputs(together))
        for v in (*self.wiring.outputs(first), *self.wiring.outputs(second)):
            crosses = v in reads or v in others
            shared += v.type.nbytes * (crosses + (v not in left))
        return shared

    def _join(self, growth: Growth, a: int, b: int) -> None:
        group = growth.groups[a] | growth.groups[b]
        if group in growth.failed:
            return
        result = self._try(growth, group, a, b)
        if isinstance(result, Reject):
            growth.failed.add(group)
            growth.refused.setdefault(b, {})[f"{self._name(a)}: {result.reason}"] = None
            return
        kept = growth.flow.merge(a, b)
        growth.groups[kept] = group
        del growth.groups[b]
        growth.refused[kept] = growth.refused.pop(a, {}) | growth.refused.pop(b, {})

    def _try(self, growth: Growth, group: Group, a: int, b: int) -> Factoring | Reject:
        if growth.flow.closes_cycle(a, b):
            return Reject("it would close a cycle")
        result = self.propose(group)
        if isinstance(result, Reject) or self._flows(growth.groups[a], growth.groups[b]):
            return result
        if any(PRIMS[e.prim].kind is Kind.DOT for e in self.eqns(group)):
            return Reject("a matmul is joined by what it feeds alone")
        if not self._shares(group, result):
            return Reject("they read no tensor over the same axes")
        return result

    def _flows(self, a: Group, b: Group) -> bool:
        """Whether one group reads what the other makes."""
        return bool(
            self._reads(a).intersection(self._made(b)) or self._reads(b).intersection(self._made(a))
        )

    def _made(self, group: Group) -> Iterable[Var]:
        return [v for i in group.compute for v in self.wiring.graph.eqns[i].outputs]

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
        return self.wiring.graph.eqns[leader].outputs[0].name
