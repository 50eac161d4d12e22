"""The calibration of the cost model: what counts, what it comes to, what is kept. No compiler."""

import json

import pytest
from calibrate import ALL, summary_line
from calibration import Sample, Summary, percentile, spread, worst
from calibration_cases import CASES, LEFT_OUT
from calibration_kernels import find_kernels
from calibration_table import page
from kernel_prices import KernelPrice, KernelPrices, key_of
from spellings import spell
from workloads import WORKLOADS

from tpu_inductor.aot.messages import CompileReply, CompileRequest, DevicelessResult
from tpu_inductor.aot.price import OpPrice, Price
from tpu_inductor.target import TARGETS


def price(us, error="", is_trusted=True):
    return KernelPrice(error, us + 1, us, is_trusted=is_trusted)


def sample(estimate, us, kernel="softmax", rank=0, floor=1.0, chip="v5e", **kwargs):
    kept = price(us, **kwargs)
    return Sample(kernel, chip, "rows", f"{8 << rank} x 128", rank, estimate, floor, kept)


# -- samples ------------------------------------------------------------------------------
def test_an_error_is_relative_to_the_clock():
    assert sample(110, 100).error == pytest.approx(0.1)
    assert sample(90, 100).error == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("doubtful", "why"),
    [
        (sample(10, 0, error="VMEM is full"), "no price: VMEM is full"),
        (sample(10, 10, is_trusted=False), "does not trust"),
        (sample(10, 9.4, floor=10.0), "missed copies"),
    ],
)
def test_what_the_clock_cannot_tell_does_not_count(doubtful, why):
    assert why in doubtful.doubt
    assert doubtful.as_json()["error"] is None
    assert Summary.of([doubtful, sample(11, 10)]).candidates == 1


def test_a_price_just_below_the_hbm_bound_counts():
    assert not sample(10, 9.6, floor=10.0).doubt


# -- summaries ----------------------------------------------------------------------------
def test_a_summary_takes_absolute_errors_of_all_candidates():
    errors = [-0.3, 0.1, 0.2, -0.05, 0.0]
    samples = [sample(100 * (1 + e), 100, rank=i) for i, e in enumerate(errors)]
    summary = Summary.of(samples)
    assert (summary.kernels, summary.candidates) == (1, 5)
    assert summary.median == pytest.approx(0.1)
    assert summary.p90 == pytest.approx(0.3)


def test_kernels_of_one_name_on_two_chips_are_two():
    assert Summary.of([sample(1, 1), sample(1, 1, chip="v6e")]).kernels == 2


def test_percentiles_are_values_of_the_list():
    assert percentile(list(range(1, 11)), 0.9) == 9
    assert percentile([3.0], 0.9) == 3.0


def test_nothing_comes_to_nothing():
    assert Summary.of([]) == Summary(0, 0, None, None, ())
    assert Summary.of([]).good_share is None
    assert summary_line("v5e", []) == "v5e: nothing was priced"


def test_a_choice_within_five_percent_of_the_best_is_good():
    good = [sample(90, 104, "a"), sample(95, 100, "a", rank=1)]
    bad = [sample(90, 106, "b"), sample(95, 100, "b", rank=1), sample(99, 120, "b", rank=5)]
    summary = Summary.of([*good, *bad])
    assert [c.is_good for c in summary.choices] == [True, False]
    assert summary.choices[1].best.rank == 1
    assert summary.good_share == 0.5


def test_no_choice_without_the_chosen_or_without_another():
    alone = [sample(90, 100, "alone")]
    unseen = [sample(90, 0, "b", error="refused"), sample(91, 9, "b", 1), sample(92, 8, "b", 2)]
    assert Summary.of([*alone, *unseen]).choices == ()


def test_the_worst_come_first_whatever_their_sign():
    samples = [sample(100 + e, 100, str(e)) for e in (1, -50, 20)]
    assert [s.kernel for s in worst([*samples, sample(9, 0, error="no")], 2)] == ["-50", "20"]


@pytest.mark.parametrize(
    ("candidates", "wanted", "places"),
    [
        (21, 4, (0, 1, 5, 10)),
        (180, 3, (0, 1, 89)),
        (5, 4, (0, 1, 2, 3)),
        (2, 4, (0, 1)),
        (1, 4, (0,)),
        (9, 1, (0,)),
    ],
)
def test_places_are_the_first_two_and_some_of_the_better_half(candidates, wanted, places):
    assert spread(candidates, wanted) == places


