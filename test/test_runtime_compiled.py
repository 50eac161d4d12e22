"""Calling a plan: conversions, aliasing, eager steps, checks, lifetimes."""

import gc
import itertools
import linecache
import os
import weakref
from collections import Counter

import pytest
import torch

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import InvalidIR, LaunchError, Unsupported
from tpu_inductor.graph.attrs import EagerCall, Hole
from tpu_inductor.graph.core import Eqn, Graph, Lit, Var
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.graph.signature import (
    ArgumentOutput,
    ConstantOutput,
    Layout,
    SameAsResult,
    ScalarInput,
    ScalarOutput,
    Signature,
    StaticInput,
    TensorInput,
    TensorOutput,
)
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.runtime.adapters.cpu import CpuAdapter
from tpu_inductor.runtime.compiled import CompiledGraph, Plan

aten = torch.ops.aten

NUMBERS = itertools.count()
"""Of storages, each used once."""


def var(name, shape, dtype=DType.F32):
    return Var(name, TensorType(tuple(shape), dtype))


def given(v, perm=None, copy=False):
    perm = tuple(range(v.type.rank)) if perm is None else perm
    shape = tuple(v.type.dims[perm.index(d)] for d in range(len(perm)))
    strides = torch.empty(v.type.dims).permute([perm.index(d) for d in range(len(perm))]).stride()
    return TensorInput(v, shape, strides, perm, copy)


def result(v, perm=None, storage=None):
    """All of `v`'s memory, seen as `v.permute(perm)`; in a storage of its own by default."""
    base = Layout.row_major(v.type.dtype, v.type.dims)
    perm = tuple(range(v.type.rank)) if perm is None else perm
    shape, strides = (tuple(m[d] for d in perm) for m in (base.shape, base.strides))
    layout = Layout(v.type.dtype, shape, strides)
    return TensorOutput(v, base, layout, next(NUMBERS) if storage is None else storage)


def program(body, inputs, outputs, name="p"):
    args = "".join(f"{v.name}, " for v in inputs)
    source = (
        f"import jax.numpy as jnp\n\ndef program({args}*, interpret=False):\n    return {body}\n"
    )
    return Program(name, source, tuple(inputs), tuple(outputs))


def eager(target, operands, outputs, *args):
    args = args or tuple(Hole(i) for i in range(len(operands)))
    call = EagerCall(target, args, (), "test", False)
    return Eqn("eager", tuple(operands), tuple(outputs), call, COMPILER)


def compile_plan(inputs, steps, outputs, constants=()):
    values = tuple(o.value for o in outputs if isinstance(o, TensorOutput | ScalarOutput))
    params = tuple(i.var for i in inputs if not isinstance(i, StaticInput))
    graph = Graph("g", params, (), values)
    signature = Signature(tuple(inputs), tuple(outputs))
    plan = Plan("g", graph, signature, tuple(constants), tuple(steps), False)
    return CompiledGraph(plan, CpuAdapter())


def add_one(shape, dtype=DType.F32, **how):
    x, y = var("x", shape, dtype), var("y", shape, dtype)
    return compile_plan([given(x, **how)], [program("(x + 1,)", [x], [y])], [result(y)])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (3, 1), (2, 1, 5), (129,)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I64, DType.F64, DType.F16])
def test_a_program_agrees_with_torch(shape, dtype):
    fn = add_one(shape, dtype)
    for _ in range(3):
        x = (torch.randn(shape) * 9).to(TORCH_DTYPE[dtype])
        (y,) = fn([x])
        torch.testing.assert_close(y, x + 1, rtol=0, atol=0)
        assert y.stride() == (x + 1).stride()


def test_int64_is_exact():
    big = torch.tensor([2**62 + 1, -(2**62) - 3])
    assert add_one((2,), DType.I64)([big])[0].tolist() == [2**62 + 2, -(2**62) - 2]


@pytest.mark.parametrize("dtype", [DType.F8E4M3, DType.F8E5M2, DType.BOOL, DType.U8, DType.U32])
def test_every_type_crosses_unchanged(dtype):
    x, y = var("x", (5,), dtype), var("y", (5,), dtype)
    fn = compile_plan([given(x)], [program("(x[::-1],)", [x], [y])], [result(y)])
    t = torch.tensor([0.0, 1.0, 2.0, 1.0, 3.0]).to(TORCH_DTYPE[dtype])
    (y,) = fn([t])
    assert y.dtype == t.dtype
    assert y.float().tolist() == t.float().tolist()[::-1]


