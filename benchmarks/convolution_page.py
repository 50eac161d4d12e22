"""The page of docs/ on convolutions on the CPU, from what convolution.py measured."""

from collections.abc import Iterator, Mapping
from typing import Any

_INTRO = """# Convolutions on the CPU target

Made by `python benchmarks/convolution.py --json docs/convolution.json`, and with `--train`; {host}.

Milliseconds of work of one core for a call of the compiled model and of eager, medians of rounds
that run both in turn. A ratio is the median over the rounds of ours over eager's: by work, which
other processes hardly move, and by the clock, which they do (load is the average of one minute when
the row was done). The bar is {bar} for inference; training (forward, and gradients of the input and
all parameters) is for the record. The errors are against float64, relative to the largest element.

Models have their real widths and random weights: see benchmarks/cases/convolutions.py. The numbers
after a name are the size of the image, where it varies, and the batch. **The ratios in bfloat16 say
little of us**: this processor has no instructions for it, and torch's own convolution is then slow.
"""


def page(record: Mapping[str, Any]) -> str:
    """All of docs/convolution.md, for the JSON of convolution.py."""
    host = ", ".join(f"{name} {version}" for name, version in record["host"]["versions"].items())
    host = f"{host}, on a processor with {record['host']['instructions']}"
    text = _INTRO.format(host=host, bar=record["bar"])
    return f"{text}\n" + "\n".join(_lines(record["models"])) + "\n"


def _lines(models: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    names = ("model x batch", "eager ms", "ours ms", "ratio", "by the clock", "load")
    yield _line(*names, "first call s", "eager error", "our error", "date")
    yield _line(*["---"] * 10)
    for name, row in models.items():
        times = (f"{row[n]:.1f}" for n in ("eager_cpu_ms", "tpu_tile_cpu_ms"))
        ratios = (f"{row['ratio']:.2f}", f"{row['clock_ratio']:.2f}", f"{row['load']:.0f}")
        errors = (f"{row[n]:.0e}" for n in ("eager_error", "tpu_tile_error"))
        yield _line(name, *times, *ratios, f"{row['first_cpu_s']:.1f}", *errors, row["date"])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
