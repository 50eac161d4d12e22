"""CPU seconds of our own stages, from import to print, on graphs of thousands of equations.

python benchmarks/stages.py                              every program, for cpu and v5e
python benchmarks/stages.py chain transformer --chips v6e --json stages.json

Nothing of JAX or XLA runs. Each graph is lowered twice, and the second time counts: the first makes
what is made once a process.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from run import host
from torch.fx import GraphModule
from workloads.large import LARGE

from tpu_inductor.front.trace import trace_with
from tpu_inductor.options import Options
from tpu_inductor.pipeline import Lowered, lower_graph
from tpu_inductor.runtime.boxed import EagerGraph, as_boxed

BARS = {"transformer": 2.0}
BAR = 1.5
"""CPU seconds for all stages of one graph."""

STAGES = ("graph", "simplified", "regions", "schedule", "print")
"""By what each ends with. Verification counts with the stage that it follows."""


@dataclass(frozen=True, slots=True)
class Stages:
    """CPU seconds by stage, for a graph of so many equations."""

    equations: int
    kernels: int
    seconds: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def trace(function: Callable[..., Any], args: tuple[Any, ...]) -> GraphModule:
    """The one graph of a function, which runs once, in torch."""
    found: list[GraphModule] = []

    def keep(gm: GraphModule, args: Any) -> Any:
        found.append(gm)
        return as_boxed(EagerGraph(gm))

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(function, backend=trace_with(keep))(*args)
    (graph,) = found
    return graph


def measure(gm: GraphModule, chip: str) -> Stages:
    """The stages of one graph on one chip."""
    lower(gm, chip)
    return lower(gm, chip)


def lower(gm: GraphModule, chip: str) -> Stages:
    seconds: dict[str, float] = defaultdict(float)
    last = time.process_time()

    def observe(stage: str, value: object) -> None:
        nonlocal last
        now = time.process_time()
        seconds[stage] += now - last
        last = now

    lowered = lower_graph(gm, "large", {}, Options(target=chip), observe)
    observe("print", lowered)
    assert isinstance(lowered, Lowered)
    partition, schedules = lowered.scheduled.partition, lowered.scheduled.schedules
    return Stages(len(partition.graph.eqns), len(schedules), dict(seconds))


def make_table(found: Mapping[str, Stages]) -> Table:
    table = Table(title="CPU seconds")
    table.add_column("program")
    for column in ("equations", "kernels", *STAGES, "all", "bar"):
        table.add_column(column, justify="right")
    for name, stages in found.items():
        cells = [f"{stages.seconds.get(stage, 0.0):.2f}" for stage in STAGES]
        table.add_row(
            name,
            str(stages.equations),
            str(stages.kernels),
            *cells,
            f"{stages.total:.2f}",
            f"{bar_of(name):.1f}",
        )
    return table


def bar_of(name: str) -> float:
    return BARS.get(name.split(" ")[0], BAR)


def as_json(stages: Stages) -> dict[str, Any]:
    return {
        "equations": stages.equations,
        "kernels": stages.kernels,
        "cpu_s": dict(stages.seconds),
        "all_cpu_s": stages.total,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the stages of the compiler")
    parser.add_argument("programs", nargs="*", help=", ".join(LARGE))
    parser.add_argument("--chips", default="cpu,v5e", help="targets, with commas between")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    if unknown := sorted(set(given.programs) - set(LARGE)):
        parser.error(f"unknown programs {', '.join(unknown)}; there are {', '.join(LARGE)}")
    found: dict[str, Stages] = {}
    for name in given.programs or LARGE:
        graph = trace(*LARGE[name]())
        for chip in given.chips.split(","):
            found[f"{name} {chip}"] = measure(graph, chip)
        if given.json:
            figures = {name: as_json(stages) for name, stages in found.items()}
            given.json.write_text(json.dumps({"host": host(), "stages": figures}, indent=2) + "\n")
    console = Console()
    console.print(make_table(found))
    for name, stages in found.items():
        verdict = "[green]met[/]   " if stages.total <= bar_of(name) else "[red]missed[/]"
        console.print(f"{verdict} {name}: {stages.total:.2f} s, bar {bar_of(name):.1f}")


if __name__ == "__main__":
    main()
