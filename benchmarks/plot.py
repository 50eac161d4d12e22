"""Draws what vs_xla.py wrote, for publish.py.

roofline.svg, .png    every kernel's estimated FLOP/s over its FLOPs per HBM byte, under the roofs
versus_xla.svg, .png  XLA's estimated time over ours, for every workload

One panel for each generation. The area of a kernel's point is its share of its program's time; one
that is far below its roof and takes a good part of the time is named.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from versus import TIE

STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    # The same figures draw the same file.
    "svg.hashsalt": "tpu_inductor",
}
COLOURS = {"faster": "#1b7fb5", "tie": "#8c8c8c", "slower": "#d1495b"}
KINDS = {True: ("#e07b00", "with a matmul"), False: ("#1b7fb5", "without")}

ON_MXU = {"dot", "conv"}
"""Primitives whose kernels count as matmuls."""

MOST = 4.0
"""Longer bars are cut, and only their number tells."""

NAMED_BELOW = 0.7
NAMED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel in the roofline; `share` is its part of its program's time."""

    workload: str
    intensity: float
    tflops: float
    share: float
    has_matmul: bool

    def is_near(self, other: "Point") -> bool:
        """Whether their names would lie on each other."""
        across = abs(math.log10(self.intensity / other.intensity))
        return across < 1.5 and abs(math.log10(self.tflops / other.tflops)) < 0.15


def draw_roofline(record: Any) -> Figure:
    """Every kernel with HBM traffic of its own, one panel for each chip."""
    chips = record["chips"]
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, len(chips), sharey=True, squeeze=False)[0]
    for panel, (chip, peaks) in zip(panels, chips.items(), strict=True):
        _draw_roofs(panel, chip, peaks)
        points = list(_points(record["rows"], chip))
        for point in points:
            _draw_point(panel, point)
        _name_slow(panel, points, peaks)
    panels[0].set_ylabel("estimated TFLOP/s")
    handles = [
        panels[0].scatter([], [], s=25, color=colour, alpha=0.6, label=label)
        for colour, label in KINDS.values()
    ]
    panels[0].legend(handles=handles, title="kernels", loc="upper left", frameon=False)
    figure.suptitle("Kernels of tpu_tile under the roofs of the chip, estimated")
    return figure


def _draw_roofs(panel: Axes, chip: str, peaks: Any) -> None:
    bf16, int8, bandwidth = peaks["bf16_tflops"], peaks["int8_tops"], peaks["hbm_gbps"] / 1e3
    ends = [1e-2, bf16 / bandwidth, 1e5]
    panel.plot(ends, [_roof(x, peaks) for x in ends], color="black", linewidth=1)
    tops = [("bf16", bf16, "TFLOP/s")]
    if int8 > bf16:
        ends = [bf16 / bandwidth, int8 / bandwidth, 1e5]
        panel.plot(ends, [bf16, int8, int8], color="black", linewidth=0.7, linestyle=":")
        tops.append(("int8", int8, "TOP/s"))
    for name, top, unit in tops:
        text = f"{name} {top:.0f} {unit}"
        panel.text(1.5e4, top * 1.08, text, ha="right", va="bottom", fontsize=6)
    panel.set(xscale="log", yscale="log", xlim=(0.05, 2e4), ylim=(0.03, 4e3))
    panel.set_title(f"{chip}, HBM {peaks['hbm_gbps']:.0f} GB/s", fontsize=9)
    panel.set_xlabel("FLOPs per HBM byte")
    panel.grid(linewidth=0.3, alpha=0.6)


def _roof(intensity: float, peaks: Any) -> float:
    """TFLOP/s at FLOPs per byte."""
    return min(peaks["bf16_tflops"], intensity * peaks["hbm_gbps"] / 1e3)


def _points(rows: Sequence[Any], chip: str) -> Iterator[Point]:
    for row in (r for r in rows if r["chip"] == chip and not r["ours"]["error"]):
        for kernel in row["kernels"]:
            if kernel["hbm_bytes"] and kernel["time_us"] and kernel["flops"]:
                yield Point(
                    row["workload"],
                    kernel["flops"] / kernel["hbm_bytes"],
                    kernel["flops"] / kernel["time_us"] / 1e6,
                    min(1.0, kernel["time_us"] / row["ours"]["time_us"]),
                    bool(ON_MXU & set(kernel["operators"].split(", "))),
                )


def _draw_point(panel: Axes, point: Point) -> None:
    colour, _ = KINDS[point.has_matmul]
    size = 4 + 26 * point.share
    panel.scatter([point.intensity], [point.tflops], s=size, color=colour, alpha=0.6, linewidths=0)


def _name_slow(panel: Axes, points: Sequence[Point], peaks: Any) -> None:
    """Names what is far below its roof, the farthest first, unless a name is near already."""
    reached = [(p.tflops / _roof(p.intensity, peaks), p) for p in points if p.share > NAMED_SHARE]
    named: list[Point] = []
    for part, point in sorted(reached, key=lambda pair: pair[0]):
        if part < NAMED_BELOW and not any(point.is_near(other) for other in named):
            named.append(point)
            at = (point.intensity, point.tflops)
            panel.annotate(
                point.workload, at, xytext=(3, -7), textcoords="offset points", fontsize=6
            )


def draw_versus(record: Any) -> Figure:
    """XLA's time over ours for every workload that has both, one panel for each chip."""
    chips = list(record["chips"])
    rows = [row for row in record["rows"] if row["ratio"] is not None]
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure = Figure(figsize=(10, 1.3 + 0.19 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(chips), sharey=True, squeeze=False)[0]
    for panel, chip in zip(panels, chips, strict=True):
        _draw_scale(panel, chip, record["summaries"])
        for row in (r for r in rows if r["chip"] == chip):
            _draw_bar(panel, names.index(row["workload"]), row)
    panels[0].set_yticks(range(len(names)), names, fontsize=7)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.suptitle(
        "Estimated speed-up over XLA's fastest spelling (shaded: ties; pale: not counted)"
    )
    return figure


def _draw_scale(panel: Axes, chip: str, summaries: Sequence[Any]) -> None:
    panel.axvspan(1 / TIE, TIE, color="#e6e6e6", zorder=0)
    panel.axvline(1.0, color="black", linewidth=0.8, zorder=3)
    ticks = (0.5, 1, 1.5, 2, 3, 4)
    panel.set_xscale("log")
    panel.set_xlim(0.5, 1.25 * MOST)
    panel.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.tick_params(axis="y", length=0)
    means = [s["geomean"] for s in summaries if s["chip"] == chip and s["geomean"] is not None]
    title = chip + "".join(f": geomean {mean:.2f}x of memory-bound families" for mean in means)
    panel.set_title(title, fontsize=9)


def _draw_bar(panel: Axes, place: int, row: Any) -> None:
    shown = min(max(row["ratio"], 0.5), MOST)
    alpha = 1.0 if row["counts"] else 0.35
    colour = COLOURS[row["verdict"]]
    panel.barh(place, shown - 1.0, left=1.0, height=0.7, color=colour, alpha=alpha, zorder=2)
    text = f" {row['ratio']:.2f}" + ("" if row["is_trusted"] else " ?")
    panel.text(max(shown, 1.0), place, text, va="center", fontsize=6, alpha=max(alpha, 0.6))


def save(figure: Figure, folder: Path, name: str) -> None:
    """Writes `name`.svg and `name`.png."""
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=160)


def plot(record: Any, folder: Path) -> None:
    """Draws both pictures of one run into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        save(draw_roofline(record), folder, "roofline")
        save(draw_versus(record), folder, "versus_xla")