def test_results_are_writable_and_own_their_memory():
    fn = add_one((64, 64))
    x = torch.zeros(64, 64)
    (first,), (second,) = fn([x]), fn([x])
    first.add_(5)
    assert second.eq(1).all()
    assert x.eq(0).all()
    del fn
    gc.collect()
    assert first.eq(6).all()


def test_a_program_that_returns_its_input_twice_does_not_alias_it():
    x, y, z = var("x", (64, 64)), var("y", (64, 64)), var("z", (64, 64))
    fn = compile_plan([given(x)], [program("(x, x)", [x], [y, z])], [result(y), result(z)])
    t = torch.zeros(64, 64)
    for _ in range(3):
        y, z = fn([t])
        assert len({t.data_ptr(), y.data_ptr(), z.data_ptr()}) == 3


def test_the_list_is_emptied():
    args = [torch.zeros(2)]
    add_one((2,))(args)
    assert args == []


def test_strides_are_undone_and_redone():
    x, y = var("x", (3, 4)), var("y", (3, 4))
    step = program("(x + jnp.arange(12.).reshape(3, 4).astype(x.dtype),)", [x], [y])
    fn = compile_plan([given(x, perm=(1, 0))], [step], [result(y, perm=(1, 0))])
    base = torch.randn(3, 4)
    (out,) = fn([base.t()])
    torch.testing.assert_close(out, (base + torch.arange(12.0).view(3, 4)).t())
    assert out.stride() == base.t().stride()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(4, 3).t(),
        lambda: torch.randn(1, 4).expand(3, 4),
        lambda: torch.randn(6, 8)[::2, ::2],
        lambda: torch.randn(13)[1:].view(3, 4),
        lambda: torch.randn(3, 4, dtype=torch.complex64).conj().imag,
        lambda: torch.randn(3, 4, requires_grad=True),
        lambda: torch.nn.Parameter(torch.randn(3, 4)),
    ],
)
def test_other_strides_than_expected_are_made_to_conform(make):
    fn, t = add_one((3, 4)), make()
    for _ in range(3):
        torch.testing.assert_close(fn([t])[0], (t + 1).detach())


def test_an_argument_is_passed_through_as_itself_or_as_a_view():
    x = var("x", (3, 4))
    turned = Layout(DType.F32, (4, 3), (1, 4))
    outputs = [ArgumentOutput(0, None), ArgumentOutput(0, turned), result(x)]
    t = torch.randn(3, 4, requires_grad=True)
    same, view, copy = compile_plan([given(x)], [], outputs)([t])
    assert same is t
    assert view.data_ptr() == t.data_ptr()
    assert view.shape == (4, 3)
    assert copy.data_ptr() != t.data_ptr()


@pytest.mark.parametrize("offset", [0, 2])
def test_a_view_of_an_argument_counts_from_its_first_element(offset):
    x = var("x", (3, 4))
    fn = compile_plan([given(x)], [], [ArgumentOutput(0, Layout(DType.F32, (2,), (4,), 5))])
    base = torch.arange(20.0)
    (view,) = fn([base[offset : offset + 12].view(3, 4)])
    assert view.tolist() == [5 + offset, 9 + offset]
    assert view.untyped_storage()._cdata == base.untyped_storage()._cdata


def test_a_view_of_an_argument_with_other_strides_has_the_right_values():
    x = var("x", (3, 4))
    fn = compile_plan([given(x)], [], [ArgumentOutput(0, Layout(DType.F32, (3,), (4,), 1))])
    t = torch.arange(12.0).view(4, 3).t()
    assert fn([t])[0].tolist() == t[:, 1].tolist()


def test_results_share_memory_where_their_storage_is_one():
    x, y = var("x", (3,)), var("y", (3,))
    outputs = [result(y, storage=0), result(y), SameAsResult(0), result(y, storage=0)]
    fn = compile_plan([given(x)], [program("(x + 1,)", [x], [y])], outputs)
    first, second, third, fourth = fn([torch.zeros(3)])
    assert first is third
    assert first is not fourth
    assert first.data_ptr() == fourth.data_ptr() != second.data_ptr()


