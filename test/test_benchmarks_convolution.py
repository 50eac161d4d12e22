"""The page on convolutions says what was measured."""

import json
from pathlib import Path

from convolution_page import page

ROOT = Path(__file__).parent.parent


def test_the_page_is_that_of_the_record():
    record = json.loads((ROOT / "docs" / "convolution.json").read_text())
    assert page(record) == (ROOT / "docs" / "convolution.md").read_text()


def test_a_row_tells_times_ratios_and_errors():
    row = {
        "date": "2030-01-02",
        "load": 3.4,
        "first_cpu_s": 5.06,
        "eager_cpu_ms": 20.04,
        "tpu_tile_cpu_ms": 30.0,
        "ratio": 1.5,
        "clock_ratio": 1.75,
        "eager_error": 2e-7,
        "tpu_tile_error": 3e-6,
    }
    host = {"versions": {"torch": "9", "jax": "8"}, "instructions": "AVX2"}
    text = page({"host": host, "bar": 1.15, "models": {"net x 2": row}})
    assert "torch 9, jax 8, on a processor with AVX2." in text
    assert "| net x 2 | 20.0 | 30.0 | 1.50 | 1.75 | 3 | 5.1 | 2e-07 | 3e-06 | 2030-01-02 |" in text
