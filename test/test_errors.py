"""Bugs of ours, wherever they happen: what is told, and that the advice works."""

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import tpu_inductor
from tpu_inductor.codegen import kernel_body, program
from tpu_inductor.errors import InvalidIR, Reject, Unsupported, blame
from tpu_inductor.lowerings import LOWERINGS
from tpu_inductor.schedule import choose

aten = torch.ops.aten

BUGS = [TypeError("no"), AttributeError("no"), KeyError("no"), ZeroDivisionError("no")]


def fail(error):
    def broken(*args, **kwargs):
        raise error

    return broken


@pytest.fixture
def compiled():
    torch._dynamo.reset()

    def compile_(**options):
        return torch.compile(
            lambda x: torch.softmax(x, -1).cumsum(0), backend="tpu_tile", options=options
        )

    yield compile_
    torch._dynamo.reset()


X = torch.randn(4, 8)
RIGHT = torch.softmax(X, -1).cumsum(0)


@pytest.mark.parametrize("error", [*BUGS, InvalidIR("no"), AssertionError(), NotImplementedError()])
def test_a_bug_becomes_an_invalid_ir_with_everything_that_helps(error):
    with (
        pytest.raises(
            InvalidIR, match=r"the lowering of aten.x: .* - model.py:3; a bug.* Do y"
        ) as told,
        blame("the lowering of aten.x", "model.py:3", "Do y"),
    ):
        raise error
    assert told.value.__cause__ is error


@pytest.mark.parametrize("error", [Unsupported("no"), MemoryError(), KeyboardInterrupt()])
def test_what_is_no_bug_passes(error):
    with pytest.raises(type(error)), blame("a", "b", "c"):
        raise error


@pytest.mark.parametrize("error", BUGS, ids=lambda e: type(e).__name__)
def test_a_lowering_names_operator_line_and_the_option_that_avoids_it(error, compiled, monkeypatch):
    monkeypatch.setitem(LOWERINGS, aten.cumsum.default, fail(error))
    where = r"lowering of aten\.cumsum: \w+: .*test_errors\.py:\d+ `.*cumsum"
    message = where + r".*\"eager_ops\": \[\"aten\.cumsum\"\]"
    with pytest.raises(BackendCompilerFailed, match=message):
        compiled()(X)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(eager_ops=["aten.cumsum"])(X), RIGHT)


@pytest.mark.parametrize("result", [None, 3, (), "x"])
def test_a_lowering_that_gives_nonsense_is_told_likewise(result, compiled, monkeypatch):
    monkeypatch.setitem(LOWERINGS, aten.cumsum.default, lambda *args, **kwargs: result)
    with pytest.raises(BackendCompilerFailed, match=r"lowering of aten\.cumsum: .*test_errors\.py"):
        compiled()(X)


@pytest.mark.parametrize("module", [(kernel_body, "LocalNames"), (choose, "list_candidates")])
def test_a_kernel_names_its_operators_and_is_avoided_by_prefer_xla(module, compiled, monkeypatch):
    monkeypatch.setattr(*module, fail(IndexError("tuple index out of range")))
    message = r"aten\._softmax at .*test_errors\.py:\d+ .*\"prefer\": \"xla\""
    with pytest.raises(BackendCompilerFailed, match=message):
        compiled()(X)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(prefer="xla")(X), RIGHT)


def test_the_spelling_of_xlas_operations_is_told_likewise(compiled, monkeypatch):
    monkeypatch.setattr(program, "spell_for_cpu", fail(KeyError("cumsum")))
    with pytest.raises(
        BackendCompilerFailed, match=r"of aten\.cumsum: KeyError: .*test_errors\.py"
    ):
        compiled()(X)


@pytest.mark.parametrize(
    "names", [["aten.cumsum"], "aten.cumsum,aten.sort", ("aten.cumsum.default",)]
)
def test_operators_are_left_in_torch(names):
    (graph,) = tpu_inductor.explain(
        lambda x: x.cumsum(0) + 1, X, options={"eager_ops": names}
    ).graphs
    assert not isinstance(graph.lowered, Reject)
    assert graph.work["eager_ops"] == 1
    assert "left in torch by the option eager_ops" in str(graph)


@pytest.mark.parametrize("name", ["aten.sortd", "aten.sort.nonsense", "nowhere.op"])
def test_a_name_in_eager_ops_that_no_operator_has_is_an_error(name):
    said = f"eager_ops names '{name}', which is no operator of torch"
    with pytest.raises(ValueError, match=said):
        tpu_inductor.explain(lambda x: x + 1, X, options={"eager_ops": [name]})
    torch._dynamo.reset()
    with pytest.raises(ValueError, match=said):
        torch.compile(lambda x: x + 1, backend="tpu_tile", options={"eager_ops": [name]})(X)