# -- kernels ------------------------------------------------------------------------------
def test_cases_and_workloads_have_different_names():
    assert not set(CASES) & set(WORKLOADS)
    assert set(WORKLOADS) >= LEFT_OUT


def test_equal_kernels_are_found_once():
    seen = set()
    spelled = spell(ALL["add_small_f32"], "v5p", "pallas")
    (kernel,) = find_kernels("one", spelled, TARGETS["v5p"], seen)
    assert not list(find_kernels("two", spelled, TARGETS["v5p"], seen))
    assert kernel.floor_us == pytest.approx(3 * 4 * 512 * 4096 / 2765e3)
    request = kernel.request(kernel.places(4)[1])
    assert request.arguments == (((512, 4096), "float32"),) * 2
    assert "pallas_call" in request.source


def test_fewer_schedules_of_matmuls_are_taken():
    spelled = spell(ALL["batched_512_bf16"], "v5e", "pallas")
    (kernel,) = find_kernels("bmm", spelled, TARGETS["v5e"], set())
    assert len(kernel.places(4)) == 3


@pytest.mark.parametrize("name", list(CASES)[::4])
def test_a_case_has_a_kernel(name):
    spelled = spell(CASES[name], "v6e", "pallas")
    assert not spelled.error
    assert list(find_kernels(name, spelled, TARGETS["v6e"], set()))


# -- what is kept -------------------------------------------------------------------------
def op(name, cycles, stall):
    return OpPrice(name, 1, cycles, 0, stall, 0, 0, 0, 0, 0, 0, 0, 0)


class FakePool:
    """Prices every program at as many microseconds as its text is long, but refuses some."""

    def __init__(self):
        self.asked = []

    def run(self, requests):
        for request in requests:
            self.asked.append(request.source)
            error = "too large\nfor VMEM" if "refuse" in request.source else ""
            us = float(len(request.source))
            ops = (op("region.1", us - 1, 1), op("copy", 5, 0))
            given = None if error else Price("v5e", us + 5, us, 1, us, 0, 1, 0, (), False, 1, ops)
            yield CompileReply(DevicelessResult("k", "v5e", error), given, 1.0)


def request(source, target="v5e"):
    return CompileRequest("k", source, (), target)


def test_prices_outlive_the_process_and_are_not_asked_again(tmp_path):
    file, first, second = tmp_path / "prices.json", FakePool(), FakePool()
    found = KernelPrices(first, file).price([request("abc"), request("abcd"), request("abc")])
    assert [p.time_us for p in found] == [3, 4, 3]
    assert [p.program_us for p in found] == [8, 9, 8]
    assert first.asked == ["abc", "abcd"]
    again = KernelPrices(second, file).price([request("abcd"), request("new")])
    assert [p.time_us for p in again] == [4, 3]
    assert second.asked == ["new"]


def test_refusals_are_asked_again(tmp_path):
    file, pool = tmp_path / "prices.json", FakePool()
    for _ in range(2):
        (found,) = KernelPrices(pool, file).price([request("refuse")])
        assert found.error == "too large"
    assert len(pool.asked) == 2


def test_prices_are_of_one_chip():
    assert key_of(request("a")) != key_of(request("a", "v6e"))


def test_another_file_is_no_file_of_prices(tmp_path):
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"a": {"b": 1}}))
    with pytest.raises(ValueError, match="holds no prices of kernels"):
        KernelPrices(FakePool(), file)


# -- the page -----------------------------------------------------------------------------
def test_the_page_says_how_it_was_made_and_lists_what_was_left_out():
    samples = [
        sample(130, 100, "a"),
        sample(131, 90, "a", rank=1),
        sample(10, 5, "b", floor=10.0),
        sample(50, 50, "a", chip="v6e"),
    ]
    text = page("python benchmarks/calibrate.py a b", "jax 1", ["v5e", "v6e"], samples, 3)
    assert text.startswith("# Calibration of the cost model\n\nMade by `python benchmarks/")
    assert "| v5e | 1 | 2 | 37.8 % | 45.6 % | 1 | 0.0 % | 1 |" in text
    assert "| v6e | 1 | 1 | 0.0 % | 0.0 % | 0 | - | 0 |" in text
    assert "| v5e | a | 8 x 128 | 100.0 | 16 x 128 | 90.0 | 11.1 % |" in text
    assert "## Left out: 1 candidates" in text
    assert "| a | 130.0 | 100.0 | +30.0 % | 50.0 | 50.0 | +0.0 % |" in text
    assert "estimates" in text
