"""Results share memory, and lie in it, as eager's do: values, strides, offsets, writes."""

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

aten = torch.ops.aten


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def layouts(seen):
    """Per tensor: type, shape, strides, offset, and the first tensor whose storage it shares."""
    storages = [t.untyped_storage()._cdata for t in seen]
    return [
        (t.dtype, tuple(t.shape), t.stride(), t.storage_offset(), storages.index(s))
        for t, s in zip(seen, storages, strict=True)
    ]


def write(seen):
    """A number of its own into every tensor that may be written to, in order."""
    with torch.no_grad():
        for i, t in enumerate(seen):
            if torch._debug_has_internal_overlap(t) != 1:
                t.copy_(torch.full_like(t, i + 2))
            elif t.numel():
                t[(0,) * t.ndim].fill_(i + 2)


def compare(got, want, defined=True):
    """Two lists of tensors, arguments and results, of the compiled and of the eager function."""
    assert layouts(got) == layouts(want)
    if defined:
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, equal_nan=True)
    write(got), write(want)
    if defined:
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w)


def check(f, *makers, dynamic=None, defined=True):
    """`f` compiled and eager, over the arguments of every maker, one after the other."""
    torch._dynamo.reset()
    compiled = torch.compile(f, backend="tpu_tile", dynamic=dynamic)
    for make in makers:
        args, same = make(), make()
        got, want = compiled(*args), f(*same)
        compare([*tensors(args), *tensors(got)], [*tensors(same), *tensors(want)], defined)


def grid(*shape):
    return lambda: (torch.arange(float(torch.Size(shape).numel())).view(shape) + 1,)


