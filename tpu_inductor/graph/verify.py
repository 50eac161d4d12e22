"""Checks the invariants of a graph. Stages run it on what they produce."""

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.attrs import EagerCall, Hole
from tpu_inductor.graph.core import Eqn, Graph, Value, Var
from tpu_inductor.graph.prims import EAGER, PRIMS


def verify(graph: Graph) -> None:
    """Raises InvalidIR unless names are unique, definitions precede uses and types follow rules."""
    defined: dict[str, Var] = {}
    for var in graph.inputs:
        _define(defined, var, f"input of {graph.name}")
    for eqn in graph.eqns:
        for value in eqn.inputs:
            _check_use(defined, value, eqn)
        _check_types(eqn)
        for var in eqn.outputs:
            _define(defined, var, eqn)
    for value in graph.outputs:
        _check_use(defined, value, f"return of {graph.name}")


def _define(defined: dict[str, Var], var: Var, where: object) -> None:
    if var.name in defined:
        raise InvalidIR(f"{var.name} is defined twice; the second time by {where}")
    if any(not isinstance(d, int) for d in var.type.shape):
        raise InvalidIR(f"{var.name} has the symbolic shape {var.type}, defined by {where}")
    defined[var.name] = var


def _check_use(defined: dict[str, Var], value: Value, where: object) -> None:
    if not isinstance(value, Var):
        return
    if value.name not in defined:
        raise InvalidIR(f"{value.name} is used before it is defined: {where}")
    if defined[value.name] != value:
        made, used = defined[value.name].type, value.type
        raise InvalidIR(f"{value.name} is defined as {made} and used as {used}: {where}")


def _check_types(eqn: Eqn) -> None:
    if eqn.prim == EAGER or isinstance(eqn.attrs, EagerCall):
        _check_eager(eqn)
        return
    if eqn.prim not in PRIMS:
        raise InvalidIR(f"there is no primitive {eqn.prim}: {eqn}")
    wanted = PRIMS[eqn.prim].type_rule(eqn.attrs, *(v.type for v in eqn.inputs))
    given = tuple(v.type for v in eqn.outputs)
    if wanted != given:
        raise InvalidIR(f"types should be {', '.join(map(str, wanted))}: {eqn}")


def _check_eager(eqn: Eqn) -> None:
    """The arguments of an eager call name operands that exist."""
    if eqn.prim != EAGER or not isinstance(eqn.attrs, EagerCall):
        raise InvalidIR(f"primitive {eqn.prim} with {type(eqn.attrs).__name__}")
    used = set(_holes([eqn.attrs.args, dict(eqn.attrs.kwargs)]))
    if not used <= set(range(len(eqn.inputs))):
        raise InvalidIR(f"operands {sorted(used)} of {len(eqn.inputs)}: {eqn}")


def _holes(tree: object) -> list[int]:
    if isinstance(tree, Hole):
        return [tree.index]
    if isinstance(tree, list | tuple):
        return [i for branch in tree for i in _holes(branch)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(tree, dict):
        return _holes(list(tree.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return []
