"""Grows groups of equations into regions, the most profitable join first.

A join is worth the memory traffic that it saves: a value that then stays inside a kernel is neither
written nor read, one that two members read is read once. Every join is checked by the join rules.

    h = mm + x; sq = h * h; ms = mean(sq); y = h * rsqrt(ms)
    --> {mm, h} saves mm twice;  {sq, ms} saves sq twice;  {sq, ms, y} reads h once
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import EAGER
from tpu_inductor.regions.chains import find_chains
from tpu_inductor.regions.factors import Factoring, Unifier
from tpu_inductor.regions.flow import Flow
from tpu_inductor.regions.groups import Group, build_group, factoring_of
from tpu_inductor.regions.mosaic import reject_for_mosaic
from tpu_inductor.regions.proposal import Context, Proposal, find_boundary, join_groups
from tpu_inductor.regions.rules import JOIN_RULES, STREAM_RULES, LongRows
from tpu_inductor.regions.seeds import Form, Seed, form_of
from tpu_inductor.regions.wiring import Wiring
from tpu_inductor.target import TpuTarget


@dataclass(slots=True)
class Growth:
    """The groups so far, by leader, and what was refused on the way.

    Pairs that are `waiting` are tried again when one of them has grown.
    """

    flow: Flow
    groups: dict[int, Group] = field(default_factory=dict[int, Group])
    left: dict[int, str] = field(default_factory=dict[int, str])
    refused: dict[int, dict[str, None]] = field(default_factory=dict[int, dict[str, None]])
    failed: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    waiting: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])


@dataclass(frozen=True, slots=True)
class Grower:
    """Decides joins for one graph and target."""

    context: Context
    versions: Iterator[int] = field(default_factory=itertools.count)
    seeds: dict[Form, Seed] = field(default_factory=dict[Form, Seed])

    @staticmethod
    def of(wiring: Wiring, target: TpuTarget) -> "Grower":
        return Grower(Context(wiring, target, Unifier()))

    def grow(self) -> Growth:
        """Groups of the equations that become kernels, and why the others do not."""
        growth = Growth(Flow.of(self.context.wiring))
        self._seed(growth)
        queue = [(-self._saved(growth, a, b), a, b) for a, b in self._pairs(growth)]
        heapq.heapify(queue)
        while queue:
            score, i, j = heapq.heappop(queue)
            a, b = growth.flow.leader(i), growth.flow.leader(j)
            if a == b:
                continue
            now = -self._saved(growth, a, b)
            if now > score:
                heapq.heappush(queue, (now, i, j))
            elif now < 0:
                for pair in self._join(growth, a, b):
                    heapq.heappush(queue, (-self._saved(growth, *pair), *pair))
        return growth

    def factoring(self, group: Group) -> Factoring:
        """The axes of a group, as a region has them."""
        return factoring_of(self.context.wiring, self.context.unifier, group)

    # -- one equation alone -------------------------------------------------------
    def _seed(self, growth: Growth) -> None:
        """Every chain that streams, and every other equation that can be a kernel alone."""
        wiring = self.context.wiring
        taken: set[int] = set()
        for chain in find_chains(wiring):
            if taken.isdisjoint(chain) and self._seed_chain(growth, chain):
                taken |= chain
        for i, eqn in enumerate(wiring.graph.eqns):
            if eqn.prim == EAGER or wiring.free[i] or i in taken:
                continue
            refusal = reject_for_mosaic(eqn)
            seed = self._alone(i) if refusal is None else refusal
            if isinstance(seed, Reject):
                growth.left[i] = seed.reason
            else:
                growth.groups[i] = seed

    def _seed_chain(self, growth: Growth, chain: frozenset[int]) -> bool:
        """Makes a chain a group, if it streams."""
        first, *others = sorted(chain)
        closure = frozenset[int]().union(
            *(self._closure(v) for i in chain for v in self.context.wiring.graph.eqns[i].operands)
        )
        mark = self.context.unifier.mark()
        found = build_group(self.context.wiring, self.context.unifier, chain, closure)
        if isinstance(found, Group):
            found.streams = True
            found = self._judge(Proposal.alone(self.context, found))
        flow = growth.flow
        if isinstance(found, Proposal) and flow.can_merge(chain):
            for i in others:
                flow.merge(first, i)
            growth.groups[first] = self._accept(found)
            return True
        self.context.unifier.undo(mark)
        if isinstance(found, Reject):
            growth.refused.setdefault(max(chain), {})[found.reason] = None
        return False

    def _alone(self, index: int) -> Group | Reject:
        """The equation with as much of its closure as leaves its axes whole.

        A view that would break an axis apart is left to XLA: first on one operand, then on all.
        """
        wiring, unifier = self.context.wiring, self.context.unifier
        chains = [self._closure(v) for v in wiring.graph.eqns[index].operands]
        every = frozenset[int]().union(*chains)
        order = (*sorted(every), index)
        form = form_of(wiring, order)
        if form in self.seeds:
            group = self.seeds[form].plant(wiring, unifier, order)
            group.version = next(self.versions)
            return group
        found = self._alone_with(index, every, chains)
        if isinstance(found, Group):
            self.seeds[form] = Seed.of(found, wiring, order)
        return found

    def _alone_with(
        self, index: int, every: frozenset[int], chains: list[frozenset[int]]
    ) -> Group | Reject:
        without = [every - chain for chain in chains if chain]
        refusal = Reject("no closure")
        for closure in dict.fromkeys([every, *without, frozenset[int]()]):
            mark = self.context.unifier.mark()
            found = build_group(self.context.wiring, self.context.unifier, {index}, closure)
            if isinstance(found, Group):
                found = self._judge(Proposal.alone(self.context, found))
            if isinstance(found, Proposal):
                return self._accept(found)
            self.context.unifier.undo(mark)
            refusal = found
        return refusal

    def _judge(self, proposal: Proposal) -> Proposal | Reject:
        rules = STREAM_RULES if proposal.streams else JOIN_RULES
        refusals = (rule(proposal) for rule in rules)
        return next((r for r in refusals if r is not None), proposal)

    def _accept(self, proposal: Proposal) -> Group:
        group = proposal.accept(next(self.versions))
        self.context.unifier.keep()
        return group

    def _closure(self, operand: Var) -> frozenset[int]:
        """The free equations behind `operand` whose types a kernel can hold."""
        wiring = self.context.wiring
        found: set[int] = set()
        todo = [operand]
        while todo:
            source = wiring.producer.get(todo.pop())
            if source is None or not wiring.free[source]:
                continue
            eqn = wiring.graph.eqns[source]
            if reject_for_mosaic(eqn) is None:
                found.add(source)
                todo.extend(eqn.operands)
        return frozenset(found)

    # -- what to join -------------------------------------------------------------
    def _pairs(self, growth: Growth) -> set[tuple[int, int]]:
        """Producers with consumers, and neighbouring readers of one value."""
        pairs: set[tuple[int, int]] = set()
        readers: dict[Var, list[int]] = {}
        for i, group in sorted(growth.groups.items()):
            for v in group.reads:
                made = self.context.wiring.producer.get(v)
                source = None if made is None else growth.flow.leader(made)
                if source in growth.groups:
                    pairs.add((source, i))
                readers.setdefault(v, []).append(i)
        for same in readers.values():
            pairs.update(itertools.pairwise(same))
        return pairs

    def _saved(self, growth: Growth, a: int, b: int) -> int:
        boundary = find_boundary(self.context.wiring, growth.groups[a], growth.groups[b])
        return boundary.saved_bytes

    def _join(self, growth: Growth, a: int, b: int) -> list[tuple[int, int]]:
        """Makes two groups one if the rules allow. Returns the pairs to try again."""
        one, other = growth.groups[a], growth.groups[b]
        versions = one.version, other.version
        if versions in growth.failed:
            return []
        mark = self.context.unifier.mark()
        found = self._try(growth, a, b)
        if isinstance(found, Reject):
            self.context.unifier.undo(mark)
            growth.failed.update((versions, (other.version, one.version)))
            growth.refused.setdefault(b, {})[f"{self._name(a)}: {found.reason}"] = None
            if isinstance(found, LongRows):
                growth.waiting.add((a, b))
            return []
        growth.flow.merge(a, b)
        growth.groups[a] = self._accept(found)
        del growth.groups[b]
        growth.refused[a] = growth.refused.pop(a, {}) | growth.refused.pop(b, {})
        return self._awake(growth, a)

    def _awake(self, growth: Growth, grown: int) -> list[tuple[int, int]]:
        """The waiting pairs of which one has become part of the group `grown`."""
        of = growth.flow.leader
        found = [pair for pair in growth.waiting if grown in map(of, pair)]
        growth.waiting.difference_update(found)
        now = ((of(i), of(j)) for i, j in sorted(found))
        return [(a, b) for a, b in now if a != b]

    def _try(self, growth: Growth, a: int, b: int) -> Proposal | Reject:
        if growth.flow.closes_cycle(a, b):
            return Reject("it would close a cycle")
        joined = join_groups(self.context, growth.groups[a], growth.groups[b])
        found = joined if isinstance(joined, Reject) else self._judge(joined)
        if isinstance(found, Reject) or found.flows:
            return found
        if found.facts.dots:
            return Reject("a matmul is joined by what it feeds alone")
        if not found.shares():
            return Reject("they read no tensor over the same axes")
        return found

    def _name(self, leader: int) -> str:
        return self.context.wiring.graph.eqns[leader].outputs[0].name
