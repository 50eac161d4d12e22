"""Partitions a graph: groups become pallas regions, the rest XLA or eager, in runnable order.

graph --> segments of regions; everything between two eager calls is one segment
"""

import heapq
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.attrs import EagerCall
from tpu_inductor.graph.core import Eqn, Graph, Var
from tpu_inductor.graph.prims import EAGER
from tpu_inductor.regions.factors import Factoring
from tpu_inductor.regions.groups import Group
from tpu_inductor.regions.grow import Grower
from tpu_inductor.regions.neighbours import find_losers
from tpu_inductor.regions.proposal import Proposal
from tpu_inductor.regions.recompute import copy_shared_chains
from tpu_inductor.regions.region import Partition, Region, Rows, Segment, Tier
from tpu_inductor.regions.rules import rows_of
from tpu_inductor.regions.wiring import Wiring, is_free
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class _Node:
    """A region before its boundary is known: equation indices in order."""

    tier: Tier
    members: tuple[int, ...]
    factoring: Factoring | None = None
    rows: Rows = Rows.PASSED
    reason: str = ""
    refused: tuple[str, ...] = ()


def partition_regions(graph: Graph, target: TpuTarget, *, prefer: str = "auto") -> Partition:
    """Decides what becomes a kernel and in which order everything runs.

    `prefer` "xla" makes no kernels, "pallas" makes them also where XLA does as well.
    """
    graph = graph if prefer == "xla" else copy_shared_chains(graph)
    wiring = Wiring.of(graph)
    nodes = _nodes(wiring, target, prefer)
    ordered = _with_levels(wiring, nodes)
    return Partition(graph, _segments(wiring, ordered))


def _nodes(wiring: Wiring, target: TpuTarget, prefer: str) -> list[_Node]:
    grower = Grower.of(wiring, target)
    growth = grower.grow()
    left = growth.left | _left_to_xla(wiring, target, growth.groups, prefer)
    chosen = [
        (leader, group)
        for leader, group in sorted(growth.groups.items())
        if left.keys().isdisjoint(group.compute)
    ]
    nodes: list[_Node] = []
    taken: set[int] = set()
    for leader, group in chosen:
        taken |= group.compute
        refused = tuple(growth.refused.get(leader, {}))
        members, factoring = tuple(sorted(group.members)), grower.factoring(group)
        rows = rows_of(Proposal.alone(grower.context, group))
        nodes.append(_Node(Tier.PALLAS, members, factoring, rows, refused=refused))
    nodes += [
        _single(i, eqn, left)
        for i, eqn in enumerate(wiring.graph.eqns)
        if i not in taken and not wiring.free[i]
    ]
    return nodes + _needed_views(wiring, nodes)


def _left_to_xla(
    wiring: Wiring, target: TpuTarget, groups: Mapping[int, Group], prefer: str
) -> dict[int, str]:
    """The equations of groups that XLA should run, with the reason."""
    eqns = wiring.graph.eqns
    reasons = {
        leader: _reason_for_xla([eqns[i] for i in group.members], prefer)
        for leader, group in groups.items()
    }
    if prefer == "auto":
        kernels = {k: g.members for k, g in groups.items() if not reasons[k]}
        reasons |= find_losers(wiring, kernels, target)
    return {i: reason for k, reason in reasons.items() if reason for i in groups[k].compute}


def _reason_for_xla(eqns: Collection[Eqn], prefer: str) -> str:
    """Why a region that could be a kernel is left to XLA, if it is."""
    if prefer == "xla":
        return "options prefer XLA"
    defined = {v for e in eqns for v in e.outputs}
    if all(v in defined for e in eqns for v in e.operands):
        return "it reads no tensor"
    if prefer == "pallas":
        return ""
    work = [e for e in eqns if not is_free(e) and e.prim != "convert"]
    return "" if work else "a copy"


def _single(index: int, eqn: Eqn, left: dict[int, str]) -> _Node:
    if isinstance(eqn.attrs, EagerCall):
        return _Node(Tier.EAGER, (index,), reason=eqn.attrs.reason)
    return _Node(Tier.XLA, (index,), reason=left.get(index, ""))


def _needed_views(wiring: Wiring, nodes: list[_Node]) -> list[_Node]:
    """The free equations whose results somebody reads who does not hold a copy of them."""
    eqns = wiring.graph.eqns
    todo = [v for v in wiring.graph.outputs if isinstance(v, Var)]
    for node in nodes:
        inside = {v for i in node.members for v in eqns[i].outputs}
        todo += [v for i in node.members for v in eqns[i].operands if v not in inside]
    found: set[int] = set()
    while todo:
        source = wiring.producer.get(todo.pop())
        if source is not None and source not in found and wiring.free[source]:
            found.add(source)
            todo.extend(eqns[source].operands)
    return [_Node(Tier.XLA, (i,)) for i in sorted(found)]


