"""The page on calibration: what the estimates of schedules are worth, as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from calibration import (
    CHOICE_GOAL,
    LEAST_US,
    MEDIAN_GOAL,
    MISSED,
    NEAR,
    Sample,
    Summary,
    judge_choices,
    worst,
)

from tpu_inductor.schedule.rates import ROW_COPY_US

_INTRO = f"""
Schedules are chosen by `schedule/cost.py`, an estimate that takes no compiler. Below it is compared
with the deviceless clock of `tpu_inductor.aot`, which follows the code that libtpu compiled of the
same schedule. **Both are estimates; nothing ran on a TPU.** An error is that of the first against
the second: +10 % is an estimate a tenth too long. Kernels estimated below {LEAST_US:.0f} us are
left out.

A chosen schedule is good if the clock finds it within {NEAR:.0%} of the best of the schedules that
were priced for its kernel. The goals: a median error under {MEDIAN_GOAL:.0%}, and good choices for
{CHOICE_GOAL:.0%} of the kernels. Prices that the clock does not trust do not count, nor those below
{MISSED} of the time that the kernel's arrays need to pass the HBM: there the clock missed copies.

Two assumptions beside the rates of `schedule/rates.py`. Where a vector is read or written as a
matrix of one row, XLA copies it outside of the kernel: a schedule is charged {ROW_COPY_US:g} us
for each such operand (`ROW_COPY_US`; the clock finds 1 to 2 us, on every chip). And a DMA that only
a descriptor describes (`dma.general`) names no memories: the clock counts it as one read of HBM,
since XLA moves strided operands with it.
"""


def page(
    command: str, versions: str, chips: Sequence[str], samples: Sequence[Sample], small: int
) -> str:
    """All of it. `small` kernels were left out for their size."""
    by_chip = {chip: [s for s in samples if s.chip == chip] for chip in chips}
    parts = [f"# Calibration of the cost model\n\nMade by `{command}`; {versions}.\n{_INTRO}"]
    parts.append(_section("Summary", _summaries(by_chip, small)))
    parts.append(_section("By template", _templates(by_chip)))
    for chip, those in by_chip.items():
        parts.append(_section(f"The furthest off on {chip}", _rows(worst(those))))
    parts.append(_section("Choices that are not good", _choices(samples)))
    parts.append(_section("Every kernel: its chosen schedule", _kernels(chips, samples)))
    doubtful = [s for s in samples if s.doubt]
    parts.append(_section(f"Left out: {len(doubtful)} candidates", _doubts(doubtful)))
    return "\n".join(parts)


def _section(title: str, lines: Iterable[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _line(headings)
    yield _line(["---"] * len(headings))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _summaries(by_chip: dict[str, list[Sample]], small: int) -> Iterator[str]:
    headings = (
        "chip",
        "kernels",
        "candidates",
        "median error",
        "90 % of errors within",
        "kernels with a choice",
        "good choices",
        "left out",
    )
    rows = ((chip, *_cells(samples), _left_out(samples)) for chip, samples in by_chip.items())
    yield from _table(headings, rows)
    yield f"\n{small} kernels, of all chips together, were left out for their size."


def _templates(by_chip: dict[str, list[Sample]]) -> Iterator[str]:
    names = sorted({s.template for samples in by_chip.values() for s in samples})
    headings = ("chip", "template", "kernels", "candidates", "median error", "90 % within")
    rows = (
        (chip, name, *_cells([s for s in samples if s.template == name])[:4])
        for chip, samples in by_chip.items()
        for name in names
    )
    return _table(headings, rows)


def _cells(samples: Sequence[Sample]) -> tuple[str, ...]:
    summary = Summary.of(samples)
    return (
        str(summary.kernels),
        str(summary.candidates),
        _share(summary.median),
        _share(summary.p90),
        str(len(summary.choices)),
        _share(summary.good_share),
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _left_out(samples: Sequence[Sample]) -> str:
    return str(sum(bool(s.doubt) for s in samples))


def _rows(samples: Sequence[Sample]) -> Iterator[str]:
    headings = ("kernel", "schedule", "place", "estimate us", "clock us", "error")
    return _table(headings, ((*_named(s), str(s.rank + 1), *_figures(s)) for s in samples))


def _named(sample: Sample) -> tuple[str, str]:
    return sample.kernel, f"{sample.template}, {sample.tiling}"


def _figures(sample: Sample) -> tuple[str, str, str]:
    estimate, clock = f"{sample.estimate_us:.1f}", f"{sample.price.time_us:.1f}"
    return estimate, clock, f"{100 * sample.error:+.1f} %"


def _choices(samples: Sequence[Sample]) -> Iterator[str]:
    headings = ("chip", "kernel", "chosen", "clock us", "best", "clock us", "lost")
    choices = judge_choices([s for s in samples if not s.doubt])
    bad = sorted((c for c in choices if not c.is_good), key=lambda c: -c.loss)
    rows = (
        (
            choice.chosen.chip,
            choice.chosen.kernel,
            choice.chosen.tiling,
            _figures(choice.chosen)[1],
            choice.best.tiling,
            _figures(choice.best)[1],
            _share(choice.loss),
        )
        for choice in bad
    )
    return _table(headings, rows)


def _kernels(chips: Sequence[str], samples: Sequence[Sample]) -> Iterator[str]:
    chosen = {(s.kernel, s.chip): s for s in samples if s.rank == 0}
    kernels = dict.fromkeys(kernel for kernel, _ in chosen)
    headings = [f"{chip} {what}" for chip in chips for what in ("estimate us", "clock us", "error")]
    rows = (
        (kernel, *(cell for chip in chips for cell in _cell_of(chosen.get((kernel, chip)))))
        for kernel in kernels
    )
    return _table(("kernel", *headings), rows)


def _cell_of(sample: Sample | None) -> tuple[str, str, str]:
    if sample is None:
        return "-", "-", "-"
    return (f"{sample.estimate_us:.1f}", "-", "-") if sample.doubt else _figures(sample)


def _doubts(samples: Sequence[Sample]) -> Iterator[str]:
    headings = ("chip", "kernel", "schedule", "estimate us", "clock us", "why")
    rows = (
        (s.chip, *_named(s), f"{s.estimate_us:.1f}", f"{s.price.time_us:.1f}", s.doubt)
        for s in samples
    )
    return _table(headings, rows)
