"""The fuzzer finds planted faults and shrinks them, and a fixed share of programs has none."""

import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from test.fuzz.__main__ import main
from test.fuzz.compare import compare
from test.fuzz.data import DATA, tensor
from test.fuzz.generate import generate
from test.fuzz.judge import Judge, load
from test.fuzz.noise import noisy_modes
from test.fuzz.observe import play
from test.fuzz.program import Input, Program, Statement
from test.fuzz.shrink import prune, shrink
from test.fuzz.spell import spell
from test.fuzz.worker import Worker

SHARE = 25
"""Programs that CI judges."""


def program(*statements, inputs=None, results=("y",), **kwargs):
    x = Input("x", ("n", 4), "float32", "normal", 0)
    chain = [Statement(*s) for s in statements]
    return Program(
        inputs or (x,), tuple(chain), results, ("n",), kwargs.pop("calls", ((3,),)), **kwargs
    )


DOUBLE = program((("y",), "{0} * 2", ("x",)))


def differences(given, fn):
    """The kinds of difference between `given` in eager and a faulty `fn` in its place."""
    names = load(given)

    def run(function, under):
        return play(function, names["inputs"], given.calls, given.training, under)

    want = run(names["f"], nullcontext())
    noisy = [run(names["f"], mode) for mode in noisy_modes()]
    return {d.kind for d in compare(want, run(fn, nullcontext()), noisy)}


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_gives_one_program_that_eager_runs(seed):
    first = generate(f"{seed}")
    assert first == generate(f"{seed}")
    names = load(first)
    for call in first.calls:
        results = names["f"](*names["inputs"](*call))
        assert len(results) == len(first.results)


def test_a_fixed_share_of_programs_is_as_in_eager(capsys):
    given = ["--seed", "8", "--programs", str(SHARE), "--minutes", "60", "--shrink", "0"]
    assert main(given) == 0, capsys.readouterr().out


def test_a_right_function_shows_no_difference():
    assert differences(DOUBLE, lambda x: (x + x,)) == set()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda x: (x * 2 + (x > 1) * 1e-3,), "value"),
        (lambda x: ((x * 2).double(),), "dtype"),
        (lambda x: ((x * 2)[1:],), "shape"),
        (lambda x: ((x * 2).t().contiguous().t(),), "strides"),
        (lambda x: (torch.cat([x[:1], x * 2])[1:],), "offset"),
        (lambda x: (x.mul_(2),), "memory shared"),
        (lambda x: (x.mul_(2),), "value"),
        (lambda x: ((x * 2).requires_grad_(),), "requires_grad"),
        (lambda x: 1 / 0, "raises ZeroDivisionError"),
        (lambda x: (x * 2, x), "results"),
        (lambda x: (torch.from_numpy((x * 2).numpy()),), "raises RuntimeError"),
    ],
)  # fmt: skip
def test_a_fault_shows_as_what_it_is(fault, kind):
    assert kind in differences(DOUBLE, fault)


def test_a_missing_error_is_a_difference():
    raises = program((("y",), "{0}[torch.tensor([9])]", ("x",)))
    assert differences(raises, lambda x: (x,)) == {"does not raise"}


def test_a_lost_write_to_an_argument_is_a_difference():
    write = program(((), "{0}.add_(1)", ("x",)), (("y",), "{0} * 2", ("x",)))
    assert "value" in differences(write, lambda x: ((x + 1) * 2,))


def test_results_that_share_memory_in_eager_must_share_it():
    both = program((("y",), "{0} + 1", ("x",)), (("z",), "{0}.t()", ("y",)), results=("y", "z"))
    kinds = differences(both, lambda x: (x + 1, (x + 1).t()))
    assert kinds == {"memory shared", "value"}


def test_a_wrong_gradient_is_a_difference():
    learn = program((("y",), "{0} * 2", ("x",)), training=True)
    assert differences(learn, lambda x: (x + x.detach(),)) == {"value"}


def test_the_sign_of_zero_is_compared_where_noise_leaves_it():
    x = Input("x", (40,), "float32", "tiny", 0)
    relu = program((("y",), "torch.relu({0})", ("x",)), inputs=(x,))
    assert differences(relu, lambda x: (x.relu() + 0.0,)) == {"sign of zero"}


def test_a_zero_added_to_a_gradient_may_leave_its_sign():
    whole = "torch.div({0}, {0}.abs().clamp(1, 9), rounding_mode='trunc')"
    assert Judge()(program((("y",), whole, ("x",)), training=True)) == ()