VIEWS = {
    "same": lambda x: x,
    "t": lambda x: x.t(),
    "step": lambda x: x[:, ::2],
    "tail": lambda x: x[1:],
    "corner": lambda x: x[1:, 2:],
    "row": lambda x: x[1],
    "column": lambda x: x[:, -1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "expand": lambda x: x.expand(3, *x.shape),
    "column expanded": lambda x: x[:, :1].expand(-1, 5),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "flat": lambda x: x.view(-1),
    "unsqueezed": lambda x: x[:, None, 1:],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "bits": lambda x: x.view(torch.int32)[:, 1:],
    "halves": lambda x: x.view(torch.int16),
    "detached": lambda x: x.detach()[1:],
    "movedim": lambda x: x[None].movedim(0, 2),
    "swapped tail": lambda x: x.mT[2:],
    "empty": lambda x: x[:, 2:2],
    "item": lambda x: x[1, 1],
}
SPLITS = {
    "chunk": lambda x: x.chunk(2, 1),
    "split": lambda x: x.split([1, x.shape[1] - 1], 1),
    "unbind": lambda x: x.unbind(0),
    "tensor_split": lambda x: x.tensor_split(3, 1),
    "both": lambda x: (x, x.t()),
    "both reversed": lambda x: (x.t(), x),
    "twice": lambda x: (x, x),
    "equal views": lambda x: (x.view(-1), x.view(-1)),
    "halves without the whole": lambda x: (x[:1], x[1:]),
    "copy and view": lambda x: (x.clone(), x.t(), x),
}
ALL = VIEWS | SPLITS
SMALL, WIDE, LARGE, ODD = grid(2, 6), grid(2, 8), grid(4, 6), grid(5, 7)
STRIDED = VIEWS.keys() - {"flat", "bits", "halves"}
"""The views that tensors of any strides have."""


def all_views(x):
    return [view(x) for view in VIEWS.values()]


def views_of_strided(x):
    return [VIEWS[name](x) for name in sorted(STRIDED)]


def all_splits(x):
    return [split(x) for split in SPLITS.values()]


@pytest.mark.parametrize("see", [all_views, all_splits])
@pytest.mark.parametrize("dynamic", [None, True])
def test_views_of_arguments_and_of_new_tensors(see, dynamic):
    check(lambda x: (see(x), see(x + 1)), SMALL, WIDE, LARGE, ODD, SMALL, dynamic=dynamic)


def test_views_of_turned_and_cut_arguments():
    def make():
        return (grid(6, 5)()[0].t()[1:],)

    check(lambda x: (views_of_strided(x), views_of_strided(x + 1)), make)
    check(lambda x: views_of_strided(x * 2), lambda: (grid(6, 3)()[0].t(),))


@pytest.mark.parametrize(
    "name", ["step", "tail", "expand", "column expanded", "flat", "item", "empty", "halves"]
)
def test_a_lone_view_of_a_new_tensor_when_sizes_change(name):
    check(lambda x: VIEWS[name](x + 1), SMALL, WIDE)


@pytest.mark.parametrize("name", ["chunk", "narrow", "expand", "unfold", "as_strided", "unbind"])
def test_a_lone_view_of_an_argument_when_sizes_change(name):
    check(ALL[name], SMALL, WIDE)


@pytest.mark.parametrize("name", ["t", "corner", "expand", "unfold", "chunk", "both"])
def test_a_view_in_training(name):
    def f(x):
        return ALL[name](x * 2)

    def make():
        return (grid(3, 6)()[0].requires_grad_(),)

    compiled = torch.compile(f, backend="tpu_tile")
    for _ in range(2):
        args, same = make(), make()
        got, want = tensors(compiled(*args)), tensors(f(*same))
        assert layouts(got) == layouts(want)
        floats = [(g, w) for g, w in zip(got, want, strict=True) if w.requires_grad]
        for g, w in floats:
            torch.testing.assert_close(g, w)
        sum(g.sin().sum() for g, _ in floats).backward()
        sum(w.sin().sum() for _, w in floats).backward()
        torch.testing.assert_close(args[0].grad, same[0].grad)


@pytest.mark.parametrize("view", [VIEWS["expand"], VIEWS["corner"], SPLITS["chunk"]])
def test_a_view_across_a_graph_break(view):
    def f(x):
        y = view(x)
        torch._dynamo.graph_break()
        z = pytree.tree_map(lambda t: t + 1, y)
        return y, z, view(x * 2)

    check(f, SMALL, WIDE, ODD)


def test_a_write_through_one_result_is_seen_in_the_other():
    def f(x):
        y = x + 1
        return y, y.t(), y[1:]

    y, t, tail = torch.compile(f, backend="tpu_tile")(torch.ones(2, 3))
    y.zero_()
    assert t.eq(0).all()
    tail.fill_(5)
    assert y[1].eq(5).all()
    assert t[:, 1].eq(5).all()


def test_results_are_written_in_training_as_in_eager():
    def run(f):
        x = torch.arange(24.0).view(2, 3, 2, 2).to(memory_format=torch.channels_last)
        x.requires_grad_()
        a, b = f(x)
        a.mul_(3)
        b.add_(a[:, ::2])
        (a[:, ::2] * b).sum().backward()
        return a.detach(), b.detach(), x.grad

    def f(x):
        return x * 2, (x + 1)[:, ::2].mT

    for got, want in zip(run(torch.compile(f, backend="tpu_tile")), run(f), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


def test_an_argument_is_written_through_its_view():
    def f(x):
        y = x[:, 1:]
        y.mul_(2)
        return y, x.t()

    check(f, SMALL, WIDE)


def test_metadata_of_an_argument_changes_in_place():
    def f(x):
        x.t_()
        return x[1:]

    check(f, SMALL, LARGE)


@pytest.mark.parametrize(
    "create",
    [
        lambda x: torch.empty_strided((2, 3), (1, 4), device=x.device),
        lambda x: torch.empty_strided((2, 3), (5, 2)),
        lambda x: torch.empty_strided((2, 3), (0, 1)),
        lambda x: torch.empty_strided((2, 3), (1, 1)),
        lambda x: x.new_empty_strided((3, 2), (1, 3)),
        lambda x: torch.empty_permuted((2, 3, 4), (1, 2, 0)),
        lambda x: torch.empty_like(x.t()),
    ],
)
def test_memory_without_values_has_its_strides(create):
    check(create, SMALL, defined=False)


def test_filled_memory_has_its_strides():
    def f(x):
        y = torch.empty_strided((2, 3), (1, 2))
        y.fill_(3)
        z = torch.empty_strided((2, 3), (4, 1)).copy_(x[:, :3])
        return y, y[1:], z, z * 2

    check(f, SMALL)


def test_complex_results_share_memory_with_their_parts():
    def f(x):
        z = torch.complex(x, x * 2)
        return z, torch.view_as_real(z), z.real, z.imag[1:]

    check(f, SMALL)
    check(lambda z: (torch.view_as_real(z), z.imag), lambda: (grid(2, 3)()[0] + 1j,))
    check(lambda x: torch.view_as_complex(x + 1), grid(3, 2))


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_a_view_of_an_argument_that_starts_further_in_its_storage(offset):
    f = torch.compile(lambda x: (x[:, 1:], x.t()), backend="tpu_tile")
    f(torch.arange(12.0).view(2, 6))
    base, other = torch.arange(40.0), torch.arange(40.0)
    x, y = (b[offset : offset + 12].view(2, 6) for b in (base, other))
    got, want = f(x), (y[:, 1:], y.t())
    compare([base, x, *got], [other, y, *want])


def test_unequal_results_of_one_value_have_memory_of_their_own():
    def f(x):
        y = x + 1
        return y, y.clone(), (x + 1), y.view(-1)

    check(f, SMALL)


def test_a_split_that_torch_runs_shares_memory():
    check(lambda x: torch.polar(x, x).chunk(2, 1), SMALL, WIDE)
