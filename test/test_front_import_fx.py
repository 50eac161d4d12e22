"""The importer, seen through the oracle backend: results, strides, conventions, reasons."""

from collections.abc import Callable
from typing import Any

import oracle_backend
import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from tpu_inductor.errors import InvalidIR, Reject
from tpu_inductor.front import import_fx as module
from tpu_inductor.front.import_fx import Imported, import_fx
from tpu_inductor.graph.attrs import EagerCall
from tpu_inductor.graph.prims import EAGER
from tpu_inductor.graph.signature import SameAsResult, TensorInput, TensorOutput

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    oracle_backend.LOG.clear()


def trace(fn: Callable[..., Any], *args: Tensor) -> GraphModule:
    return make_fx(fn, tracing_mode="fake", _allow_non_fake_inputs=True)(*args)


def imported(fn: Callable[..., Any], *args: Tensor) -> Imported:
    result = import_fx(trace(fn, *args), "test", {})
    assert isinstance(result, Imported), result
    return result


def check(fn: Callable[..., Any], *args: Any, dynamic: bool | None = False) -> None:
    """Compares values and strides with eager torch."""
    got = torch.compile(fn, backend="oracle", fullgraph=True, dynamic=dynamic)(*args)
    want = fn(*args)
    flat = zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True)
    for g, w in flat:
        torch.testing.assert_close(g, w)
        if isinstance(w, Tensor):
            assert g.stride() == w.stride()


def test_permuted_input_enters_dense() -> None:
    result = imported(lambda x: x + 1, torch.randn(2, 3, 4).permute(2, 0, 1))
    (given,) = result.signature.inputs
    assert isinstance(given, TensorInput)
    assert (given.perm, given.copy, given.var.type.shape) == ((1, 2, 0), False, (2, 3, 4))
    (output,) = result.signature.outputs
    assert isinstance(output, TensorOutput)
    assert output.perm == (2, 0, 1)


def test_input_with_holes_is_copied() -> None:
    (given,) = imported(lambda x: x + 1, torch.randn(4, 8)[:, ::2]).signature.inputs
    assert isinstance(given, TensorInput)
    assert given.copy
    assert given.perm == (0, 1)


def test_origin_names_the_users_line() -> None:
    seen: list[Imported | Reject] = []

    def compiler(gm: GraphModule, args: Any) -> Any:
        seen.append(import_fx(gm, "test", {}))
        return gm

    backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=compiler)
    torch.compile(lambda x: torch.tanh(x), backend=backend)(torch.randn(3))
    (result,) = seen
    assert isinstance(result, Imported)
    (eqn,) = result.graph.eqns
    assert (eqn.origin.op, eqn.out.name) == ("aten.tanh", "tanh")
    assert eqn.origin.file.endswith("test_front_import_fx.py")
    assert "torch.tanh(x)" in eqn.origin.code


def test_operator_without_lowering_is_one_eager_call() -> None:
    result = imported(lambda x: torch.linalg.eigh(x), torch.eye(3))
    calls = [e for e in result.graph.eqns if e.prim == EAGER]
    assert [len(e.outputs) for e in calls] == [2]
    assert isinstance(calls[0].attrs, EagerCall)
    assert calls[0].attrs.reason == "aten._linalg_eigh has no lowering"
    assert calls[0].attrs.result_is_tuple


def test_complex_numbers_stay_in_torch() -> None:
    check(lambda x: torch.view_as_real(torch.view_as_complex(x) * 2j) + 1, torch.randn(3, 2))
    assert any("complex" in reason for reason in oracle_backend.LOG)


def test_constants_follow_the_arguments() -> None:
    table = torch.arange(6.0).reshape(2, 3).t()
    result = imported(lambda x: x + table, torch.zeros(3, 2))
    ((var, tensor),) = result.constants
    assert result.graph.inputs[-1] is var
    assert tensor.is_contiguous()
    assert torch.equal(tensor, table)


