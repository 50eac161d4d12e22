"""From an AOTAutograd graph (functional ATen calls, fake tensors in `meta`) to the graph IR.

Every call becomes the equations of its lowering, or one `eager` equation with the reason. A graph
that is not a function of plain dense tensors is rejected whole and runs in torch. For example

    mul: "f32[8, 4]" = torch.ops.aten.mul.Tensor(arg0_1, 2)
    -->  mul: f32[8,4] = mul(arg0_1, 2.0:f32)  # aten.mul.Tensor
"""

import operator
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from tpu_inductor.errors import InvalidIR, Reject, blame, leave_in_torch
from tpu_inductor.front.eager import dig_holes, eager_call, missing_lowering, tensor_type
from tpu_inductor.front.inputs import bind_inputs
from tpu_inductor.front.numbers import compute_number, fill_tensors, number_type
from tpu_inductor.front.origins import hint_name, names_of, op_name, origin_of
from tpu_inductor.front.outputs import bind_outputs, output_values
from tpu_inductor.front.symbols import SYMBOLIC, Sizes, evaluate, is_sized, shape_symbols
from tpu_inductor.front.whole import check_whole_graph
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Lit, Value, Var
from tpu_inductor.graph.signature import Signature
from tpu_inductor.graph.types import TensorType
from tpu_inductor.lowerings import LOWERINGS


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph, how its caller calls it, and the tensors behind its last inputs."""

    graph: Graph
    signature: Signature
    constants: tuple[tuple[Var, torch.Tensor], ...]


@dataclass(frozen=True, slots=True)
class _Import:
    """What the import of one graph knows so far."""

    gm: GraphModule
    sizes: Sizes
    b: Builder
    eager_ops: frozenset[str]
    env: dict[Node, Any] = field(default_factory=dict[Node, Any])
    constants: list[tuple[Var, torch.Tensor]] = field(
        default_factory=list[tuple[Var, torch.Tensor]]
    )


def import_fx(
    gm: GraphModule,
    name: str,
    sizes: Sizes,
    *,
    has_checks: bool = False,
    eager_ops: Collection[str] = (),
) -> Imported | Reject:
    """`gm` as a concrete graph, with `sizes` for its shape symbols, or why it stays torch.

    With `has_checks`, the graph raises at integers that eager torch refuses. Calls of `eager_ops`,
    `aten.sort` or `aten.sort.stable`, stay eager. Raises InvalidIR for a bug in the lowering of a
    call, with the user's line.
    """
    unknown = [s for s in shape_symbols(gm) if s not in sizes]
    if unknown:
        return Reject(f"a shape depends on data: {', '.join(map(str, unknown))}")
    problem = check_whole_graph(gm, sizes)
    if problem is not None:
        return problem
    state = _Import(gm, sizes, Builder(has_checks=has_checks), frozenset(eager_ops))
    inputs = bind_inputs(state.b, gm, sizes, state.env)
    _import_constants(state)
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        with blame(*_call_text(node)):
            result = _import_call(state, node)
        if isinstance(result, Reject):
            return result
        state.env[node] = result
    outputs = bind_outputs(state.b, gm, sizes, state.env)
    if isinstance(outputs, Reject):
        return outputs
    graph = state.b.finish(name, output_values(outputs))
    return Imported(graph, Signature(inputs, outputs), tuple(state.constants))


def _import_constants(state: _Import) -> None:
    for node in state.gm.graph.find_nodes(op="get_attr", sort=True):
        value = operator.attrgetter(str(node.target))(state.gm)
        if isinstance(value, torch.Tensor):
            type_ = tensor_type(value, state.sizes)
            assert isinstance(type_, TensorType)  # check_whole_graph has looked at it
            var = state.b.input(node.name, type_)
            state.constants.append((var, value.detach().contiguous()))
            value = var
        state.env[node] = value


def _call_text(node: Node) -> tuple[str, str, str]:
    """What to say of a bug in the import of a call: what was done, where, and the way around."""
    op = op_name(node.target)
    return f"the lowering of {op}", origin_of(node).place, leave_in_torch(op)


def _import_call(state: _Import, node: Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, SYMBOLIC) and is_sized(value, state.sizes):
        return _evaluate_number(node, value, state.sizes)
    args, kwargs = _map_arguments(state, (node.args, node.kwargs))
    if node.target is operator.getitem:
        return _get_item(node, *args)
    out = _tensor_types(value, state.sizes)
    b = state.b.at(origin_of(node), hint_name(node.target), out)
    if isinstance(value, SYMBOLIC):
        return _import_number(b, node, args)
    if node.target is torch.ops.aten._assert_scalar.default:
        return None  # check_whole_graph has seen that it holds
    result = _lower(state, b, node, args, kwargs)
    if isinstance(result, Reject):
        return _run_eagerly(state, b, node, args, kwargs, result.reason)
    return _check_result(b, node, result)


def _evaluate_number(node: Node, value: Any, sizes: Sizes) -> Any:
    """The number that sizes give; Reject where it divides by zero, so that torch raises."""
    try:
        return evaluate(value, sizes)
    except ZeroDivisionError:
        return Reject(f"{op_name(node.target)} of a size by zero ({origin_of(node).place})")


def _get_item(node: Node, container: Any, index: int) -> Any:
    item = container[index]
    if isinstance(item, _NotATensor):
        return Reject(
            f"{item.op} gives a {item.kind} that the graph uses ({origin_of(node).place})"
        )
    return item


def _map_arguments(state: _Import, arguments: tuple[Any, Any]) -> tuple[tuple[Any, ...], Any]:
    """The arguments of a node with graph values and numbers in the place of nodes."""

    def look_up(node: Node) -> Any:
        return state.env[node]

    def number(x: Any) -> Any:
        return evaluate(x, state.sizes) if isinstance(x, SYMBOLIC) else x

    args, kwargs = torch.fx.map_arg(arguments, look_up)  # pyright: ignore[reportPrivateImportUsage]
    return tuple(map(number, args)), {k: number(v) for k, v in kwargs.items()}


def _import_number(b: Builder, node: Node, args: tuple[Any, ...]) -> Value | Reject:
    if node.target is torch.ops.aten._local_scalar_dense.default:
        (x,) = args
        return b.convert(b.reshape(x, ()), number_type(node.meta["val"]))
    return compute_number(b, node.target, args)


def _lower(
    state: _Import, b: Builder, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    target = node.target
    if not state.eager_ops.isdisjoint(names_of(target)):
        return Reject(f"{op_name(target)} is left in torch by the option eager_ops")
    if not isinstance(target, OpOverload) or target not in LOWERINGS:
        return Reject(missing_lowering(node))
    args = fill_tensors(b, target, args)
    operands = dig_holes(args, kwargs).values
    if any(t.dtype.is_complex for t in (*b.out, *(v.type for v in operands))):
        return Reject(f"{op_name(target)} on complex numbers")
    return LOWERINGS[target](b, *args, **kwargs)


def _run_eagerly(
    state: _Import,
    b: Builder,
    node: Node,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reason: str,
) -> Any:
    operands = dig_holes(args, kwargs)
    call = eager_call(node, operands, reason, state.sizes)
    outputs = iter(b.eager(call, [b.tensor(v) for v in operands.values], b.out))
    return _rebuild(node.meta.get("val"), outputs, op_name(node.target))


@dataclass(frozen=True, slots=True)
class _NotATensor:
    """A result of an eager call that no graph value can hold."""

    op: str
    kind: str


def _rebuild(value: Any, outputs: Any, op: str) -> Any:
    """`outputs` in the structure of an operator's result."""
    if isinstance(value, torch.Tensor):
        return next(outputs)
    if isinstance(value, tuple | list):
        return tuple(_rebuild(v, outputs, op) for v in value)
    return None if value is None else _NotATensor(op, type(value).__name__)


def _tensor_types(value: Any, sizes: Sizes) -> tuple[TensorType, ...]:
    if isinstance(value, tuple | list):
        return tuple(t for v in value for t in _tensor_types(v, sizes))
    if not isinstance(value, torch.Tensor):
        return ()
    type_ = tensor_type(value, sizes)
    assert isinstance(type_, TensorType)  # check_whole_graph has looked at it
    return (type_,)


def _check_result(b: Builder, node: Node, result: Any) -> Any:
    """`result` of a lowering, literals made tensors. Raises InvalidIR where torch differs."""
    flat = [result] if isinstance(result, Var | Lit) else [r for r in result or () if r is not None]
    got = tuple(r.type for r in flat)
    if got != b.out:
        wanted = ", ".join(map(str, b.out))
        raise InvalidIR(f"gives {', '.join(map(str, got))} where torch gives {wanted}")
    if isinstance(result, Var | Lit):
        value = b.tensor(result)
        return (value,) if isinstance(node.meta["val"], tuple | list) else value
    return tuple(None if r is None else b.tensor(r) for r in result or ())
