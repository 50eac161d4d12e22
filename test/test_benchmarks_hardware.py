"""Measured times against the clock: what is chosen, the arithmetic, the page. Compiles nothing."""

import csv
import json
from pathlib import Path

import hardware
import pytest
from figures import Figure
from hardware_table import (
    CAUSES,
    UNPRICED,
    Checked,
    Spread,
    page,
    read_causes,
    shorten,
    spreads,
    summary_table,
)
from measured import Measured, choose, parse_array, read_measured
from pricing import rules_of

ROOT = Path(__file__).parent.parent
ATTENTION = {"q": "bf16[1,8,2,16]", "k": "bf16[1,8,2,16]", "v": "bf16[1,8,2,16]", "mask": "full"}
GATED = {"x": "f32[8,16]", "weights": "f32[16,2,32]", "activation": "jax.nn.silu"}
COLUMNS = ("chip", "implementation", "best_us", "median_us", "samples", "problem", "config")


def measured(time_us=100.0, chip="v6e", kind="splash attention", problem=ATTENTION):
    return Measured(chip, kind, time_us, json.dumps(problem), "")


def checked(estimate, time_us=100.0, doubts="", **changes):
    return Checked(measured(time_us, **changes), Figure(time_us=estimate, doubts=doubts))


def table(folder, *rows):
    file = folder / "measured.csv"
    with file.open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        for implementation, time_us, problem in rows:
            writer.writerow(["v5p", implementation, 1, time_us, 5, json.dumps(problem), ""])
    return file


# -- what is compared ---------------------------------------------------------------------
def test_arrays_are_read_with_their_types():
    assert parse_array("bf16[8,128]") == ((8, 128), "bfloat16")
    assert parse_array("f32[]") == ((), "float32")
    with pytest.raises(ValueError, match="f16"):
        parse_array("f16[8]")


def test_arguments_are_in_the_order_of_the_program_with_the_mask_last():
    masked = ATTENTION | {"mask": {"bool_mask": "bool[1,1,1,8]"}, "bias": "bf16[1,2,8,8]"}
    found = measured(problem=dict(reversed(masked.items()))).arguments
    assert [shape for shape, _ in found] == [(1, 8, 2, 16)] * 3 + [(1, 2, 8, 8), (1, 1, 1, 8)]
    assert [shape for shape, _ in measured(problem=GATED).arguments] == [(8, 16), (16, 2, 32)]
    assert len(measured().arguments) == 3


def test_only_what_the_code_alone_decides_is_compared(tmp_path):
    grouped = {"lhs": "bf16[8,16]", "rhs": "bf16[2,16,32]"}
    file = table(
        tmp_path,
        ("gated_linear_unit", 30.0, GATED),
        ("gated_linear_unit", 9.0, GATED),
        ("gated_linear_unit", 1e6, GATED),
        ("normalization", 50.0, GATED),
        ("xla_chunked_dot_product_attention", 50.0, ATTENTION | {"q": "f16[1,8,2,16]"}),
        ("pallas_mosaic_tpu_ragged_dot", 60.0, grouped | {"group_sizes": [8, 0]}),
        ("pallas_mosaic_tpu_ragged_dot", 70.0, grouped | {"group_sizes": [4, 4]}),
        ("pallas_mosaic_tpu_ragged_dot", 80.0, grouped | {"group_sizes": {"num_groups": 2}}),
    )
    found = read_measured(file)
    assert [(m.kind, m.time_us) for m in found] == [
        ("XLA gated linear unit", 30.0),
        ("grouped matmul", 60.0),
    ]


def test_rows_are_spread_over_the_times_of_each_chip_and_kind():
    rows = [measured(float(t)) for t in range(100, 0, -1)] + [measured(7.0, chip="v5p")]
    found = choose(rows, 4)
    assert [(m.chip, m.time_us) for m in found] == [
        ("v5p", 7.0),
        ("v6e", 1.0),
        ("v6e", 34.0),
        ("v6e", 67.0),
        ("v6e", 100.0),
    ]


def test_the_choice_does_not_depend_on_the_order_of_the_table():
    rows = [measured(float(t % 7), problem=ATTENTION | {"n": t}) for t in range(30)]
    assert choose(rows, 5) == choose(rows[::-1], 5)


# -- arithmetic ---------------------------------------------------------------------------
def test_a_ratio_is_the_estimate_over_the_measured_time():
    assert checked(150.0, 200.0).ratio == 0.75
    assert checked(150.0, doubts="2 branches guessed").ratio is None
    assert Checked(measured(), Figure("refused")).ratio is None


