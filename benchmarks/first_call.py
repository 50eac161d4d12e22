"""CPU seconds of a first call, tracing and XLA's compiler included, against aot_eager.

python benchmarks/first_call.py                            every program
python benchmarks/first_call.py gru --rounds 3 --json first_call.json

aot_eager traces as any backend has to and compiles nothing. Every call is in a process of its own,
with empty caches; the backends take turns, and medians count. What is imported before the call is
not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import torch
from rich.console import Console
from rich.table import Table
from run import host
from workloads.first_calls import FIRST_CALLS

BACKENDS = ("tpu_tile", "aot_eager")
BAR = 2.0
"""What a first call may cost in those of aot_eager, where there are thousands of operators."""

BOUNDED = ("chain", "gru")


def call(name: str, backend: str) -> float:
    """CPU seconds of the first call of a program, with gradients where it has them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    function, args, has_gradients = FIRST_CALLS[name]()
    compiled = torch.compile(function, backend=backend)
    start = time.process_time()
    with torch.set_grad_enabled(has_gradients):
        result = compiled(*args)
    if has_gradients:
        result.backward()
    return time.process_time() - start


def call_apart(name: str, backend: str) -> float:
    """`call` in a process of its own."""
    command = [sys.executable, __file__, name, "--call", backend]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def measure(name: str, rounds: int) -> dict[str, float]:
    """The median CPU seconds by backend."""
    found: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for _ in range(rounds):
        for backend, seconds in found.items():
            seconds.append(call_apart(name, backend))
    return {backend: median(seconds) for backend, seconds in found.items()}


def make_table(found: dict[str, dict[str, float]]) -> Table:
    table = Table(title="CPU seconds of the first call (medians)")
    for column in ("program", *BACKENDS, "ratio"):
        table.add_column(column, justify="right" if column != "program" else "left")
    for name, seconds in found.items():
        ours, least = (seconds[b] for b in BACKENDS)
        table.add_row(name, f"{ours:.2f}", f"{least:.2f}", f"{ours / least:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Time first calls")
    parser.add_argument("programs", nargs="*", help=", ".join(FIRST_CALLS))
    parser.add_argument("--rounds", type=int, default=3, help="processes for each backend")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--call", metavar="BACKEND", help="call here, once, and print the seconds")
    given = parser.parse_args()
    if unknown := sorted(set(given.programs) - set(FIRST_CALLS)):
        parser.error(f"unknown programs {', '.join(unknown)}; there are {', '.join(FIRST_CALLS)}")
    if given.call:
        print(call(given.programs[0], given.call))
        return
    found = {name: measure(name, given.rounds) for name in given.programs or FIRST_CALLS}
    if given.json:
        figures = {"host": host(), "cpu_s": found}
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    console = Console()
    console.print(make_table(found))
    for name in (n for n in BOUNDED if n in found):
        ratio = found[name]["tpu_tile"] / found[name]["aot_eager"]
        verdict = "[green]met[/]   " if ratio <= BAR else "[red]missed[/]"
        console.print(f"{verdict} {name}: {ratio:.2f}, bar {BAR:.2f}", highlight=False)


if __name__ == "__main__":
    main()
