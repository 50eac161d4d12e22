"""Programs that raise as eager torch does, through torch.compile."""

import pytest
import torch
import torch.nn.functional as F

import tpu_inductor

WEIGHT = torch.arange(12.0).reshape(3, 4)
BAD = torch.tensor([0, 5, 1])


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def compiled(fn, **options):
    return torch.compile(fn, backend="tpu_tile", options=options or None)


def test_the_error_names_operator_file_and_line():
    def look_up(weight, ids):
        return F.embedding(ids, weight) * 2

    run = compiled(look_up)
    torch.testing.assert_close(run(WEIGHT, BAD[:1]), look_up(WEIGHT, BAD[:1]))
    with pytest.raises(IndexError, match=r"index out of range in self \(aten.embedding at .*") as e:
        run(WEIGHT, BAD)
    assert "test_runtime_checks.py" in str(e.value)
    assert "F.embedding(ids, weight) * 2" in str(e.value)
    ids = torch.tensor([2, 1, 0])
    torch.testing.assert_close(run(WEIGHT, ids), look_up(WEIGHT, ids))


@pytest.mark.parametrize("computed", [False, True])
def test_the_first_of_several_checks_raises_and_one_vector_tells_all(computed):
    def read(x, i, j, k):
        if computed:
            i, j, k = i + 0 * j, j + 0 * k, k + 0 * i
        return x[i] + x.gather(0, j[:, None]) + x.index_select(0, k)

    run = compiled(read)
    good = torch.tensor([0, 1, 2])
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 0 with size 3"):
        run(WEIGHT, good, BAD, BAD)
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        run(WEIGHT, good - 4, BAD, BAD)
    with pytest.raises(IndexError, match="index out of range in self"):
        run(WEIGHT, good, good, BAD)
    explained = tpu_inductor.explain(read, WEIGHT, good, good, good)
    (program,) = explained.programs
    (graph,) = explained.graphs
    assert len(program.checks) == 3 * computed
    assert len(graph.lowered.plan.checks) == 3 * (not computed)
    assert program.source.count("jnp.stack") == computed


def test_a_check_of_a_computed_index_raises_before_a_later_one_of_an_argument():
    def read(x, j, k):
        return x.gather(0, (j - 1)[:, None]) + x.index_select(0, k)

    run = compiled(read)
    with pytest.raises(RuntimeError, match="index 5 is out of bounds"):
        run(WEIGHT, BAD + 1, BAD)
    with pytest.raises(IndexError, match="index out of range in self"):
        run(WEIGHT, BAD % 2 + 1, BAD)


def test_an_argument_is_not_written_where_a_check_fails():
    def add(x, i):
        x.add_(1)
        x[i] = 7.0
        return x * 2

    x = WEIGHT.clone()
    with pytest.raises(IndexError, match="index 5"):
        compiled(add)(x, BAD)
    torch.testing.assert_close(x, WEIGHT)


def test_a_later_eager_call_does_not_see_the_garbage():
    seen = []

    @torch.library.custom_op("test_checks::look", mutates_args=())
    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return x + 1

    look.register_fake(torch.empty_like)
    run = compiled(lambda x, i: look(x[i] * 2) * 3)
    run(WEIGHT, torch.tensor([0, 1, 2]))
    with pytest.raises(IndexError, match="index 5"):
        run(WEIGHT, BAD)
    assert len(seen) == 1


def test_gradients_are_checked_and_right():
    weight = WEIGHT.clone().requires_grad_()

    def loss(weight, target):
        return F.cross_entropy(weight, target, ignore_index=-1, label_smoothing=0.1)

    run = compiled(loss)
    target = torch.tensor([3, -1, 0])
    (got,) = torch.autograd.grad(run(weight, target), weight)
    (want,) = torch.autograd.grad(loss(weight, target), weight)
    torch.testing.assert_close(got, want)
    with pytest.raises(IndexError, match=r"Target 4 is out of bounds\."):
        run(weight, torch.tensor([3, -1, 4]))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integers_are_not_divided_by_zero(name):
    run = compiled(getattr(torch, name))
    assert run(torch.tensor([7, -7]), torch.tensor([2, -3])).shape == (2,)
    zero = torch.tensor([2, 0])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(torch.tensor([7, -7]), zero)


def test_one_hot_is_compiled_with_its_assertions():
    run = compiled(lambda i: F.one_hot(i, 3) * 2, strict=True)
    assert torch.equal(run(torch.tensor([0, 2])), 2 * F.one_hot(torch.tensor([0, 2]), 3))
    bad = torch.tensor([0, 3])
    with pytest.raises(RuntimeError, match="Class values must be smaller"):
        run(bad)


@pytest.mark.parametrize(
    ("options", "has_checks"),
    [
        ({}, True),
        ({"check_indices": False}, False),
        ({"target": "v5e"}, False),
        ({"target": "v5e", "check_indices": True}, True),
    ],
)
def test_checks_are_the_cpus_unless_asked_for(options, has_checks):
    explained = tpu_inductor.explain(lambda w, i: w[i], WEIGHT, BAD[:1], options=options)
    plan = explained.graphs[0].lowered.plan
    assert bool(plan.checks or explained.programs[0].checks) == has_checks


def test_without_checks_reads_give_nan_and_writes_are_dropped():
    ones = torch.ones(3, 4)
    run = compiled(lambda w, i: (w[i], ones.index_put((i,), w)), check_indices=False)
    read, written = run(WEIGHT, BAD)
    assert read[1].isnan().all()
    torch.testing.assert_close(written, torch.stack([WEIGHT[0], WEIGHT[2], ones[2]]))


def test_a_check_leaves_kernels_as_they_are():
    def model(x, target):
        return F.cross_entropy(x, target)

    args = (torch.randn(32, 128), torch.arange(32))
    work = [
        tpu_inductor.explain(model, *args, options={"check_indices": on}).work["kernels"]
        for on in (False, True)
    ]
    assert work[0] == work[1] > 0
