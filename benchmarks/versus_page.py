"""The comparison with XLA as text: a page of tables, and the lines of the README."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from versus import TIE

_INTRO = f"""
**All times are estimates, made from the code that libtpu compiled; nothing ran on a TPU.**

Ratios are the time of XLA's fastest spelling over ours; {1 / TIE:.2f} to {TIE:.2f} is a tie.
A family of workloads has one vote in a geomean, the geomean of its rows. `bound` is what the HBM
(H) or the MXUs (M) need at the least.

A JAX device of v5p is two cores. XLA reduces rows on one of them, and the clock gives a core half
of the bandwidth, whatever the other does. If one core alone can draw more, XLA's times of softmax,
norms, argmax, sampling and losses on v5p are too long, and those ratios up to twice too high.
"""


def page(record: Any) -> str:
    """The whole comparison, for docs/versus_xla.md."""
    made = f"Made by `benchmarks/publish.py` of {coverage(record)}; {_versions(record)}."
    parts = [f"# Against XLA\n\n{made}\n{_INTRO}"]
    parts.append(_section("Summary", summary_table(record)))
    parts.append(_section("By family", family_table(record)))
    parts += [_section(chip, _chip_table(record, chip)) for chip in record["chips"]]
    return "\n".join(parts)


def _section(title: str, lines: Iterable[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def readme_lines(record: Any) -> str:
    """What the README says of the figures."""
    parts = [f"Of {coverage(record)}:", "", *summary_table(record), "", *family_table(record)]
    return "\n".join(parts)


def coverage(record: Any) -> str:
    """`40 of 42 workloads, as of 2026-11-30`, those of all chips, and what is missing on which."""
    raced = {(row["workload"], row["chip"]) for row in record["rows"]}
    missing: dict[str, list[str]] = {}
    for name in record["workloads"]:
        if chips := [chip for chip in record["chips"] if (name, chip) not in raced]:
            missing.setdefault(", ".join(chips), []).append(name)
    total = len(record["workloads"])
    done = total - sum(map(len, missing.values()))
    text = f"{done} of {total} workloads, as of {record['date'][:10]}"
    if missing:
        gaps = "; ".join(f"{chips} without {', '.join(names)}" for chips, names in missing.items())
        text += f" (**partial**: {gaps}; geomeans are of what was raced)"
    return text


def summary_table(record: Any) -> Iterator[str]:
    """A row for each chip."""
    yield from _head(
        "chip", "memory-bound", "compute-bound", "faster", "ties", "slower", "least ratio"
    )
    for summary in record["summaries"]:
        counts = [str(summary["verdicts"][name]) for name in ("faster", "tie", "slower")]
        memory = _mean(summary["geomean"], summary["families"], summary["memory_rows"])
        compute = _mean(
            summary["compute_geomean"], summary["compute_families"], summary["compute_rows"]
        )
        least = f"{_number(summary['slowest_ratio'])} {summary['slowest']}"
        yield _line(summary["chip"], memory, compute, *counts, least)


def _mean(mean: float | None, families: Mapping[str, float], rows: int) -> str:
    return f"{_number(mean)} of {len(families)} families, {rows} rows"


def family_table(record: Any) -> Iterator[str]:
    """Each family's ratio on each chip, memory-bound rows apart from others."""
    chips = [summary["chip"] for summary in record["summaries"]]
    yield from _head("family", "bound by", *chips)
    for bound, key in (("HBM", "families"), ("MXU", "compute_families")):
        shares = [summary[key] for summary in record["summaries"]]
        for family in dict.fromkeys(name for share in shares for name in share):
            yield _line(family, bound, *(_number(share.get(family)) for share in shares))


def _chip_table(record: Any, chip: str) -> Iterator[str]:
    yield from _head("workload", "ours us", "XLA us", "spelling", "bound us", "ratio", "remarks")
    for row in (row for row in record["rows"] if row["chip"] == chip):
        best = min(_spelled(row), key=lambda figure: figure["time_us"], default=None)
        yield _line(
            row["workload"],
            "error" if row["ours"]["error"] else f"{row['ours']['time_us']:.1f}",
            f"{best['time_us']:.1f}" if best else "error",
            best["spelling"] if best else "",
            _bound(row["bound"]),
            _number(row["ratio"]),
            "; ".join(row["notes"]).replace("|", "\\|"),
        )


def _spelled(row: Any) -> Sequence[Any]:
    return [row[name] for name in ("xla", "by_hand") if not row[name]["error"]]


def _bound(bound: Any) -> str:
    return f"{bound['time_us']:.1f} {'H' if bound['is_memory'] else 'M'}" if bound else "-"


def _versions(record: Any) -> str:
    return ", ".join(f"{name} {record['versions'][name]}" for name in ("torch", "jax", "libtpu"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _head(*cells: str) -> Iterator[str]:
    yield _line(*cells)
    yield _line(*["---"] * len(cells))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
