"""What the checks of indices cost: a call with them over a call without, in turn, in one process.

python benchmarks/checks.py [--json checks.json]
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import torch
import torch.nn.functional as F
from recorded import Recorder
from rich.console import Console
from rich.table import Table
from timing import in_turn

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def cases() -> dict[str, Case]:
    torch.manual_seed(0)
    x, table = torch.randn(1024, 1024), torch.randn(32000, 256)
    ids = torch.randint(0, 1024, (1024, 1024))
    tokens = torch.randint(0, 32000, (8, 256))
    scale, shift = torch.randn(256), torch.randn(256)

    def embed(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.embedding(ids, table), (256,), scale, shift)

    return {
        "embedding, layer norm": (embed, (tokens, table)),
        "rows by index": (lambda x, i: x[i] * 2, (x, ids[0])),
        "gather of 1 M": (lambda x, i: x.gather(1, i), (x, ids)),
        "scatter_add of 1 M": (lambda x, i: torch.zeros_like(x).scatter_add(1, i, x), (x, ids)),
        "cross entropy": (F.cross_entropy, (table[:2048], tokens.flatten() % 256)),
        "one row": (lambda x, i: x[i] + 1, (x, ids[0, :1])),
    }


def measure(fn: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """Microseconds a call with and without checks, and the median ratio over rounds."""
    calls: dict[str, Callable[[], Any]] = {}
    for name, flag in (("with", True), ("without", False)):
        torch._dynamo.reset()
        recorder = Recorder({"check_indices": flag})
        torch.compile(fn, backend=recorder.backend)(*args)
        calls[name] = recorder.graphs[-1].call_graph
    times = in_turn(calls, limit=4.0)
    microseconds = {name: 1e6 * t.median for name, t in times.items()}
    return {**microseconds, "ratio": times["with"].over(times["without"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("case", "with (us)", "without (us)", "ratio")
    with torch.no_grad():
        found = {name: measure(*case) for name, case in cases().items()}
    for name, row in found.items():
        table.add_row(name, *(f"{row[key]:.2f}" for key in ("with", "without", "ratio")))
    Console().print(table)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