def test_a_result_with_holes_lies_in_memory_as_told():
    x, y = var("x", (2, 3)), var("y", (2, 3))
    base = Layout(DType.F32, (2, 3), (1, 4), 1)
    fn = compile_plan([given(x)], [program("(x + 1,)", [x], [y])], [TensorOutput(y, base, base, 0)])
    (out,) = fn([torch.arange(6.0).view(2, 3)])
    assert out.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (out.stride(), out.storage_offset()) == ((1, 4), 1)
    assert out.untyped_storage().nbytes() == 11 * 4


def test_a_clone_is_not_the_argument_that_it_copies():
    t = torch.zeros(4)
    copy, same = torch.compile(lambda x: (x.clone(), x), backend="tpu_tile")(t)
    assert copy.data_ptr() != t.data_ptr()
    assert same is t


def test_numbers_enter_and_leave():
    n, x, y, m = var("n", (), DType.I64), var("x", (2,)), var("y", (2,)), var("m", (), DType.I64)
    step = program("(x * n.astype(x.dtype), n + 1)", [x, n], [y, m])
    outputs = [result(y), ScalarOutput(m), ConstantOutput(None), ConstantOutput(7)]
    fn = compile_plan([ScalarInput(n), StaticInput(), given(x)], [step], outputs)
    out = fn([2**40, 99, torch.ones(2)])
    assert out[0].tolist() == [2.0**40] * 2
    assert out[1:] == (2**40 + 1, None, 7)
    with pytest.raises(LaunchError, match=r"argument 0 \(n\).*i64"):
        fn([0.5, 99, torch.ones(2)])


def test_literal_results():
    scalar = Layout.row_major(DType.I32, ())
    two = TensorOutput(Lit(2, DType.I32), scalar, scalar, 0)
    fn = compile_plan([], [], [two, ScalarOutput(Lit(2.5, DType.F64))])
    for _ in range(2):
        tensor, number = fn([])
        assert (tensor.dtype, tensor.item(), number) == (torch.int32, 2, 2.5)
        tensor.zero_()


def test_eager_steps_run_between_programs():
    x, a, b, c = (var(n, (4,), DType.BF16) for n in "xabc")
    steps = [
        program("(x * 2,)", [x], [a]),
        eager(aten.flip.default, [a], [b], Hole(0), [0]),
        program("(b + x,)", [b, x], [c]),
    ]
    fn = compile_plan([given(x)], steps, [result(c), result(b)])
    t = torch.arange(4.0, dtype=torch.bfloat16)
    c, b = fn([t])
    assert b.tolist() == [6, 4, 2, 0]
    assert c.tolist() == [6, 5, 4, 3]


def test_torch_steps_pass_tensors_without_conversion():
    x, a, b = (var(n, (4,), DType.C64) for n in "xab")
    steps = [eager(aten.mul.Tensor, [x], [a], Hole(0), 2), eager(aten.neg.default, [a], [b])]
    fn = compile_plan([given(x)], steps, [result(b)])
    assert fn([torch.ones(4, dtype=torch.complex64)])[0].tolist() == [-2] * 4


def test_an_eager_view_of_an_argument_is_copied_where_the_result_has_its_own_memory():
    x, y = var("x", (4,)), var("y", (4,))
    fn = compile_plan([given(x)], [eager(aten.alias.default, [x], [y])], [result(y)])
    t = torch.zeros(4)
    assert fn([t])[0].data_ptr() != t.data_ptr()


def test_what_torch_computes_is_returned_as_it_lies_in_memory():
    x, a, b = (var(n, (2, 3)) for n in "xab")
    seen = []

    def turn(t):
        seen.append(t.t().contiguous().t())
        return seen[-1]

    steps = [eager(aten.neg.default, [x], [a]), eager(turn, [a], [b])]
    fn = compile_plan([given(x)], steps, [result(b)])
    (out,) = fn([torch.arange(6.0).view(2, 3)])
    assert out.stride() == (3, 1)
    assert out.tolist() == seen[0].tolist()


