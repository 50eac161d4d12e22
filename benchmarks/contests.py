"""One workload on one chip, ours against every spelling of XLA's: what is compiled, and its row."""

from collections.abc import Sequence
from dataclasses import dataclass

from bounds import Bound
from figures import Figure
from kernels import kernel_figures
from opponents import GRAPH, Opponent, find_opponents, name_figures, price_each, raise_vmem
from pricing import Pricer
from spellings import Spelling, spell
from versus import Row
from workloads import Workload

from tpu_inductor.aot.require import tpu_target
from tpu_inductor.graph.core import Graph


@dataclass(frozen=True, slots=True)
class Contest:
    """A workload on one chip before it is priced."""

    workload: Workload
    chip: str
    ours: Spelling
    graphs: tuple[Graph, ...]
    opponents: Sequence[Opponent]

    @staticmethod
    def of(workload: Workload, chip: str, mode: str | None) -> "Contest":
        ours, xla = spell(workload, chip, "auto", mode), spell(workload, chip, "xla")
        opponents = find_opponents(workload, xla, chip)
        return Contest(workload, chip, ours, ours.graphs or xla.graphs, opponents)

    @property
    def bound(self) -> Bound | None:
        return Bound.of(self.graphs, tpu_target(self.chip)) if self.graphs else None

    def raise_vmem(self, opponents: Sequence[Figure]) -> list[Opponent]:
        """Who is compiled once more, after the figures of all opponents."""
        return raise_vmem(self.opponents, opponents, self.bound, self.chip)

    def row(self, ours: Figure, opponents: Sequence[Figure]) -> Row:
        """The row of our figure and of those of all opponents, which are named."""
        explanation = self.ours.explanation
        our_figure = Figure(self.ours.error) if self.ours.error else ours
        graph = [f for f in opponents if f.spelling.startswith(GRAPH)]
        by_hand = [f for f in opponents if not f.spelling.startswith(GRAPH)]
        return Row(
            self.workload.name,
            self.workload.family,
            self.chip,
            self.bound,
            any(eqn.prim == "sort" for graph in self.graphs for eqn in graph.eqns),
            our_figure,
            Figure.fastest(graph),
            Figure.fastest(by_hand),
            kernel_figures(self.ours, our_figure),
            explanation.work["kernels"] if explanation else 0,
            self.ours.left_to_xla,
        )


def compare(
    workload: Workload, chips: Sequence[str], mode: str | None, pricer: Pricer
) -> list[Row]:
    """The rows of one workload, one for each chip."""
    contests = [Contest.of(workload, chip, mode) for chip in chips]
    plain = price_each(pricer, [[c.ours.jobs, *(o.jobs for o in c.opponents)] for c in contests])
    raised = [c.raise_vmem(figures[1:]) for c, figures in zip(contests, plain, strict=True)]
    again = price_each(pricer, [[o.jobs for o in opponents] for opponents in raised])
    return [
        c.row(figures[0], name_figures([*c.opponents, *opponents], [*figures[1:], *more]))
        for c, figures, opponents, more in zip(contests, plain, raised, again, strict=True)
    ]