def test_repeated_result_is_named_once() -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, y

    result = imported(fn, torch.zeros(3))
    assert result.signature.outputs[1] == SameAsResult(0)
    assert len(result.graph.outputs) == 1


def test_views_of_arguments_are_marked() -> None:
    outputs = imported(lambda x: (aten.t(x), aten.clone(x)), torch.zeros(3, 2)).signature.outputs
    assert [o.alias for o in outputs if isinstance(o, TensorOutput)] == [True, False]


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: x.to_sparse().to_dense(), "sparse"),
        (lambda x: x.add_(1), "writes to its argument"),
        (lambda x: aten.as_strided(x[:, 1:], (2,), (1,)), "storage behind a view"),
    ],
)
def test_whole_graph_is_rejected(fn: Callable[..., Any], reason: str) -> None:
    result = import_fx(trace(fn, torch.zeros(4, 4)), "test", {})
    assert isinstance(result, Reject)
    assert reason in result.reason


def test_wrong_lowering_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {aten.tanh.default: lambda b, x: b.reshape(x, (9,))}
    monkeypatch.setattr(module, "LOWERINGS", table)
    with pytest.raises(InvalidIR, match=r"aten.tanh: gives f32\[9\] where torch gives f32\[3,3\]"):
        import_fx(trace(torch.tanh, torch.zeros(3, 3)), "test", {})


def test_random_operators_draw_what_torch_draws() -> None:
    def fn(x: Tensor) -> tuple[Tensor, ...]:
        return torch.rand_like(x), torch.nn.functional.dropout(x), torch.randint(0, 9, (4,))

    torch.manual_seed(3)
    got = torch.compile(fn, backend="oracle")(torch.ones(5))
    torch.manual_seed(3)
    for g, w in zip(got, fn(torch.ones(5)), strict=True):
        assert torch.equal(g, w)


def test_dynamic_shapes_and_numbers() -> None:
    def fn(x: Tensor, n: int, a: float) -> Tensor:
        return x[:, :n] * n + (n // 3) * a + x.shape[0] * 2

    compiled = torch.compile(fn, backend="oracle", dynamic=True)
    for rows, n, a in ((4, 3, 1.5), (5, 7, 2.5), (9, 8, -1.0)):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x, n, a), fn(x, n, a))


def test_numbers_follow_python() -> None:
    def fn(x: Tensor, n: int) -> Tensor:
        return x + (n // 3) * 7 + n % 5 + n / 4 + max(n, 2) - (-n)

    compiled = torch.compile(fn, backend="oracle", dynamic=True)
    for n in (-7, -6, 4, 11):
        torch.testing.assert_close(compiled(torch.zeros(3), n), fn(torch.zeros(3), n))


def test_training_graphs() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.GELU(), torch.nn.Linear(5, 3))
    x = torch.randn(2, 4, requires_grad=True)
    want = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    compiled = torch.compile(layer, backend="oracle", fullgraph=True)
    got = torch.autograd.grad(compiled(x).square().sum(), [x, *layer.parameters()])
    torch.testing.assert_close(got, want)
    assert not oracle_backend.LOG


def test_mutated_and_aliased_arguments() -> None:
    def fn(x: Tensor) -> Tensor:
        x.add_(1)
        return x.t()

    a, c = torch.zeros(2, 3), torch.zeros(2, 3)
    got = torch.compile(fn, backend="oracle", fullgraph=True)(a)
    assert torch.equal(got, fn(c))
    assert torch.equal(a, c)
    assert got.data_ptr() == a.data_ptr()


def test_empty_zero_dimensional_and_channels_last() -> None:
    check(lambda x: x * 2, torch.zeros(0, 3))
    check(lambda x: x * 2, torch.tensor(3.0))
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    check(lambda x: (torch.relu(x), x.permute(0, 2, 3, 1) + 1), image)