def _with_levels(wiring: Wiring, nodes: list[_Node]) -> list[tuple[int, _Node]]:
    """Nodes in an order that respects every dependence, each with the number of its segment.

    Even levels are programs, odd ones eager. A node's level is the least that is not before its
    inputs', so eager calls that need no program run at level -1, before the first one.
    Eager calls keep their order, since torch's random numbers come in order.
    """
    before = _before(wiring, nodes)
    waiting = [len(b) for b in before]
    after: list[list[int]] = [[] for _ in nodes]
    for n, sources in enumerate(before):
        for source in sources:
            after[source].append(n)
    level: dict[int, int] = {}
    ready = [(nodes[n].members[0], n) for n, w in enumerate(waiting) if w == 0]
    heapq.heapify(ready)
    while ready:
        _, n = heapq.heappop(ready)
        least = max((level[s] for s in before[n]), default=-1)
        level[n] = least + ((least % 2 == 1) != (nodes[n].tier is Tier.EAGER))
        for m in after[n]:
            waiting[m] -= 1
            if waiting[m] == 0:
                heapq.heappush(ready, (nodes[m].members[0], m))
    if len(level) != len(nodes):
        raise InvalidIR("the joins of regions closed a cycle")
    return [(at, nodes[n]) for n, at in sorted(level.items(), key=lambda item: item[1])]


def _before(wiring: Wiring, nodes: list[_Node]) -> list[set[int]]:
    """The nodes that must run before each node."""
    owner = _owners(wiring, nodes)
    before = [
        {owner[v] for v in _reads(wiring, node) if v in owner} - {n} for n, node in enumerate(nodes)
    ]
    eager = [n for n, node in enumerate(nodes) if node.tier is Tier.EAGER]
    for earlier, later in itertools.pairwise(eager):
        before[later].add(earlier)
    return before


def _owners(wiring: Wiring, nodes: list[_Node]) -> dict[Var, int]:
    """Which node defines each value for the others."""
    return {v: n for n, node in enumerate(nodes) for v in _makes(wiring, node)}


def _makes(wiring: Wiring, node: _Node) -> tuple[Var, ...]:
    """The values that a node defines for others: not a kernel's private copies of views."""
    private = node.tier is Tier.PALLAS
    made = [i for i in node.members if not (private and wiring.free[i])]
    return tuple(v for i in made for v in wiring.graph.eqns[i].outputs)


def _reads(wiring: Wiring, node: _Node) -> tuple[Var, ...]:
    """The values that a node reads and does not define."""
    eqns = [wiring.graph.eqns[i] for i in node.members]
    inside = {v for e in eqns for v in e.outputs}
    return tuple(dict.fromkeys(v for e in eqns for v in e.operands if v not in inside))


def _segments(wiring: Wiring, ordered: list[tuple[int, _Node]]) -> tuple[Segment, ...]:
    """Consecutive nodes of one level as a segment; every eager call is a segment of its own."""
    runs: list[list[_Node]] = []
    last = -1
    for level, node in ordered:
        if level != last or node.tier is Tier.EAGER:
            runs.append([])
        runs[-1].append(node)
        last = level
    reads = [tuple(dict.fromkeys(v for n in run for v in _reads(wiring, n))) for run in runs]
    segments: list[Segment] = []
    names: dict[str, int] = {}
    results = {v for v in wiring.graph.outputs if isinstance(v, Var)}
    last_read = {v: r for r, some in enumerate(reads) for v in some}
    for r, run in enumerate(runs):
        inside = {v for node in run for v in _makes(wiring, node)}
        later = {v for v in inside if v in results or last_read.get(v, r) > r}
        regions = _regions(wiring, run, later, names)
        made = [v for region in regions for v in region.outputs]
        segments.append(
            Segment(
                regions,
                tuple(v for v in reads[r] if v not in inside),
                tuple(v for v in made if v in later),
            )
        )
    return tuple(segments)


def _regions(
    wiring: Wiring, run: list[_Node], later: set[Var], names: dict[str, int]
) -> tuple[Region, ...]:
    """The nodes of one run with their boundaries; neighbouring XLA nodes become one region."""
    merged: list[_Node] = []
    for node in run:
        if merged and node.tier is Tier.XLA and merged[-1].tier is Tier.XLA:
            merged[-1] = _merge(merged[-1], node)
        else:
            merged.append(node)
    eqns_of = [tuple(wiring.graph.eqns[i] for i in node.members) for node in merged]
    given = [_unique(_name(n.tier, e), names) for n, e in zip(merged, eqns_of, strict=True)]
    needed = set(later)
    regions: list[Region] = []
    for name, node, eqns in reversed(list(zip(given, merged, eqns_of, strict=True))):
        reads = _reads(wiring, node)
        outputs = tuple(v for v in _makes(wiring, node) if v in needed)
        needed.update(reads)
        regions.append(
            Region(
                name,
                node.tier,
                eqns,
                reads,
                outputs,
                node.factoring,
                node.rows,
                node.reason,
                node.refused,
            )
        )
    return tuple(reversed(regions))


def _merge(first: _Node, second: _Node) -> _Node:
    """Two XLA nodes as one, with the reasons of both."""
    reasons = dict.fromkeys((*first.reason.split("; "), *second.reason.split("; ")))
    reason = "; ".join(r for r in reasons if r)
    return _Node(Tier.XLA, first.members + second.members, reason=reason)


def _name(tier: Tier, eqns: tuple[Eqn, ...]) -> str:
    """A region's name: its operators, in order, without repetition."""
    return ("xla_" if tier is Tier.XLA else "") + _joined_ops(eqns)


def _unique(name: str, names: dict[str, int]) -> str:
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}.{names[name]}"


def _joined_ops(eqns: tuple[Eqn, ...]) -> str:
    work = [e for e in eqns if e.prim == EAGER or not is_free(e)]
    ops = dict.fromkeys(e.origin.op.split(".")[1] if "." in e.origin.op else e.prim for e in work)
    words = [op.strip("_") for op in ops]
    return "_".join(words[:4] + (["etc"] if len(words) > 4 else []))
