"""Measures compile time and call time of every case against eager, inductor and plain jax.jit.

python benchmarks/run.py                                  all cases
python benchmarks/run.py llama_2 softmax --no-inductor    these, without inductor
python benchmarks/run.py --json now.json                  also write what compare.py reads

`graph` is the compiled graph called directly, without Dynamo's guards and AOTAutograd's wrapper;
`jit` is jax.jit of the same program with no Pallas kernel in it, called with jax arrays.
"""

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path

# Only the CPU runs programs so far; without this JAX looks for a TPU first.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import jax
import torch
from bars import check_bars
from cases import CASES
from contenders import contenders
from rich.console import Console
from rich.table import Table
from timing import in_turn

CONTENDERS = ("eager", "tpu_tile", "inductor", "graph", "jit")
RATIOS = (("tpu_tile", "eager"), ("tpu_tile", "inductor"), ("graph", "jit"))

# A table this wide is cut to pieces where the output is a file.
console = Console(width=None if sys.stdout.isatty() else 180)


def measure(name: str, with_inductor: bool) -> dict[str, object]:
    """The record of one case, as JSON holds it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    case = CASES[name]()
    case.module.eval()
    with torch.no_grad():
        found = contenders(case, with_inductor)
        times = in_turn({n: c.call for n, c in found.items()})
    record = {
        n: {
            "first_s": c.first and c.first.seconds,
            "first_cpu_s": c.first and c.first.cpu_seconds,
            "call_ms": 1e3 * times[n].median,
            "least_ms": 1e3 * times[n].least,
            "error": c.error,
        }
        for n, c in found.items()
    }
    ratios = {f"{a}/{b}": times[a].over(times[b]) for a, b in RATIOS if a in times and b in times}
    return {"contenders": record, "ratios": ratios}


def warm_up(with_inductor: bool) -> None:
    """Compiles something, so that the first case does not pay for what is made once a process."""
    with torch.no_grad():
        contenders(CASES["mlp"](), with_inductor)


def host() -> dict[str, object]:
    """What a number depends on beside the code."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": jax.devices()[0].device_kind,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "jax": jax.__version__,
        },
    }


def make_table(cases: dict[str, dict]) -> Table:
    """First calls in seconds, later calls in milliseconds."""
    table = Table(title="seconds of the first call · milliseconds a call (medians)")
    table.add_column("case")
    for name in ("tpu_tile", "tpu_tile (cpu)", "inductor", "jit"):
        table.add_column(f"{name}\nfirst", justify="right")
    for name in (*CONTENDERS, *(f"{a}\n/ {b}" for a, b in RATIOS), "error"):
        table.add_column(name, justify="right")
    for name, case in cases.items():
        found, ratios = case["contenders"], case["ratios"]
        firsts = [found["tpu_tile"]["first_s"], found["tpu_tile"]["first_cpu_s"]]
        firsts += [found.get(n, {}).get("first_s") for n in ("inductor", "jit")]
        calls = [found.get(n, {}).get("call_ms") for n in CONTENDERS]
        shares = [ratios.get(f"{a}/{b}") for a, b in RATIOS]
        cells = [_cell(v, ".2f") for v in firsts] + [_cell(v, ".3f") for v in calls]
        cells += [_cell(v, ".2f") for v in shares] + [_cell(found["tpu_tile"]["error"], ".0e")]
        table.add_row(name, *cells)
    return table


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark the backend tpu_tile")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--no-inductor", action="store_true", help="leave inductor out")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    if unknown := sorted(set(given.cases) - set(CASES)):
        parser.error(f"unknown cases {', '.join(unknown)}; there are {', '.join(CASES)}")
    # Inductor would find last time's kernels on the disk.
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    warm_up(with_inductor=not given.no_inductor)
    cases: dict[str, dict] = {}
    for name in given.cases or CASES:
        with console.status(name):
            cases[name] = measure(name, not given.no_inductor)
        if given.json:
            given.json.write_text(json.dumps({"host": host(), "cases": cases}, indent=2) + "\n")
    console.print(make_table(cases))
    for line in check_bars(cases):
        console.print(line, highlight=False)


if __name__ == "__main__":
    main()
