"""The bars that the CPU target must meet, checked on the figures of a run."""

from collections.abc import Iterator, Mapping
from typing import Any

GRAPH_OVER_JIT = 1.2
FIRST_CALL_SECONDS = 5.0
# Twice the layers, from 4 to 8, may cost what 2 to 4 did twice over, and the noise of a clock.
GROWTH = 2.0 * 1.25


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
    if {"llama_2", "llama_4", "llama_8"} <= firsts.keys():
        steps = firsts["llama_4"] - firsts["llama_2"], firsts["llama_8"] - firsts["llama_4"]
        yield _line("llama: cost of layers 5 to 8 over 3 to 4", steps[1] / steps[0], GROWTH)


def _line(what: str, got: float, bar: float) -> str:
    verdict = "[green]met[/]   " if got <= bar else "[red]missed[/]"
    return f"{verdict} {what}: {got:.2f}, bar {bar:.2f}"
