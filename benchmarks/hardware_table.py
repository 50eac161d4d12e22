"""Estimates of our clock over times that others measured: medians, spreads and tables."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import Figure
from measured import LEAST_US, MOST_US, Measured

SOURCE = "tokamax (openxla/tokamax, Apache-2.0), commit 783ea95, its tokamax/data/autotuning/"


UNPRICED = Figure("not priced yet")


@dataclass(frozen=True, slots=True)
class Checked:
    """A measured program and what our clock says of it."""

    measured: Measured
    figure: Figure

    @property
    def ratio(self) -> float | None:
        """The estimate over the measured time, None where there is none to trust."""
        if not self.figure.is_trusted:
            return None
        return self.figure.time_us / self.measured.time_us

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self.measured), "ratio": self.ratio, "figure": self.figure.as_json()}

    @staticmethod
    def of_json(values: Mapping[str, Any]) -> "Checked":
        """What `as_json` told of."""
        measured = {name: values[name] for name in Measured.__dataclass_fields__}
        return Checked(Measured(**measured), Figure(**values["figure"]))


@dataclass(frozen=True, slots=True)
class Spread:
    """The ratios of one chip and kind. `left_out` had no estimate to trust."""

    chip: str
    kind: str
    ratios: tuple[float, ...]
    left_out: int

    @property
    def median(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """Between which the middle half lies; None of fewer than four."""
        if len(self.ratios) < 4:
            return None
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high


def spreads(rows: Iterable[Checked]) -> list[Spread]:
    """One for each chip and kind, in the order of their names."""
    groups: dict[tuple[str, str], list[float | None]] = {}
    for row in rows:
        groups.setdefault((row.measured.chip, row.measured.kind), []).append(row.ratio)
    return [
        Spread(*name, tuple(sorted(r for r in ratios if r is not None)), ratios.count(None))
        for name, ratios in sorted(groups.items())
    ]


_INTRO = f"""
Times measured on real TPUs by others, against the deviceless clock of `tpu_inductor.aot` for the
same programs. A ratio is the estimate over the measured time: above 1 the clock is slow. **We ran
nothing on a TPU.** The measured times are medians of the tuner of
{SOURCE}.

What is compared: the library's splash attention and grouped matmul with one group (Pallas kernels),
its chunked attention and its gated linear unit (XLA's code), in the recorded configurations, of
bfloat16 and float32, {LEAST_US:.0f} to {MOST_US:.0f} us. Of each chip and kind the rows are evenly
spaced in the order of their measured times, the shortest and the longest among them: nothing is
chosen by its ratio. No constant of the clock is fitted to any row.

A JAX device is one core of a tpu7x chip and both cores of v5p. Rows whose estimate rests on guesses
(branches that depend on data) are listed, and left out of medians.
"""


COMMAND = "python benchmarks/hardware.py tpu_measured.csv --json docs/hardware.json"

CAUSES = "## Where the clock is off, and why\n"


def page(versions: str, rows: Sequence[Checked], causes: str) -> str:
    """All of it, for docs/hardware.md. `causes` is the section that people write."""
    priced = [row for row in rows if row.figure != UNPRICED]
    trusted = sum(row.ratio is not None for row in priced)
    count = f"{len(priced)} of {len(rows)} chosen programs are priced, {trusted} with trust.\n"
    parts = [f"# The clock against hardware\n\nMade by `{COMMAND}`; {versions}.\n{_INTRO}"]
    parts.append(f"## Summary\n\n{count}\n" + "\n".join(summary_table(rows)) + "\n")
    parts.append(causes)
    parts.append("## Every program\n\n" + "\n".join(_row_table(priced)) + "\n")
    return "\n".join(parts)


def read_causes(file: Path) -> str:
    """The section on causes of a page, with its heading, which stays as it was written."""
    text = file.read_text() if file.exists() else ""
    body = text.partition(CAUSES)[2].partition("\n## ")[0].strip("\n")
    return f"{CAUSES}\n{body}\n" if body else f"{CAUSES}\nNobody has looked yet.\n"


def row_line(row: Checked) -> str:
    """`0.92 v6e splash attention: 596 us measured, 550 estimated`, for a terminal."""
    measured, figure = row.measured, row.figure
    times = f"{measured.time_us:.0f} us measured, {figure.time_us:.0f} estimated"
    reasons = f"{figure.error[:200]} {figure.doubts}".strip()
    return f"{_number(row.ratio)} {measured.chip} {measured.kind}: {times} {reasons}".rstrip()


def summary_table(rows: Iterable[Checked]) -> Iterator[str]:
    """Medians and spreads of what is priced, by chip and kind, as Markdown."""
    yield _line("chip", "kind", "programs", "median", "middle half", "least", "most", "left out")
    yield _line(*["---"] * 8)
    for spread in spreads(row for row in rows if row.figure != UNPRICED):
        least = spread.ratios[0] if spread.ratios else None
        most = spread.ratios[-1] if spread.ratios else None
        half = "-" if spread.quartiles is None else "{:.2f} to {:.2f}".format(*spread.quartiles)
        numbers = (_number(spread.median), half, _number(least), _number(most))
        count = str(len(spread.ratios))
        yield _line(spread.chip, spread.kind, count, *numbers, str(spread.left_out))


def _row_table(rows: Iterable[Checked]) -> Iterator[str]:
    yield _line("chip", "kind", "problem", "measured us", "estimate us", "ratio", "remarks")
    yield _line(*["---"] * 7)
    order = sorted(rows, key=lambda r: (r.measured.chip, r.measured.kind, r.measured.time_us))
    for row in order:
        figure = row.figure
        yield _line(
            row.measured.chip,
            row.measured.kind,
            shorten(row.measured.problem),
            f"{row.measured.time_us:.0f}",
            f"{figure.time_us:.0f}" if figure.ok else "-",
            _number(row.ratio),
            (figure.error.strip().split("\n")[0][:120] or figure.doubts).replace("|", "\\|"),
        )


def shorten(problem: str) -> str:
    """What tells problems of a kind apart: the arrays, and the mask of attention."""
    values = json.loads(problem)
    arrays = [v for name, v in values.items() if isinstance(v, str) and "[" in v and name != "v"]
    mask = values.get("mask")
    words = [mask] if isinstance(mask, str) else [name.split("_")[-1] for name in mask or ()]
    return " ".join([*arrays, *words])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