def test_constants_are_bound_once_and_never_handed_out():
    k, x, y = var("k", (3,)), var("x", (3,)), var("y", (3,))
    value = torch.tensor([1.0, 2.0, 3.0])
    step = program("(x + k,)", [x, k], [y])
    fn = compile_plan([given(x)], [step], [result(y), result(k)], constants=[(k, value)])
    for _ in range(2):
        y, k = fn([torch.zeros(3)])
        assert y.tolist() == [1, 2, 3]
        k.zero_()


def test_writes_to_a_parameter_are_seen():
    fn, p = add_one((64, 64)), torch.nn.Parameter(torch.zeros(64, 64))
    for n in range(4):
        assert fn([p])[0].eq(n + 1).all()
        p.data.add_(1)
    p.data = torch.full((64, 64), 9.0)
    assert fn([p])[0].eq(10).all()


def test_a_parameter_is_converted_once():
    fn, p = add_one((64, 64)), torch.nn.Parameter(torch.zeros(64, 64))
    fn([p])
    slot = fn._bound.slots[0]
    held = slot._held.array
    assert held.unsafe_buffer_pointer() == p.data_ptr()
    fn([p])
    assert slot.array(p) is held


def test_no_tensor_is_kept_alive():
    fn = add_one((64, 64))
    for _ in range(3):
        p = torch.nn.Parameter(torch.zeros(64, 64))
        fn([p]), fn([p])
        memory = weakref.ref(p.untyped_storage())
        ref = weakref.ref(p)
        del p
        assert ref() is None
        assert fn._bound.slots[0]._held is None
        # jax lets go of borrowed memory when it is entered next.
        fn([torch.zeros(64, 64)])
        assert memory() is None


def test_operands_die_after_their_last_use():
    seen = []

    def look(t):
        seen.append(ref())
        return t.clone()

    x, a, b = (var(n, (4,)) for n in "xab")
    steps = [eager(aten.neg.default, [x], [a]), eager(look, [a], [b])]
    fn = compile_plan([given(x)], steps, [result(b)])
    args = [torch.zeros(4)]
    ref = weakref.ref(args[0])
    fn(args)
    assert seen == [None]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 1 arguments, got 0"),
        ([torch.zeros(2)], r"argument 0 \(x\): expected a tensor \(3,\).*got a tensor \(2,\)"),
        ([torch.zeros(3, dtype=torch.int32)], "expected a tensor.*float32, got.*int32"),
        ([3], "got a int"),
    ],
)
def test_other_arguments_are_refused(args, message):
    with pytest.raises(LaunchError, match=message):
        add_one((3,))(args)


def test_a_tensor_on_another_device_is_unsupported():
    with pytest.raises(Unsupported, match=r"device meta.*supported: cpu"):
        add_one((3,))([torch.zeros(3, device="meta")])


def test_an_undefined_value_is_our_bug():
    x, y = var("x", (3,)), var("y", (3,))
    with pytest.raises(InvalidIR, match="x is read before"):
        compile_plan([], [program("(x,)", [x], [y])], [result(y)])


KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def kernel(x_ref, y_ref):
    y_ref[0:{rows}, :] = x_ref[0:{rows}, :] + 1.0


def program(x, *, interpret=False):
    with jax.enable_x64(False):
        out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
        return (pl.pallas_call(kernel, out_shape=out, interpret=interpret)(x),)
