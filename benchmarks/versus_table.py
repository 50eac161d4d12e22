"""The tables and the bars of a comparison with XLA."""

from collections.abc import Iterator, Mapping, Sequence

from figures import Figure
from rich.table import Table
from rich.text import Text
from versus import GEOMEAN_BAR, SHARE_BAR, SLOWEST_BAR, Row, Summary

COLOURS = {"faster": "green", "slower": "red", "tie": "", "none": "yellow"}

NUMBERS = ("kernels", "left", "ours us", "XLA us", "by hand us", "bound us", "share", "ratio")


def make_table(chip: str, rows: Sequence[Row]) -> Table:
    """The rows of one chip, all times estimated."""
    title = f"{chip}: estimated times; ? is not to be trusted; warm times where they differ"
    table = Table(title=title, title_justify="left")
    for heading in (
        "workload",
        *NUMBERS[:-2],
        "by",
        *NUMBERS[-2:],
        "verdict",
        "XLA's best",
        "notes",
    ):
        justify = "right" if heading in NUMBERS else "left"
        table.add_column(heading, justify=justify, overflow="fold")
    for row in (row for row in rows if row.chip == chip):
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> Iterator[str | Text]:
    yield row.workload
    yield str(row.kernel_count)
    yield str(len(row.left_to_xla))
    yield from map(_time, (row.ours, row.xla, row.by_hand))
    yield f"{row.bound.time_us:.1f}" if row.bound else "-"
    yield ("HBM" if row.bound.is_memory else "MXU") if row.bound else "-"
    yield _cell(row.share, ".0%")
    yield _cell(row.ratio, ".2f")
    yield Text(row.verdict, style=COLOURS[row.verdict])
    yield row.best_xla.spelling if row.best_xla else "-"
    yield "; ".join(row.notes)


def _time(figure: Figure) -> str:
    if figure.error:
        return "error"
    mark = "" if figure.is_trusted else " ?"
    warm = f" ({figure.warm_us:.1f} warm)" if figure.differs_warm else ""
    return f"{figure.time_us:.1f}{mark}{warm}"


def summary_lines(summary: Summary) -> Iterator[str]:
    """What the rows of a chip come to, with the bars that they must meet."""
    verdicts = ", ".join(f"{n} {name}" for name, n in summary.verdicts.items() if n)
    yield f"[bold]{summary.chip}[/] (estimates): {verdicts}"
    if summary.geomean is not None:
        what = f"geomean over XLA of {_families(summary.families, summary.memory_rows)}"
        yield _bar(f"{what}, memory-bound", summary.geomean, GEOMEAN_BAR)
    if summary.compute_geomean is not None:
        what = f"geomean over XLA of {_families(summary.compute_families, summary.compute_rows)}"
        yield f"          {what}, compute-bound: {summary.compute_geomean:.2f}"
    if summary.slowest_ratio is not None:
        yield _bar(f"least ratio, of {summary.slowest}", summary.slowest_ratio, SLOWEST_BAR)
    if summary.least_share is not None:
        what = f"least share of the HBM bound, of {summary.least_share_of}"
        yield _bar(what, summary.least_share, SHARE_BAR)
    if summary.not_counted:
        yield f"  not counted: {', '.join(summary.not_counted)}"


def _families(families: Mapping[str, float], rows: int) -> str:
    return f"{len(families)} families ({rows} workloads)"


def _bar(what: str, got: float, bar: float) -> str:
    verdict = "[green]met[/]   " if got >= bar else "[red]missed[/]"
    return f"  {verdict} {what}: {got:.2f}, bar {bar:.2f}"


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
