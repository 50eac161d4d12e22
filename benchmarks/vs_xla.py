"""Compares the programs of tpu_tile with XLA's own, by estimated time on TPUs that are not there.

python benchmarks/vs_xla.py                                     all workloads on v5e, v5p, v6e
python benchmarks/vs_xla.py softmax_4k_f32 --chips v6e          this one
python benchmarks/vs_xla.py --json now.json --xla-cache xla.json

Every figure is an estimate, made from the code that libtpu compiled; nothing runs on a TPU. XLA's
time is that of the faster spelling: the graph's primitives under one jax.jit (`XLA`), or an
idiomatic function written `by hand`. `bound` is what the HBM or the MXUs need at the least; see
bounds.py. Times are cold; warm ones, where what XLA prefetched is free, are told where they differ
by more than 5 %.

Ratios are XLA's time over ours. Within 10 % they are ties. A row does not count in the summary
where an estimate is not to be trusted, or where XLA's own code is pathological: its time is above 4
times the bound, and the workload does not sort.

With --xla-cache, figures of programs without kernels are kept in that file and not compiled again:
the same function, chip, JAX, libtpu and rules of pricing give the same figure. Delete it any time.
"""

import argparse
import datetime
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Nothing runs, and without this JAX looks for a TPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from bounds import Bound, peaks
from chips import parse_checked
from figures import Figure
from kernels import kernel_figures
from pricing import Pricer, versions
from rich.console import Console
from spellings import Spelling, hand_job, spell
from versus import Row, Summary
from versus_table import make_table, summary_lines
from workloads import WORKLOADS, Workload

from tpu_inductor.aot.pool import TIMEOUT_S, CompilerPool
from tpu_inductor.aot.require import tpu_target
from tpu_inductor.options import MODES

CHIPS = "v5e,v5p,v6e"

# A table this wide is cut to pieces where the output is a file.
console = Console(width=None if sys.stdout.isatty() else 200)


def compare(
    workload: Workload, chips: Sequence[str], mode: str | None, pricer: Pricer
) -> list[Row]:
    """The rows of one workload, one for each chip."""
    spelled = [(spell(workload, c, "auto", mode), spell(workload, c, "xla")) for c in chips]
    groups = [
        jobs
        for chip, (ours, xla) in zip(chips, spelled, strict=True)
        for jobs in (ours.jobs, xla.jobs, (hand_job(workload, chip),))
    ]
    figures = iter(pricer.price([job for jobs in groups for job in jobs]))
    totals = iter([Figure.total([next(figures) for _ in jobs]) for jobs in groups])
    return [
        make_row(workload, chip, ours, xla, (next(totals), next(totals), next(totals)))
        for chip, (ours, xla) in zip(chips, spelled, strict=True)
    ]


def make_row(
    workload: Workload,
    chip: str,
    ours: Spelling,
    xla: Spelling,
    figures: tuple[Figure, Figure, Figure],
) -> Row:
    """The row of figures of ours, of XLA's spelling and of that by hand."""
    graphs = ours.graphs or xla.graphs
    our_figure = Figure(ours.error) if ours.error else figures[0]
    return Row(
        workload.name,
        chip,
        Bound.of(graphs, tpu_target(chip)) if graphs else None,
        any(eqn.prim == "sort" for graph in graphs for eqn in graph.eqns),
        our_figure,
        Figure(xla.error) if xla.error else figures[1],
        figures[2],
        kernel_figures(ours, our_figure),
        ours.explanation.work["kernels"] if ours.explanation else 0,
        ours.left_to_xla,
    )


def record(rows: Sequence[Row], chips: Sequence[str], mode: str | None) -> dict[str, Any]:
    """What JSON holds: the figures, and what they depend on."""
    return {
        "what": "estimates from code compiled by libtpu; nothing ran on a TPU",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "mode": mode or "default",
        "versions": versions("tpu_inductor", "torch", "jax", "jaxlib", "libtpu"),
        "chips": {chip: peaks(tpu_target(chip)) for chip in chips},
        "summaries": [Summary.of(chip, rows).as_json() for chip in chips],
        "rows": [row.as_json() for row in rows],
    }


def main() -> None:
    given = _parse()
    chips = given.chips.split(",")
    rows: list[Row] = []
    with CompilerPool(given.jobs, given.timeout) as pool:
        pricer = Pricer(pool, given.xla_cache)
        for name in given.workloads or WORKLOADS:
            with console.status(name):
                rows += compare(WORKLOADS[name], chips, given.mode, pricer)
            console.print(*map(_line, rows[-len(chips) :]), sep="\n", highlight=False)
            if given.json:
                text = json.dumps(record(rows, chips, given.mode), indent=1)
                given.json.write_text(text + "\n")
    for chip in chips:
        console.print(make_table(chip, rows))
    for chip in chips:
        console.print(*summary_lines(Summary.of(chip, rows)), sep="\n", highlight=False)


def _line(row: Row) -> str:
    ratio = "" if row.ratio is None else f" {row.ratio:.2f}"
    return f"{row.workload} {row.chip}: {row.verdict}{ratio} {'; '.join(row.notes)}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare with XLA, by estimated times")
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(WORKLOADS))
    parser.add_argument("--chips", default=CHIPS, help=f"TPU generations; {CHIPS}")
    parser.add_argument("--mode", choices=MODES, help="the mode that ours is compiled with")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--xla-cache", type=Path, help="keep figures of XLA's code in this file")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once: 2")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each")
    return parse_checked(parser, WORKLOADS)


if __name__ == "__main__":
    main()
