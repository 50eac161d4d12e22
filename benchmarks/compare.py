"""Compares two runs: python benchmarks/compare.py before.json after.json [--threshold 0.1]

Exits with 1 where a case of the second run takes longer than the threshold allows.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

FIGURES = (("tpu_tile", "first_s"), ("tpu_tile", "call_ms"), ("graph", "call_ms"))


def figure(case: Any, contender: str, what: str) -> float | None:
    return case["contenders"].get(contender, {}).get(what)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare two files that run.py wrote")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--threshold", type=float, default=0.1, help="growth that passes: 0.1")
    given = parser.parse_args()
    before, after = (json.loads(p.read_text()) for p in (given.before, given.after))
    table = Table(title=f"{before['host']['date']} against {after['host']['date']}")
    table.add_column("case")
    for contender, what in FIGURES:
        table.add_column(f"{contender} {what}", justify="right")
    is_slower = False
    for name in before["cases"].keys() & after["cases"].keys():
        cells: list[str] = []
        for contender, what in FIGURES:
            old, new = (figure(r["cases"][name], contender, what) for r in (before, after))
            if old is None or new is None:
                cells.append("-")
                continue
            grew = new / old - 1
            is_slower |= grew > given.threshold
            colour = "red" if grew > given.threshold else "green" if -grew > given.threshold else ""
            text = f"{old:.3f} -> {new:.3f} ({grew:+.0%})"
            cells.append(f"[{colour}]{text}[/]" if colour else text)
        table.add_row(name, *cells)
    Console().print(table)
    if before["host"]["versions"] != after["host"]["versions"]:
        Console().print("the runs had different versions of python, torch or jax")
    raise SystemExit(is_slower)


if __name__ == "__main__":
    main()
