"""Compares the programs of tpu_tile with XLA's own, by estimated time on TPUs that are not there.

python benchmarks/vs_xla.py                                     all workloads on v5e, v5p, v6e
python benchmarks/vs_xla.py softmax_4k_f32 --chips v6e          this one
python benchmarks/vs_xla.py --json now.json --xla-cache xla.json

Every figure is an estimate, made from the code that libtpu compiled; nothing runs on a TPU. XLA's
time is that of its fastest spelling: the graph's primitives under one jax.jit (`XLA`), or the best
of those written `by hand`, each with XLA's defaults and with the VMEM that our kernels give
themselves; see opponents.py. `bound` is what the HBM or the MXUs need at the least; see bounds.py.
Times are cold; warm ones, where what XLA prefetched is free, are told where they differ by more
than 5 %.

Ratios are XLA's time over ours. Within 10 % they are ties. A row does not count in the summary
where an estimate is not to be trusted, or where XLA's own code is pathological: its time is above 4
times the bound, and the workload does not sort. A family of workloads has one vote.

With --update the file of --json is added to: its rows of other workloads stay, if they were priced
by the same rules. The race can be run in parts, and be taken up again.

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

from bounds import peaks
from chips import parse_checked
from contests import compare
from pricing import Pricer, rules_of, versions
from rich.console import Console
from versus import Row, Summary
from versus_table import make_table, summary_lines
from workloads import WORKLOADS

from tpu_inductor.aot.pool import TIMEOUT_S, CompilerPool
from tpu_inductor.aot.require import tpu_target
from tpu_inductor.aot.timing import TIMINGS
from tpu_inductor.options import MODES

CHIPS = "v5e,v5p,v6e"

# A table this wide is cut to pieces where the output is a file.
console = Console(width=None if sys.stdout.isatty() else 200)


def record(rows: Sequence[Row], chips: Sequence[str], mode: str | None) -> dict[str, Any]:
    """What JSON holds: the figures, and what they depend on."""
    return {
        "what": "estimates from code compiled by libtpu; nothing ran on a TPU",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "mode": mode or "default",
        "versions": versions("tpu_inductor", "torch", "jax", "jaxlib", "libtpu"),
        "rules": {chip: rules_of(chip) for chip in chips},
        "workloads": list(WORKLOADS),
        "chips": {chip: peaks(tpu_target(chip)) for chip in chips},
        "summaries": [Summary.of(chip, rows).as_json() for chip in chips],
        "rows": [row.as_json() for row in rows],
    }


def kept_rows(file: Path, mode: str | None) -> list[Row]:
    """The rows of a file that this run may add to: of equal mode and rules of pricing."""
    if not file.exists():
        return []
    recorded = json.loads(file.read_text())
    if recorded["mode"] != (mode or "default"):
        return []
    rows = [Row.of_json(values) for values in recorded["rows"]]
    return [row for row in rows if recorded["rules"].get(row.chip) == rules_of(row.chip)]


def replace_rows(rows: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """The rows in the order of the workloads, of which those of `new` supersede others."""
    found = {(row.workload, row.chip): row for row in (*rows, *new)}
    return sorted(found.values(), key=lambda row: list(WORKLOADS).index(row.workload))


def main() -> None:
    given = _parse()
    chips = given.chips.split(",")
    rows = kept_rows(given.json, given.mode) if given.update else []
    with CompilerPool(given.jobs, given.timeout) as pool:
        pricer = Pricer(pool, given.xla_cache)
        for name in given.workloads or WORKLOADS:
            with console.status(name):
                new = compare(WORKLOADS[name], chips, given.mode, pricer)
            rows = replace_rows(rows, new)
            console.print(*map(_line, new), sep="\n", highlight=False)
            if given.json:
                every_chip = [chip for chip in TIMINGS if any(row.chip == chip for row in rows)]
                text = json.dumps(record(rows, every_chip, given.mode), indent=1)
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
    parser.add_argument("--update", action="store_true", help="keep the other rows of --json")
    parser.add_argument("--xla-cache", type=Path, help="keep figures of XLA's code in this file")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once: 2")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each")
    given = parse_checked(parser, WORKLOADS)
    if given.update and not given.json:
        parser.error("--update needs --json, the file to add to")
    return given


if __name__ == "__main__":
    main()
