"""Which groups run before which, while they merge.

The groups are a graph without cycles, kept in a topological order, so that "does this join close a
cycle?" and the order after it concern only what lies between the two groups (Pearce and Kelly,
"A dynamic topological sort algorithm for directed acyclic graphs", 2006).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tpu_inductor.regions.wiring import Wiring

Edges = dict[int, set[int]]


@dataclass(slots=True)
class Flow:
    """The order of groups, which are named by one of their equations, their leader.

    `place` has the position of each leader; `after` and `before` its neighbours, possibly by names
    that they had before they were merged.
    """

    parent: dict[int, int]
    place: dict[int, int]
    after: Edges
    before: Edges

    @staticmethod
    def of(wiring: Wiring) -> "Flow":
        """Every computing equation as its own group."""
        nodes = [i for i, is_view in enumerate(wiring.free) if not is_view]
        before = {i: wiring.sources(i) for i in nodes}
        after: Edges = {i: set() for i in nodes}
        for i, sources in before.items():
            for source in sources:
                after[source].add(i)
        return Flow({}, {i: i for i in nodes}, after, before)

    def leader(self, index: int) -> int:
        """The name of the group of an equation."""
        root = index
        while root in self.parent:
            root = self.parent[root]
        while index != root:
            self.parent[index], index = root, self.parent[index]
        return root

    def closes_cycle(self, a: int, b: int) -> bool:
        """Whether a path leads from one group to the other through a third."""
        first, last = sorted((a, b), key=self.place.__getitem__)
        if len(self.after[first]) <= len(self.before[last]):
            return self._between(first, last, self.after) is None
        return self._between(last, first, self.before) is None

    def can_merge(self, indices: Iterable[int]) -> bool:
        """Whether no path between these groups leads through another one."""
        inside = {self.leader(i) for i in indices}
        last = max(self.place[i] for i in inside)
        todo = [n for i in inside for n in self._neighbours(i, self.after) if n not in inside]
        found: set[int] = set()
        while todo:
            group = todo.pop()
            if group in inside:
                return False
            if group not in found and self.place[group] < last:
                found.add(group)
                todo.extend(self._neighbours(group, self.after))
        return True

    def merge(self, a: int, b: int) -> None:
        """Makes two groups one, named `a`, which must not close a cycle."""
        first, last = sorted((a, b), key=self.place.__getitem__)
        # Whatever lies between stays where it is unless it runs before the second or after the
        # first: those move to the front and the back of the places that both take up.
        behind = self._between(last, first, self.before) or set()
        ahead = self._between(first, last, self.after) or set() if behind else set()
        moved = [*self._in_order(behind), a, *self._in_order(ahead)]
        places = sorted(self.place[i] for i in (*behind, first, last, *ahead))
        del self.place[b]
        self.place.update(zip(moved, places, strict=False))
        self.parent[b] = a
        for edges in (self.after, self.before):
            small, large = sorted((edges.pop(a), edges.pop(b)), key=len)
            large |= small
            large -= {a, b}
            edges[a] = large

    def _in_order(self, groups: set[int]) -> list[int]:
        return sorted(groups, key=self.place.__getitem__)

    def _between(self, start: int, end: int, edges: Edges) -> set[int] | None:
        """What lies in order between two groups and is reached from `start` along `edges`.

        None if `end` is reached from `start` through another group.
        """
        low, high = sorted((self.place[start], self.place[end]))
        found: set[int] = set()
        todo = [i for i in self._neighbours(start, edges) if i != end]
        while todo:
            group = todo.pop()
            if group == end:
                return None
            if group not in found and low < self.place[group] < high:
                found.add(group)
                todo.extend(self._neighbours(group, edges))
        return found

    def _neighbours(self, group: int, edges: Edges) -> set[int]:
        """By their names of today."""
        edges[group] = {self.leader(i) for i in edges[group]} - {group}
        return edges[group]