def test_strides_may_follow_the_tracing_of_torch_where_it_errs():
    assert Judge()(program((("y",), "torch.copysign({0}.t(), {0}[:, 0])", ("x",)))) == ()
    assert differences(DOUBLE, lambda x: ((x * 2).t().contiguous().t(),)) == {"strides"}


def test_floats_may_differ_by_what_their_order_costs():
    total = program((("y",), "{0}.sum(0)", ("x",)), calls=((1000,),))
    assert differences(total, lambda x: (x.flip(0).sum(0),)) == set()
    assert differences(total, lambda x: (x.flip(0).sum(0) + 1e-2,)) == {"value"}


def test_denormals_may_count_as_zero():
    x = Input("x", (40,), "float32", "tiny", 0)
    ratio = program((("y",), "{0} / {0}", ("x",)), inputs=(x,))
    assert differences(ratio, lambda x: (torch.where(x.abs() < 1e-37, math.nan, x / x),)) == set()
    few = Input("x", (4,), "float32", "tiny", 0)
    root = program((("y",), "torch.sqrt({0}.abs())", ("x",)), inputs=(few,))
    assert differences(root, lambda x: (torch.where(x.abs() < 1e-37, 0.0, x.sqrt()),)) == set()
    greater = program((("y",), "{0} > 0", ("x",)), inputs=(x,))
    assert differences(greater, lambda x: (x > 1e-37,)) == set()
    assert differences(greater, lambda x: (x > 1,)) == {"value"}


def test_a_result_may_be_nearer_to_the_truth_than_that_of_eager():
    x = Input("x", (9, 33), "bfloat16", "count", 0)
    norm = program((("y",), "F.batch_norm({0}, None, None, training=True)", ("x",)), inputs=(x,))

    def exact(x):
        return (F.batch_norm(x.double(), None, None, training=True).bfloat16(),)

    assert differences(norm, exact) == set()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("gelu", "near"), [("tanh", 7.0), ("none", 8.0)])
def test_sums_that_cancel_inside_of_a_call_may_round_elsewhere(gelu, near, training):
    x = Input("x", (40,), "float64", "count", 0)
    chain = [
        (("v",), f"{{0}} / 80 - {near}", ("x",)),
        (("y",), f"F.gelu({{0}}, approximate='{gelu}')", ("v",)),
    ]
    tail = program(*chain, inputs=(x,), training=training)

    def other(x, fault=0.0):
        v = x / 80 - near
        inner = math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
        gate = inner.tanh() if gelu == "tanh" else torch.erf(v * math.sqrt(0.5))
        return (0.5 * v + 0.5 * v * gate + fault * v,)

    assert differences(tail, other) == set()
    assert differences(tail, lambda x: other(x, 1e-13)) == {"value"}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
def test_data_is_made_by_its_seed_alone(data, dtype):
    first, again = (tensor(3, (3, 5), dtype, data) for _ in range(2))
    assert (first.dtype, first.shape) == (dtype, (3, 5))
    assert torch.equal(first.nan_to_num(), again.nan_to_num())


def test_a_failure_is_shrunk_to_the_statement_that_matters():
    big = next(
        p for p in map(generate, map(str, range(400))) if _has_argmax(p) and len(p.statements) > 5
    )
    small = shrink(big, _has_argmax, 80)
    assert len(small.statements) == len(small.inputs) == len(small.results) == 1
    assert len(small.calls) == 1


def _has_argmax(given):
    return any("argmax" in s.template for s in prune(given).statements)


def test_a_program_stands_alone(capsys):
    write, read = ((), "{0}.add_(1)", ("x",)), (("y",), "{0}.sin()", ("x",))
    given = program(write, read, calls=((2,), (3,)), dynamic="marked")
    exec(spell(given, "eager", {}, "why\nand where"), {"__name__": "case"})
    assert capsys.readouterr().out.count("compiled") == 2


def test_a_hang_and_a_crash_are_verdicts_and_the_next_program_runs():
    with Worker(Judge("eager"), seconds=1) as worker:
        (found,) = worker(program(((), "__import__('time').sleep(99)", ())))
        assert found.kind == "hangs"
        worker.seconds = 90
        (found,) = worker(program(((), "__import__('os').abort()", ())))
        assert found.kind == "crashes"
        assert worker(DOUBLE) == ()
