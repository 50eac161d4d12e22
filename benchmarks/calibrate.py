"""Calibrates the cost model: its estimates of schedules against the deviceless clock's.

python benchmarks/calibrate.py                                      every kernel, v5e, v6e, v5p
python benchmarks/calibrate.py softmax_4k_f32 --chips v6e           those of one workload
python benchmarks/calibrate.py --recorded prices.json --table docs/calibration.md

Each distinct kernel of the workloads and of calibration_cases.py is compiled in several schedules:
the chosen one, the second, and others spread over the better half of the ranking. Both times are
estimates; nothing runs on a TPU.

With --recorded, prices are kept in that file by the text of the program, the chip, libtpu and the
rules of pricing, so that after a change of the cost model alone only what it newly prefers is
compiled. Delete it any time.
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

from calibration import LEAST_US, Sample, Summary, worst
from calibration_cases import CASES, LEFT_OUT
from calibration_kernels import Kernel, find_kernels, price_kernels
from calibration_table import page
from chips import parse_checked
from kernel_prices import KernelPrices
from pricing import versions
from rich.console import Console
from spellings import Traceable, spell
from workloads import WORKLOADS

from tpu_inductor.aot.pool import TIMEOUT_S, CompilerPool
from tpu_inductor.aot.require import tpu_target

CHIPS = "v5e,v6e,v5p"
ALL: dict[str, Traceable] = {**WORKLOADS, **CASES}

console = Console(width=None if sys.stdout.isatty() else 200)


def summary_line(chip: str, samples: Sequence[Sample]) -> str:
    """`v5e: 50 kernels, 180 candidates, median error 4.1 %, ...`, all of it estimates."""
    those = [s for s in samples if s.chip == chip]
    summary = Summary.of(those)
    if summary.median is None or summary.p90 is None:
        return f"{chip}: nothing was priced"
    share = summary.good_share
    good = "none has a choice" if share is None else f"{share:.1%} of {len(summary.choices)}"
    return (
        f"{chip} (estimates): {summary.kernels} kernels, {summary.candidates} candidates, median "
        f"error {summary.median:.1%}, p90 {summary.p90:.1%}, good choices {good}, "
        f"{sum(bool(s.doubt) for s in those)} left out"
    )


def record(samples: Sequence[Sample], chips: Sequence[str], small: Sequence[str]) -> dict[str, Any]:
    """What JSON holds."""
    return {
        "what": "estimates of schedules against estimates from code that libtpu compiled",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions("tpu_inductor", "torch", "jax", "libtpu"),
        "summaries": {
            chip: Summary.of([s for s in samples if s.chip == chip]).as_json() for chip in chips
        },
        "small": list(small),
        "samples": [s.as_json() for s in samples],
    }


def write(
    given: argparse.Namespace, chips: Sequence[str], samples: Sequence[Sample], small: Sequence[str]
) -> None:
    """The files that were asked for."""
    if given.json:
        given.json.write_text(json.dumps(record(samples, chips, small), indent=1) + "\n")
    if given.table:
        named = ", ".join(f"{k} {v}" for k, v in versions("jax", "libtpu").items())
        given.table.parent.mkdir(exist_ok=True)
        given.table.write_text(page(_command(given), named, chips, samples, len(small)))


def _command(given: argparse.Namespace) -> str:
    """What makes the same page again, wherever prices are kept."""
    options = f"--chips {given.chips} --per-kernel {given.per_kernel} --table {given.table}"
    return " ".join(["python benchmarks/calibrate.py", *given.workloads, options])


def main() -> None:
    given = _parse()
    chips = given.chips.split(",")
    names = given.workloads or [name for name in ALL if name not in LEFT_OUT]
    seen: dict[str, set[str]] = {chip: set() for chip in chips}
    samples: list[Sample] = []
    small: list[str] = []
    with CompilerPool(given.jobs, given.timeout) as pool:
        prices = KernelPrices(pool, given.recorded)
        for name in names:
            for chip in chips:
                found = _kernels_of(name, chip, seen[chip])
                large = [k for k in found if k.schedules[0].cost.time_us >= LEAST_US]
                small += [f"{k.name} {chip}" for k in found if k not in large]
                new = price_kernels(large, given.per_kernel, prices)
                samples += new
                for sample in new:
                    console.print(_line(sample), highlight=False)
            write(given, chips, samples, small)
    for chip in chips:
        console.print(summary_line(chip, samples), highlight=False)
        console.print(*map(_line, worst(s for s in samples if s.chip == chip)), sep="\n")


def _kernels_of(name: str, chip: str, seen: set[str]) -> list[Kernel]:
    spelled = spell(ALL[name], chip, "pallas")
    if spelled.error:
        console.print(f"[red]{name} {chip}[/]: {spelled.error}")
    return list(find_kernels(name, spelled, tpu_target(chip), seen))


def _line(sample: Sample) -> str:
    what = f"{sample.kernel} {sample.chip} {sample.template} {sample.tiling}"
    verdict = sample.doubt or f"{sample.error:+.1%}"
    return f"{what}: {sample.estimate_us:.1f}, clock {sample.price.time_us:.1f} us: {verdict}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Calibrate the cost model, by estimated times")
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(ALL))
    parser.add_argument("--chips", default=CHIPS, help=f"TPU generations; {CHIPS}")
    parser.add_argument("--per-kernel", type=int, default=4, help="schedules of each kernel: 4")
    parser.add_argument("--recorded", type=Path, help="keep prices in this file")
    parser.add_argument("--json", type=Path, help="write the samples to this file")
    parser.add_argument("--table", type=Path, help="write the page to this file")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once: 2")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each")
    return parse_checked(parser, ALL)


if __name__ == "__main__":
    main()
