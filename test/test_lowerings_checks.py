"""Which integers raise, and how, operator by operator against eager torch."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from tpu_inductor.front.import_fx import Imported, import_fx
from tpu_inductor.graph.attrs import Check
from tpu_inductor.graph.checks import drop_proven_checks
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.runtime.checks import failure

aten = torch.ops.aten
Fn = Callable[..., torch.Tensor]

X = torch.arange(12.0).reshape(3, 4)
CUBE = torch.arange(27.0).reshape(3, 3, 3)
ONE = torch.tensor(1.0)
ROW, COLUMN, PLANE = torch.ones(1, 4), torch.ones(1, 1), torch.ones(3, 1, 3)
LINE = torch.arange(3.0)
SCORES = torch.tensor([[0.5, 1.0, 2.0]])

OPERATORS: dict[str, Fn] = {
    "index": lambda i: X[i],
    "index in two dimensions": lambda i: CUBE[:, i, i],
    "index of the last dimension": lambda i: CUBE[..., i],
    "index apart": lambda i: CUBE[i, :, i - 1],
    "index by int32": lambda i: X[i.int()],
    "index of nothing": lambda i: X[:, :0][i],
    "index_put": lambda i: X.index_put((i,), ONE),
    "index_put accumulates": lambda i: X.index_put((i,), ONE, accumulate=True),
    "index_put into nothing": lambda i: X[:, :0].index_put((i,), ONE),
    "index_select": lambda i: X.index_select(0, i),
    "index_select of dimension 1": lambda i: CUBE.index_select(1, i),
    "index_select of dimension 2": lambda i: CUBE.index_select(-1, i),
    "index_select of a line": lambda i: LINE.index_select(0, i),
    "index_add": lambda i: X.index_add(0, i, ROW),
    "index_add scaled": lambda i: X.index_add(0, i, ROW, alpha=2),
    "index_add in the middle": lambda i: CUBE.index_add(1, i, PLANE),
    "index_add at the end": lambda i: CUBE.index_add(2, i, PLANE.mT),
    "index_add to a line": lambda i: LINE.index_add(0, i, COLUMN[0]),
    "index_copy": lambda i: X.index_copy(0, i, ROW),
    "index_copy in the middle": lambda i: CUBE.index_copy(1, i, PLANE),
    "index_fill": lambda i: X.index_fill(0, i, 1.0),
    "index_reduce": lambda i: X.index_reduce(0, i, ROW, "prod"),
    "gather": lambda i: X.gather(0, i[:, None]),
    "gather of the last dimension": lambda i: X.t().gather(-1, i[:, None]),
    "scatter": lambda i: X.scatter(0, i[:, None], COLUMN),
    "scatter a number": lambda i: X.scatter(0, i[:, None], 1.0),
    "scatter and multiply": lambda i: X.scatter(0, i[:, None], 2.0, reduce="multiply"),
    "scatter_add": lambda i: X.scatter_add(0, i[:, None], COLUMN),
    "scatter_reduce": lambda i: X.scatter_reduce(0, i[:, None], COLUMN, "amax"),
    "take": lambda i: LINE.take(i),
    "put": lambda i: LINE.put(i, COLUMN[0]),
    "embedding": lambda i: F.embedding(i, X),
    "embedding with padding": lambda i: F.embedding(i, X, padding_idx=0),
    "embedding_bag sum": lambda i: F.embedding_bag(i, X, torch.tensor([0]), mode="sum"),
    "embedding_bag max": lambda i: F.embedding_bag(i, X, torch.tensor([0]), mode="max"),
    "nll_loss": lambda i: F.nll_loss(SCORES, i),
    "nll_loss of one row": lambda i: F.nll_loss(SCORES[0], i[0]),
    "nll_loss2d": lambda i: F.nll_loss(SCORES.reshape(1, 3, 1, 1), i.reshape(1, 1, 1)),
    "cross_entropy": lambda i: F.cross_entropy(SCORES, i),
    "cross_entropy ignores": lambda i: F.cross_entropy(SCORES, i, ignore_index=-4),
    "max_unpool2d": lambda i: aten.max_unpool2d(ONE.reshape(1, 1, 1), i.reshape(1, 1, 1), [3, 1]),
    "searchsorted": lambda i: torch.searchsorted(LINE, ONE, sorter=i.expand(3)),
    "floor_divide": lambda i: torch.arange(3) // i,
    "floor_divide of a number": lambda i: 5 // i,
    "truncated quotient": lambda i: torch.div(torch.arange(3), i - 3, rounding_mode="trunc"),
    "remainder": lambda i: torch.arange(3) % (i - 1),
    "remainder of int8": lambda i: torch.arange(3).to(torch.int8) % (i + 1).to(torch.int8),
    "remainder of nothing": lambda i: torch.arange(0) % i,
    "fmod": lambda i: torch.fmod(torch.arange(3), i + 3),
    "fmod by zero": lambda i: torch.fmod(i, 0),
    "quotient of floats": lambda i: torch.arange(3) // (i * 1.0),
}


def checked_graph(fn: Fn, *args: torch.Tensor) -> Graph:
    traced = make_fx(fn, tracing_mode="fake", _allow_non_fake_inputs=True)(*args)
    imported = import_fx(traced, "test", {}, has_checks=True)
    assert isinstance(imported, Imported), imported
    constants = [tensor for _, tensor in imported.constants]
    graph = drop_proven_checks(simplify(imported.graph))
    checks = [eqn for eqn in graph.eqns if isinstance(eqn.attrs, Check)]
    reached = run(replace(graph, outputs=tuple(eqn.out for eqn in checks)), [*args, *constants])
    for eqn, tensor in zip(checks, reached, strict=True):
        assert isinstance(eqn.attrs, Check)
        if tensor.item() >= eqn.attrs.count:
            raise failure(eqn, int(tensor.item()))
    return graph


@pytest.mark.parametrize("integer", [0, 2, -1, -3, 3, -4, 2**40, -(2**63)])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_raises_where_eager_torch_does(name: str, integer: int) -> None:
    fn, index = OPERATORS[name], torch.tensor([integer])
    try:
        fn(index)
    except (IndexError, RuntimeError) as error:
        words = "" if name.startswith("embedding_bag") else re.escape(str(error))
        with pytest.raises(type(error), match=rf"^{words}.* \(aten\.\w+.* at "):
            checked_graph(fn, index)
    else:
        checked_graph(fn, index)


def test_bags_check_their_offsets() -> None:
    def bags(offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(torch.tensor([0, 1]), X, offsets, mode="sum")

    checked_graph(bags, torch.tensor([0, 2]))
    with pytest.raises(RuntimeError, match=r"offsets\[-1\].*got 3"):
        checked_graph(bags, torch.tensor([0, 3]))
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        checked_graph(bags, torch.tensor([1, 2]))


def test_masked_scatter_needs_enough_elements() -> None:
    def fill(mask: torch.Tensor) -> torch.Tensor:
        return LINE.masked_scatter(mask, LINE[:2])

    checked_graph(fill, torch.tensor([True, False, True]))
    with pytest.raises(RuntimeError, match="elements of source < number of ones in mask"):
        checked_graph(fill, torch.tensor([True, True, True]))


def test_an_assertion_keeps_its_message() -> None:
    def asserted(x: torch.Tensor) -> torch.Tensor:
        aten._assert_async.msg((x > 0).all(), "not {positive}")
        return x + 1

    checked_graph(asserted, torch.ones(3))
    with pytest.raises(RuntimeError, match=r"^not \{positive\} \(aten\._assert_async"):
        checked_graph(asserted, torch.zeros(3))


PROVEN: dict[str, Fn] = {
    "arange": lambda x: x[torch.arange(4)],
    "arange from the end": lambda x: x[torch.arange(4) - 4],
    "argmax": lambda x: x.gather(0, x.argmax(0, keepdim=True)),
    "topk": lambda x: x.gather(1, x.topk(2, 1).indices),
    "sort": lambda x: x.index_select(0, x[:, 0].sort().indices),
    "clamp": lambda x: F.embedding(x.long().clamp(0, 3), x),
    "where": lambda x: F.embedding(torch.where(x > 0, x.long().clamp(0, 3), 0), x),
    "int8 of many rows": lambda x: x.repeat(64, 1)[x.to(torch.uint8).int()],
    "concatenated": lambda x: x[torch.cat([torch.arange(4), torch.arange(2)])],
    "counted": lambda x: F.embedding((x > 0).cumsum(1), x.repeat(2, 1)),
    "divisor": lambda x: x.long() // (x > 0).sum().clamp(min=1),
    "negative divisor": lambda x: x.long() % -x.long().clamp(1, 5),
    "remainder": lambda x: x[torch.fmod(x.long()[0], 4)],
}


@pytest.mark.parametrize("name", PROVEN)
def test_an_index_that_is_bounded_is_not_checked(name: str) -> None:
    x = torch.tensor([[3.0, 1.0, 2.0, 0.5]] * 4)
    graph = checked_graph(PROVEN[name], x)
    assert not [eqn for eqn in graph.eqns if eqn.prim == "check"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[torch.arange(5)[1:]],
        lambda x: F.embedding(x.long().clamp(0, 4), x),
        lambda x: F.embedding(x.long().clamp(max=3), x),
        lambda x: x.long() // x.long().clamp(0, 5),
        lambda x: F.embedding((x > 0).cumsum(1), x),
    ],
)
def test_an_index_that_may_be_wrong_is_checked(fn: Fn) -> None:
    x = torch.tensor([[0.0, 1.0, 2.0, 0.5]] * 4)
    traced = make_fx(fn, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    imported = import_fx(traced, "test", {}, has_checks=True)
    assert isinstance(imported, Imported)
    kept = drop_proven_checks(simplify(imported.graph))
    assert [eqn for eqn in kept.eqns if eqn.prim == "check"]