"""


@pytest.mark.parametrize(("rows", "unwritten"), [(8, 0), (4, 4)])
def test_tpu_interpretation_poisons_what_a_kernel_does_not_write(rows, unwritten):
    x, y = var("x", (8, 128)), var("y", (8, 128))
    step = Program("p", KERNEL.format(rows=rows), (x,), (y,))
    signature = Signature((given(x),), (result(y),))
    plan = Plan("g", Graph("g", (x,), (), (y,)), signature, (), (step,), "tpu")
    (y,) = CompiledGraph(plan, CpuAdapter())([torch.zeros(8, 128)])
    assert y.isnan().all(dim=1).sum() == unwritten
    assert y[:rows].eq(1).all()


def test_storages_of_arguments_can_be_resized_after_a_call():
    fn, x = add_one((64, 64)), torch.zeros(64, 64)
    p = torch.nn.Parameter(torch.zeros(64, 64))
    for t in (x, p):
        fn([t]), fn([t])
        assert t.untyped_storage().resizable()
    x.resize_(100, 64)


def test_a_parameter_is_emptied_and_filled_again_between_calls():
    fn, p = add_one((64, 64)), torch.nn.Parameter(torch.zeros(64, 64))
    memory = p.untyped_storage()
    for n in range(4):
        with torch.no_grad():
            p.fill_(n)
        assert fn([p])[0].eq(n + 1).all()
        memory.resize_(0)
        with pytest.raises(LaunchError, match="resized to 0"):
            fn([p])
        blocker = torch.empty(64 * 64)  # takes the place where it was
        memory.resize_(64 * 64 * 4)
        del blocker


def message_in_fork(call, error_type):
    """What `call` raises in a forked process."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
        except error_type as error:
            os.write(sink, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    message = os.read(source, 1000).decode()
    os.close(source), os.close(sink)
    return message


def test_a_call_in_a_fork_raises_at_once():
    fn, t = add_one((64, 64)), torch.zeros(64, 64)
    fn([t])
    message = message_in_fork(lambda: fn([t]), LaunchError)
    assert f"process {os.getpid()}" in message
    assert "spawn" in message


def test_compiling_in_a_fork_raises_at_once():
    CpuAdapter().process()
    message = message_in_fork(lambda: add_one((2,)), Unsupported)
    assert "JAX was started" in message


def living_graphs():
    gc.collect()
    return sum(type(o) is CompiledGraph for o in gc.get_objects())


def test_a_graph_dies_with_the_function_that_was_compiled():
    before, lines = living_graphs(), len(linecache.cache)
    for n in range(4):
        fn = torch.compile(lambda x: torch.relu(x + 1).sum(1), backend="tpu_tile")
        for _ in range(3):
            fn(torch.ones(4, 4 + n))
        assert living_graphs() > before
        del fn
        torch._dynamo.reset()
    assert living_graphs() == before
    assert not any(name.startswith("<tpu_tile model") for name in [*linecache.cache][lines:])


@torch.library.custom_op("tpu_inductor_test::in_memory_order", mutates_args=())
def in_memory_order(x: torch.Tensor) -> torch.Tensor:
    return x.clone().as_strided((x.numel(),), (1,))


@in_memory_order.register_fake
def _(x):
    return x.new_empty((x.numel(),))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.ops.aten.resize(x.t(), (2, 3)),
        lambda x: torch.ops.aten.resize(x[:, 1:3], (2, 2)),
        lambda x: torch.ops.aten.resize((x + 1).t(), (4, 2)) * 2,
        lambda x: in_memory_order((x * 2).t()) + 1,
        lambda x: in_memory_order(x=x.t()),
    ],
)
def test_calls_that_look_at_memory_see_it_as_in_eager(fn):
    x = torch.arange(12.0).view(3, 4)
    torch.testing.assert_close(torch.compile(fn, backend="tpu_tile")(x), fn(x), rtol=0, atol=0)


def living_values():
    """How many values of the compiler, and traces and executables of JAX, there are by type."""
    gc.collect()
    kinds = (type(o) for o in gc.get_objects())
    jax_kinds = ("ClosedJaxpr", "Jaxpr", "MeshExecutable", "MeshComputation")
    return Counter(
        kind.__name__
        for kind in kinds
        if str(kind.__module__).startswith("tpu_inductor.") or kind.__name__ in jax_kinds
    )


def test_nothing_of_a_compilation_outlives_the_function():
    """JAX keeps keys of `_check_and_canonicalize_out_shardings`, 4096 of them at most."""

    def compiled_once():
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        fn = torch.compile(model, backend="tpu_tile")
        with torch.no_grad():
            fn(torch.ones(4, 8))
        return fn

    compiled_once()
    torch._dynamo.reset()
    before = living_values()
    fn = compiled_once()
    alive = living_values() - before
    assert alive["CompiledGraph"] == 1
    assert alive["MeshExecutable"] > 0
    del fn
    torch._dynamo.reset()
    assert living_values() == before
