"""The comparison with XLA: bounds, verdicts, summaries, kept prices, pictures. Compiles nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import vs_xla
from bounds import Bound, count_flops, least_bytes, peaks
from figures import Figure
from kernel_graphs import dot, tensor
from opponents import Opponent, find_opponents, name_figures, raise_vmem
from plot import plot
from pricing import Job, Pricer, rules_of
from publish import END, START, put_lines
from spellings import Spelling
from versus import KernelFigure, Row, Summary, geomean, judge
from versus_page import coverage, page, readme_lines
from versus_table import make_table, summary_lines
from workloads import WORKLOADS

from tpu_inductor.aot.messages import CompileReply, CompileRequest, DevicelessResult
from tpu_inductor.aot.price import OpPrice, Price
from tpu_inductor.aot.timing import TIMINGS
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.types import DType
from tpu_inductor.target import TARGETS

V4, V5E, V5P = TARGETS["v4"], TARGETS["v5e"], TARGETS["v5p"]
ROOT = Path(__file__).parent.parent
F32, BF16, I8, I64 = DType.F32, DType.BF16, DType.I8, DType.I64


def matmul(size, dtype, precision="highest"):
    b = Builder()
    x, w = (tensor(b, name, (size, size), dtype) for name in "xw")
    return b.finish("matmul", [dot(b, x, w, precision)])


# -- bounds -------------------------------------------------------------------------------
def test_bytes_are_those_of_used_inputs_and_new_outputs_once():
    b = Builder()
    x, _unused = tensor(b, "x", (10, 10)), tensor(b, "unused", (1000,))
    y = b.op("add", x, x)
    assert least_bytes(b.finish("twice", [y, y, x])) == 2 * 400


def test_a_gather_reads_its_rows_alone():
    b = Builder()
    table, ids = tensor(b, "table", (1000, 8)), tensor(b, "ids", (5,), I64)
    rows = b.one("gather", table, ids, attrs=A.Gather((0,)))
    assert least_bytes(b.finish("embed", [rows])) == 5 * 8 * 4 + 5 * 8 + 5 * 8 * 4


def test_a_gather_counts_nothing_beside_a_whole_read():
    b = Builder()
    table, ids = tensor(b, "table", (1000, 8)), tensor(b, "ids", (5,), I64)
    rows = b.one("gather", table, ids, attrs=A.Gather((0,)))
    doubled = b.op("add", table, table)
    assert least_bytes(b.finish("both", [rows, doubled])) == 2 * 32000 + 40 + 160


def test_overlapping_slices_read_no_more_than_the_input():
    b = Builder()
    x = tensor(b, "x", (10,))
    parts = [b.slice(x, 0, start, start + 8) for start in (0, 1, 2)]
    assert least_bytes(b.finish("parts", parts)) == 40 + 3 * 32


@pytest.mark.parametrize(
    ("target", "dtype", "precision", "passes"),
    [
        (V5E, BF16, "highest", 1),
        (V5E, F32, "highest", 6),
        (V5E, F32, "high", 3),
        (V5E, F32, "default", 1),
        (V5E, I8, "highest", 0.5),
        (V4, I8, "highest", 1),
    ],
)
def test_matmuls_run_at_the_peak_of_their_type(target, dtype, precision, passes):
    bound = Bound.of([matmul(4096, dtype, precision)], target)
    assert bound.mxu_us == pytest.approx(2 * 4096**3 * passes / target.bf16_tflops / 1e6)
    assert not bound.is_memory
    assert bound.time_us == bound.mxu_us


def test_a_v5p_device_has_two_cores():
    bound = Bound.of([matmul(128, BF16)], V5P)
    assert bound.mxu_us == pytest.approx(2 * 128**3 / 459e6)
    assert bound.hbm_us == pytest.approx((2 * 2 + 4) * 128**2 / 2765e3)
    assert bound.is_memory
    assert peaks(V5P) == {"hbm_gbps": 2765, "bf16_tflops": 459, "int8_tops": 918}


def test_other_flops_are_elements_of_arithmetic():
    b = Builder()
    x = b.convert(tensor(b, "x", (4, 8), BF16), F32)
    b.reduce("reduce_sum", b.op("exp", x), (1,))
    assert count_flops(b.finish("sums", []).eqns) == 2 * 32


# -- verdicts and summaries ---------------------------------------------------------------
def figure(time_us, **changes):
    return Figure(**{"time_us": time_us, "warm_us": time_us, "hbm_bytes": 1000, **changes})


def row(name="softmax", ours=10.0, xla=20.0, hand=30.0, **changes):
    """A row whose figures may be given as times; its family is its name unless it is given."""
    figures = [f if isinstance(f, Figure) else figure(f) for f in (ours, xla, hand)]
    kernel = KernelFigure(name, 1, "exp, div", "rows", "m", 9.0, 5_000_000, 900)
    settings = {"bound": Bound(1000, 8.0, 1.0), "has_sort": False, "kernels": (kernel,)}
    settings |= changes
    bound, has_sort = settings.pop("bound"), settings.pop("has_sort")
    family, chip = settings.pop("family", name), settings.pop("chip", "v5e")
    return Row(name, family, chip, bound, has_sort, *figures, **settings)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.11, "faster"), (1.1, "tie"), (1.0, "tie"), (0.91, "tie"), (0.9, "slower"), (None, "none")],
)
def test_ratios_within_a_tenth_are_ties(ratio, verdict):
    assert judge(ratio) == verdict


def test_the_opponent_is_the_faster_spelling_that_compiles():
    assert row(xla=20.0, hand=15.0).ratio == 1.5
    assert row(xla=20.0, hand=Figure("refused")).ratio == 2.0
    assert row(xla=Figure("refused"), hand=Figure("refused")).ratio is None
    assert row(ours=Figure("refused")).verdict == "none"


def test_a_doubt_about_a_figure_that_decides_leaves_the_row_out():
    doubtful = figure(15.0, doubts="2 branches guessed")
    assert not row(hand=doubtful).counts
    assert row(xla=12.0, hand=doubtful).counts
    assert not row(ours=figure(10.0, doubts="cut short")).counts
    assert row(hand=doubtful).notes == ("by hand not trusted: 2 branches guessed",)


def test_xla_above_four_times_the_bound_is_pathological_unless_it_sorts():
    assert row(xla=33.0, hand=40.0).is_pathological
    assert not row(xla=33.0, hand=31.0).is_pathological
    assert not row(xla=33.0, hand=40.0, has_sort=True).is_pathological
    assert not row(xla=33.0, hand=40.0).counts
    assert row(xla=33.0, hand=40.0).verdict == "faster"


def test_warm_times_are_told_where_they_differ():
    assert figure(10.0, warm_us=9.0).differs_warm
    assert not figure(10.0, warm_us=9.6).differs_warm
    assert row(ours=figure(10.0, warm_us=5.0)).warm_ratio == 4.0


def test_geomeans_are_over_memory_bound_rows_that_count():
    rows = [
        row("a", xla=20.0),
        row("b", ours=10.0, xla=5.0),
        row("compute", xla=9.5, bound=Bound(1000, 1.0, 8.0)),
        row("pathological", xla=90.0, hand=90.0),
        row("doubtful", ours=figure(1.0, doubts="cut short")),
        row("failed", ours=Figure("refused")),
        row("elsewhere", xla=30.0, chip="v6e"),
    ]
    found = Summary.of("v5e", rows)
    assert found.geomean == pytest.approx(1.0)
    assert found.memory_rows == 2
    assert (found.slowest, found.slowest_ratio) == ("b", 0.5)
    assert found.verdicts == {"faster": 3, "tie": 1, "slower": 1, "none": 1}
    assert found.not_counted == ("pathological", "doubtful", "failed")
    assert (found.compute_geomean, found.compute_rows) == (0.95, 1)


def test_a_family_has_one_vote_in_a_geomean():
    many = [row(f"softmax {i}", xla=40.0, hand=40.0, family="softmax") for i in range(14)]
    counted = [replace(r, bound=Bound(1000, 20.0, 1.0)) for r in many]
    found = Summary.of("v5e", [*counted, row("sums", xla=10.0)])
    assert found.families == {"softmax": pytest.approx(4.0), "sums": 1.0}
    assert found.geomean == pytest.approx(2.0)
    assert found.memory_rows == 15


def test_a_row_is_read_again_as_it_was_written():
    for written in (row(), row(ours=Figure("refused"), bound=None, has_sort=True)):
        assert Row.of_json(json.loads(json.dumps(written.as_json()))) == written


def test_nothing_has_no_geomean():
    assert geomean([]) is None
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert list(summary_lines(Summary.of("v5e", [])))
    assert make_table("v5e", [row(), row(ours=Figure("refused"), bound=None)]).row_count == 2


# -- spellings of XLA's -------------------------------------------------------------------
def test_the_fastest_spelling_is_named_and_errors_lose():
    figures = [figure(30.0), Figure("refused"), figure(20.0)]
    named = name_figures([Opponent(name, ()) for name in "abc"], figures)
    assert (Figure.fastest(named).spelling, Figure.fastest(named).time_us) == ("c", 20.0)
    assert Figure.fastest(named[1:2]).error == "refused"


def test_a_spelling_without_programs_keeps_its_own_error():
    (found,) = name_figures([Opponent("graph", (), "runs in torch")], [Figure.total([])])
    assert found.error == "runs in torch"


def test_vmem_is_raised_to_what_our_kernels_may_take_unless_nothing_is_left_to_win():
    spelled = [Opponent("graph", (job(),)), Opponent("hand", (job(3),)), Opponent("no", (), "why")]
    bound = Bound(1000, 100.0, 1.0)
    assert not raise_vmem(spelled, [figure(130.0), figure(101.0)], bound, "v5e")
    graph, hand = raise_vmem(spelled, [figure(130.0), Figure("refused")], bound, "v5e")
    assert (graph.spelling, hand.spelling) == ("graph, VMEM raised", "hand, VMEM raised")
    assert graph.jobs[0].request.scoped_vmem_kib == V5E.vmem_limit_bytes >> 10
    assert len(raise_vmem(spelled, [], None, "v5e")) == 2


def test_every_spelling_of_a_workload_is_an_opponent():
    workload = WORKLOADS["softmax_4k_f32"]
    found = find_opponents(workload, Spelling("runs in torch", None), "v5e")
    assert [o.spelling for o in found] == ["graph", "softmax", "softmax_single_pass"]
    assert [o.error for o in found] == ["runs in torch", "", ""]


# -- prices -------------------------------------------------------------------------------
PROGRAM = "def program(x):\n    return x * {factor}  # {comment}\n"


def job(factor=2, comment="", target="v5e", is_xla_only=True):
    source = PROGRAM.format(factor=factor, comment=comment)
    request = CompileRequest("scale", source, (((8, 128), "float32"),), target)
    return Job(request, is_xla_only)


class Pool:
    """Answers every request that is not about v6e with a price, and remembers it."""

    def __init__(self):
        self.asked = []

    def run(self, requests):
        for request in requests:
            assert request.is_warm
            self.asked.append(request)
            result = DevicelessResult("scale", request.target, "")
            op = OpPrice("scale.1", 1, 500.0, 0, 500.0, 0, 64, 36, 0, 1, 0, 0, 0)
            price = Price("v5p", 3.0, 1.0, 200, 1.0, 0.0, 64, 0, (), False, 1000.0, (op,))
            yield CompileReply(result, price, 1.0, warm=price)


def test_equal_functions_have_equal_keys():
    assert job().key == job(comment="x").key
    raised = replace(job(), request=replace(job().request, scoped_vmem_kib=1024))
    assert len({job().key, job(factor=3).key, job(target="v6e").key, raised.key}) == 4


def test_xla_alone_is_priced_once_and_kept(tmp_path):
    file, pool = tmp_path / "kept.json", Pool()
    figures = Pricer(pool, file).price([job(), job(comment="again"), job(target="v6e")])
    assert len(pool.asked) == 2
    assert [f.time_us for f in figures] == [3.0, 3.0, 3.0]
    again = Pricer(pool, file).price([job(), job(is_xla_only=False)])
    assert [r.target for r in pool.asked[2:]] == ["v5e"]
    assert [len(f.ops) for f in again] == [0, 1]


def test_rules_are_those_of_a_chip(monkeypatch):
    before = rules_of("v5e"), rules_of("v5p")
    assert before[0] != before[1]
    faster = replace(TIMINGS["v5p"], hbm_gbps=3000)
    monkeypatch.setitem(TIMINGS, "v5p", faster)
    assert rules_of("v5e") == before[0]
    assert rules_of("v5p") != before[1]


def test_a_file_of_something_else_is_refused(tmp_path):
    file = tmp_path / "kept.json"
    file.write_text('{"a": {"b": 1}}')
    with pytest.raises(ValueError, match="holds no prices"):
        Pricer(Pool(), file)


def test_figures_are_of_a_device_and_add_up():
    (reply,) = Pool().run([CompileRequest("scale", "", (), "v5p", is_warm=True)])
    one = Figure.of(reply, cores=2)
    assert (one.ops[0].time_us, one.ops[0].hbm_bytes) == (1.0, 200)
    both = Figure.total([one, one])
    assert (both.time_us, both.hbm_bytes, both.vmem_bytes) == (6.0, 400, 64)
    assert Figure.total([one, Figure("refused")]).error == "refused"
    assert Figure.total([]).error


# -- what is kept and published -----------------------------------------------------------
def recorded(rows, chips=("v5e",)):
    return json.loads(json.dumps(vs_xla.record(rows, chips, None)))


def test_a_run_may_add_to_a_file_of_the_same_rules(tmp_path):
    file = tmp_path / "versus.json"
    old = [row("column_sum"), row("softmax_4k_f32", xla=30.0)]
    assert vs_xla.kept_rows(file, None) == []
    file.write_text(json.dumps(recorded(old)))
    assert vs_xla.kept_rows(file, None) == old
    assert vs_xla.kept_rows(file, "max-autotune") == []
    file.write_text(json.dumps({**recorded(old), "rules": {"v5e": "others"}}))
    assert vs_xla.kept_rows(file, None) == []


def test_new_rows_supersede_those_of_the_same_workload_and_chip():
    old = [row("softmax_4k_f32", xla=30.0), row("column_sum"), row("column_sum", chip="v6e")]
    new = [row("column_sum", xla=12.0), row("softmax_1k_f32")]
    found = vs_xla.replace_rows(old, new)
    assert found == [new[1], old[0], new[0], old[2]]


def test_the_page_tells_every_row_with_the_spelling_that_won():
    rows = [
        row("softmax_4k_f32", hand=figure(15.0, spelling="single_pass"), family="softmax"),
        row("qkv_fused", bound=Bound(1000, 1.0, 9.0), family="qkv"),
        row("top_p", ours=Figure("refused | by\nMosaic"), bound=None),
    ]
    text = page(recorded(rows))
    assert "| softmax_4k_f32 | 10.0 | 15.0 | single_pass | 8.0 H | 1.50 |  |" in text
    assert "| qkv_fused | 10.0 | 20.0 |  | 9.0 M | 2.00 |  |" in text
    assert "| top_p | error | 20.0 |  | - | - | ours fails: refused \\| by |" in text
    assert "| v5e | 1.50 of 1 families, 1 rows | 2.00 of 1 families, 1 rows | 2 | 0 | 0 |" in text
    assert f"3 of {len(WORKLOADS)} workloads" in text


def test_what_was_not_raced_on_every_chip_is_told():
    rows = [row(name) for name in WORKLOADS] + [row(name, chip="v6e") for name in WORKLOADS]
    whole, part = recorded(rows, ("v5e", "v6e")), recorded(rows[:-1], ("v5e", "v6e"))
    assert coverage(whole).startswith(f"{len(WORKLOADS)} of {len(WORKLOADS)} workloads, as of 2")
    assert "partial" not in coverage(whole)
    assert f"(**partial**: v6e without {list(WORKLOADS)[-1]}; " in coverage(part)


def test_the_readme_is_written_between_its_marks_only():
    text = f"before\n{START}old\nlines\n{END}after\n"
    assert put_lines(text, "| new |") == f"before\n{START}| new |\n{END}after\n"
    with pytest.raises(ValueError, match="between"):
        put_lines("no marks", "| new |")


def test_the_readme_says_what_is_recorded():
    recorded = json.loads((ROOT / "docs" / "versus_xla.json").read_text())
    readme = (ROOT / "README.md").read_text()
    assert put_lines(readme, readme_lines(recorded)) == readme
    assert (ROOT / "docs" / "versus_xla.md").read_text() == page(recorded)


# -- pictures -----------------------------------------------------------------------------
def test_pictures_are_drawn_alike_from_what_is_recorded(tmp_path):
    rows = [row(), row("slow", xla=5.0), row("failed", ours=Figure("refused")), row(chip="v5p")]
    record = {
        "chips": {"v5e": peaks(V5E), "v5p": peaks(V5P)},
        "summaries": [Summary.of(chip, rows).as_json() for chip in ("v5e", "v5p")],
        "rows": [r.as_json() for r in rows],
    }
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        plot(json.loads(json.dumps(record)), folder)
    names = ["roofline.png", "roofline.svg", "versus_xla.png", "versus_xla.svg"]
    assert sorted(p.name for p in folders[0].iterdir()) == names
    first, second = ([(f / name).read_bytes() for name in names] for f in folders)
    assert first == second
