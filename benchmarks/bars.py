"""The bars that the CPU target must meet, checked on the figures of a run."""

from collections.abc import Iterator, Mapping
from typing import Any

GRAPH_OVER_JIT = 1.2
FIRST_CALL_SECONDS = 5.0
# Twice the layers may cost twice as much. The first model of a process also pays for what torch and
# jax keep for the next, so 2 layers are no measure of 4.
GROWTH = 2.0


def check_bars(cases: Mapping[str, Any]) -> Iterator[str]:
    """One line for each bar that these cases say something about."""
    for name, case in cases.items():
        ratio = case["ratios"].get("graph/jit")
        # One operation of no work is all overhead, which overhead.py judges.
        if ratio is not None and name not in ("one_op", "many_parameters"):
            yield _line(f"{name}: graph / jit", ratio, GRAPH_OVER_JIT)
    if "llama_2" in cases:
        first = cases["llama_2"]["contenders"]["tpu_tile"]["first_s"]
        yield _line("llama_2: first call, seconds", first, FIRST_CALL_SECONDS)
    # Growth in seconds of work: on the clock it drowns in what else the machine does.
    firsts = {n: c["contenders"]["tpu_tile"]["first_cpu_s"] for n, c in cases.items()}
    if {"llama_4", "llama_8"} <= firsts.keys():
        ratio = firsts["llama_8"] / firsts["llama_4"]
        yield _line("llama_8 / llama_4: first call, CPU seconds", ratio, GROWTH)


def _line(what: str, got: float, bar: float) -> str:
    verdict = "[green]met[/]   " if got <= bar else "[red]missed[/]"
    return f"{verdict} {what}: {got:.2f}, bar {bar:.2f}"