def test_medians_and_spreads_are_of_a_chip_and_a_kind():
    rows = [checked(e) for e in (90.0, 120.0, 100.0, 80.0, 70.0)]
    rows += [checked(1.0, doubts="cut short"), checked(50.0, chip="v5p")]
    v5p, v6e = spreads(rows)
    assert (v5p.chip, v5p.median, v5p.quartiles, v5p.left_out) == ("v5p", 0.5, None, 0)
    assert (v6e.median, v6e.quartiles, v6e.left_out) == (0.9, (0.8, 1.0), 1)
    assert (v6e.ratios[0], v6e.ratios[-1]) == (0.7, 1.2)


def test_nothing_to_trust_has_no_median():
    (found,) = spreads([checked(1.0, doubts="cut short")])
    assert found == Spread("v6e", "splash attention", (), 1)
    assert found.median is None
    assert list(summary_table([checked(1.0, doubts="cut short")]))[-1] == (
        "| v6e | splash attention | 0 | - | - | - | - | 1 |"
    )


def test_a_row_is_read_again_as_it_was_written():
    for written in (checked(90.0), Checked(measured(), Figure("refused"))):
        assert Checked.of_json(json.loads(json.dumps(written.as_json()))) == written


def test_figures_stay_for_chips_of_the_same_rules(tmp_path):
    file = tmp_path / "hardware.json"
    assert hardware.read_checked(file) == []
    rows = [checked(90.0), checked(50.0, chip="v5p")]
    rules = {chip: rules_of(chip) for chip in ("v5p", "v6e")}
    recorded = {"rules": rules, "rows": [row.as_json() for row in rows]}
    file.write_text(json.dumps(recorded))
    assert hardware.read_checked(file) == rows
    rules["v5p"] = "others"
    file.write_text(json.dumps(recorded))
    assert hardware.read_checked(file) == [rows[0], Checked(rows[1].measured, UNPRICED)]


def test_a_run_may_be_of_some_chips_and_kinds():
    assert hardware.is_asked(measured(), ["v5p", "v6e"], ["splash attention"])
    assert not hardware.is_asked(measured(), ["v5p"], ["splash attention"])
    assert not hardware.is_asked(measured(), ["v6e"], ["grouped matmul"])


# -- the page -----------------------------------------------------------------------------
def test_the_page_tells_every_program_and_why_it_is_left_out():
    rows = [checked(90.0), checked(80.0, doubts="2 branches guessed")]
    rows.append(Checked(measured(300.0, chip="v5p"), Figure("no | room\nmore")))
    rows.append(Checked(measured(700.0), UNPRICED))
    text = page("jax 1", rows, "## Causes\n")
    assert "3 of 4 chosen programs are priced, 1 with trust." in text
    assert "| 700 |" not in text
    assert "| v6e | splash attention | 1 | 0.90 | - | 0.90 | 0.90 | 1 |" in text
    arrays = "bf16[1,8,2,16] bf16[1,8,2,16] full"
    assert f"| v6e | splash attention | {arrays} | 100 | 90 | 0.90 |  |" in text
    assert f"| {arrays} | 100 | 80 | - | 2 branches guessed |" in text
    assert f"| {arrays} | 300 | - | - | no \\| room |" in text
    assert text.index("## Causes") < text.index("## Every program")


def test_what_people_wrote_about_causes_stays(tmp_path):
    file = tmp_path / "hardware.md"
    assert read_causes(file) == f"{CAUSES}\nNobody has looked yet.\n"
    file.write_text(page("jax 1", [checked(90.0)], f"{CAUSES}\n- v6e: fast\n- v5p: slow\n"))
    assert read_causes(file) == f"{CAUSES}\n- v6e: fast\n- v5p: slow\n"
    again = page("jax 1", [checked(90.0)], read_causes(file))
    assert again == file.read_text()


def test_the_page_is_that_of_the_record():
    recorded = json.loads((ROOT / "docs" / "hardware.json").read_text())
    rows = [Checked.of_json(values) for values in recorded["rows"]]
    file = ROOT / "docs" / "hardware.md"
    made = ", ".join(f"{name} {v}" for name, v in recorded["versions"].items())
    assert page(made, rows, read_causes(file)) == file.read_text()


def test_problems_are_told_apart_by_arrays_and_masks():
    masked = ATTENTION | {"mask": {"is_causal": True}}
    assert shorten(json.dumps(masked)).endswith("bf16[1,8,2,16] causal")
    assert shorten(json.dumps(GATED)) == "f32[8,16] f32[16,2,32]"
