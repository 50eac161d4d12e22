"""The jnp spelling of primitives: one Python expression per equation.

    add(x, 1.0:f32)                ->  x + 1.0
    reduce_sum(x; dims=(1,))       ->  jnp.sum(x, axis=(1,), dtype=jnp.float32)

The text has the equation's exact result type with and without jax_enable_x64. Pointwise, create,
view, reduce and dot spellings are also valid in the body of a Pallas kernel. Operands are names,
subscripted names, or `literal(lit)`; the names jax, jnp and lax are the usual imports.
"""

from collections.abc import Sequence

from tpu_inductor.codegen.expr_literal import (
    FLOAT8,
    HALF,
    Spelling,
    dtype_text,
    ints,
    literal,
    mixed_operands,
    typed_operands,
)
from tpu_inductor.codegen.expr_special import SPECIAL
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit
from tpu_inductor.graph.types import DType

__all__ = ["SPELL", "literal", "spell"]


def spell(eqn: Eqn, operands: Sequence[str]) -> str:
    """The expression of `eqn` over `operands`; a tuple for primitives with several results."""
    return SPELL[eqn.prim](eqn, operands)


# -- pointwise ------------------------------------------------------------------
def _call(function: str) -> Spelling:
    """`jnp.maximum(x, y)`, exact in every type."""
    return lambda eqn, ops: f"{function}({', '.join(mixed_operands(eqn, ops))})"


def _float_call(function: str) -> Spelling:
    """`jnp.exp(x)`; 16-bit floats compute in float32 and round once.

    JAX computes some functions of bfloat16 in several rounded steps (exp2 of 100 is 27 % off).
    """

    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        dtype = eqn.out.type.dtype
        operands = typed_operands(eqn, ops)
        if dtype not in HALF:
            return f"{function}({', '.join(operands)})"
        wide = ", ".join(f"{x}.astype(jnp.float32)" for x in operands)
        return f"{function}({wide}).astype({dtype_text(dtype)})"

    return text


def _prefix(sign: str) -> Spelling:
    return lambda eqn, ops: f"{sign}{typed_operands(eqn, ops)[0]}"


def _infix(sign: str, on_bool: str = "") -> Spelling:
    """`x + y`; `on_bool` is the operator that means the same for booleans."""

    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        is_bool = eqn.inputs[0].type.dtype is DType.BOOL
        return f" {on_bool if is_bool and on_bool else sign} ".join(mixed_operands(eqn, ops))

    return text


def _call_unless_bool(function: str, on_bool: str) -> Spelling:
    plain, boolean = _call(function), _infix(on_bool)

    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        is_bool = eqn.inputs[0].type.dtype is DType.BOOL
        return boolean(eqn, ops) if is_bool else plain(eqn, ops)

    return text


def _rounding(function: str) -> Spelling:
    """Rounding of floats; integers are whole already."""

    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        (x,) = typed_operands(eqn, ops)
        return f"{function}({x})" if eqn.out.type.dtype.is_float else x

    return text


def _sign(eqn: Eqn, ops: Sequence[str]) -> str:
    """torch gives 0 for NaN and for -0.0, where jnp.sign gives the operand."""
    (x,) = typed_operands(eqn, ops)
    dtype = eqn.out.type.dtype
    if not dtype.is_float:
        return x if dtype is DType.BOOL else f"jnp.sign({x})"
    to = dtype_text(dtype)
    return f"({x} > 0).astype({to}) - ({x} < 0).astype({to})"


def _idiv(eqn: Eqn, ops: Sequence[str]) -> str:
    x, y = typed_operands(eqn, ops)
    dtype = eqn.out.type.dtype
    if not dtype.is_float:
        return f"lax.div({x}, {y})"
    if dtype not in HALF:
        return f"jnp.trunc({x} / {y})"
    quotient = f"{x}.astype(jnp.float32) / {y}.astype(jnp.float32)"
    return f"jnp.trunc({quotient}).astype({dtype_text(dtype)})"


def _pow(eqn: Eqn, ops: Sequence[str]) -> str:
    """jnp.power of integers reads six bits of the exponent; this reads them all.

    A negative power of an integer other than 1 and -1 is 0, as in torch.
    """
    x, y = typed_operands(eqn, ops)
    dtype, power = eqn.out.type.dtype, eqn.inputs[1]
    if dtype.is_float:
        return _float_call("jnp.power")(eqn, ops)
    if isinstance(power, Lit) and power.value >= 0:
        return f"lax.integer_pow({x}, {power.value})"
    step = "(jnp.where(s[2] & 1 != 0, s[0] * s[1], s[0]), s[1] * s[1], s[2] >> 1)"
    start = "(jnp.ones_like(x), x, y)"
    whole = f"lax.fori_loop(0, {8 * dtype.itemsize}, lambda _, s: {step}, {start})[0]"
    inverse = "jnp.where(jnp.abs(x) != 1, 0, jnp.where(y & 1 == 0, 1, x))"
    function = f"lambda x, y: jnp.where(y < 0, {inverse}, {whole})"
    return f"({function})(*jnp.broadcast_arrays({x}, {y}))"


def _digamma(eqn: Eqn, ops: Sequence[str]) -> str:
    """torch has a signed pole at 0, where JAX gives NaN."""
    (x,) = typed_operands(eqn, ops)
    return f"jnp.where({x} == 0, -1 / {x}, {_float_call('lax.digamma')(eqn, ops)})"


def _is_nan(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,) = typed_operands(eqn, ops)
    if eqn.inputs[0].type.dtype.is_float:
        return f"jnp.isnan({x})"
    return f"jnp.full({ints(eqn.out.type.dims)}, False, jnp.bool_)"


def _select(eqn: Eqn, ops: Sequence[str]) -> str:
    return f"jnp.where({', '.join(mixed_operands(eqn, ops, first=1))})"


def _convert(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,) = typed_operands(eqn, ops)
    src, dst = eqn.inputs[0].type.dtype, eqn.out.type.dtype
    if src is dst:
        return x
    if dst is DType.BOOL:
        return f"{x} != 0"
    if dst in FLOAT8:
        return _to_float8(x, src, dst)
    return f"{x}.astype({dtype_text(dst)})"


def _to_float8(x: str, src: DType, dst: DType) -> str:
    """torch rounds by way of float32, and saturates in float8_e4m3fn where JAX gives NaN."""
    x = x if src is DType.F32 else f"{x}.astype(jnp.float32)"
    x = f"jnp.clip({x}, -448.0, 448.0)" if dst is DType.F8E4M3 else x
    return f"{x}.astype({dtype_text(dst)})"


def _bitcast(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,) = typed_operands(eqn, ops)
    src, dst = eqn.inputs[0].type.dtype, eqn.out.type.dtype
    if src is dst:
        return x
    if dst is DType.BOOL:
        return f"{x} != 0"
    if src is DType.BOOL:
        x = f"{x}.astype(jnp.uint8)"
    return f"lax.bitcast_convert_type({x}, {dtype_text(dst)})"


# -- creation and views ---------------------------------------------------------
def _iota(eqn: Eqn, ops: Sequence[str]) -> str:
    attrs, dtype = eqn.attrs, eqn.out.type.dtype
    assert isinstance(attrs, A.Iota)
    made = dtype if dtype.is_int else DType.I32
    text = f"lax.broadcasted_iota({dtype_text(made)}, {ints(attrs.shape)}, {attrs.dim})"
    if dtype is DType.BOOL:
        return f"{text} != 0"
    return text if made is dtype else f"{text}.astype({dtype_text(dtype)})"


def _full(eqn: Eqn, ops: Sequence[str]) -> str:
    attrs, dtype = eqn.attrs, eqn.out.type.dtype
    assert isinstance(attrs, A.Full)
    value = literal(Lit(attrs.value, dtype))
    return f"jnp.full({ints(attrs.shape)}, {value}, {dtype_text(dtype)})"


def _broadcast(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,), attrs = typed_operands(eqn, ops), eqn.attrs
    assert isinstance(attrs, A.Broadcast)
    rank = len(attrs.shape)
    if attrs.dims == tuple(range(rank - len(attrs.dims), rank)):
        return f"jnp.broadcast_to({x}, {ints(attrs.shape)})"
    return f"lax.broadcast_in_dim({x}, {ints(attrs.shape)}, {attrs.dims})"


def _reshape(eqn: Eqn, ops: Sequence[str]) -> str:
    return f"jnp.reshape({typed_operands(eqn, ops)[0]}, {ints(eqn.out.type.shape)})"


def _transpose(eqn: Eqn, ops: Sequence[str]) -> str:
    assert isinstance(eqn.attrs, A.Transpose)
    return f"jnp.transpose({typed_operands(eqn, ops)[0]}, {eqn.attrs.perm})"


# -- reductions and dot ---------------------------------------------------------
def _reduce(function: str, on_bool: str, accumulates: bool) -> Spelling:
    """16-bit floats are summed in float32; `dtype` keeps small integers from widening."""

    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        (x,), attrs, dtype = typed_operands(eqn, ops), eqn.attrs, eqn.out.type.dtype
        assert isinstance(attrs, A.Dims)
        if not attrs.dims:
            return x
        if dtype is DType.BOOL:
            return f"{on_bool}({x}, axis={attrs.dims})"
        if not accumulates:
            return f"{function}({x}, axis={attrs.dims})"
        if dtype in (DType.BF16, DType.F16):
            wide = f"{function}({x}, axis={attrs.dims}, dtype=jnp.float32)"
            return f"{wide}.astype({dtype_text(dtype)})"
        return f"{function}({x}, axis={attrs.dims}, dtype={dtype_text(dtype)})"

    return text


def _arg_reduce(function: str) -> Spelling:
    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        assert isinstance(eqn.attrs, A.Axis)
        return f"{function}({typed_operands(eqn, ops)[0]}, {eqn.attrs.dim}, jnp.int32)"

    return text


def _dot(eqn: Eqn, ops: Sequence[str]) -> str:
    """16-bit results accumulate in float32; the precision counts for float32 operands alone."""
    attrs = eqn.attrs
    assert isinstance(attrs, A.Dot)
    lhs, rhs = typed_operands(eqn, ops)
    contract = f"({attrs.lhs_contract}, {attrs.rhs_contract})"
    batch = f"({attrs.lhs_batch}, {attrs.rhs_batch})"
    acc = DType.F32 if attrs.dtype in HALF else attrs.dtype
    precise = ""
    if eqn.inputs[0].type.dtype is DType.F32:
        precise = f", precision=lax.Precision.{attrs.precision.upper()}"
    text = (
        f"lax.dot_general({lhs}, {rhs}, ({contract}, {batch}){precise}, "
        f"preferred_element_type={dtype_text(acc)})"
    )
    return text if acc is attrs.dtype else f"{text}.astype({dtype_text(attrs.dtype)})"


_JNP = {
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log2": "log2",
    "log10": "log10",
    "log1p": "log1p",
    "sqrt": "sqrt",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
}
_LAX = ["rsqrt", "erf", "erfc", "erf_inv", "lgamma", "logistic", "rem"]
_INFIX = {
    "sub": "-",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}

SPELL: dict[str, Spelling] = {
    **{prim: _float_call(f"jnp.{name}") for prim, name in _JNP.items()},
    **{name: _float_call(f"lax.{name}") for name in _LAX},
    **{prim: _infix(sign) for prim, sign in _INFIX.items()},
    **{name: _rounding(f"jnp.{name}") for name in ("floor", "ceil", "round", "trunc")},
    "abs": _call("jnp.abs"),
    "nextafter": _call("jnp.nextafter"),
    "neg": _prefix("-"),
    "not": _prefix("~"),
    "add": _infix("+", on_bool="|"),
    "mul": _infix("*", on_bool="&"),
    "max": _call_unless_bool("jnp.maximum", "|"),
    "min": _call_unless_bool("jnp.minimum", "&"),
    "sign": _sign,
    "idiv": _idiv,
    "pow": _pow,
    "digamma": _digamma,
    "is_nan": _is_nan,
    "select": _select,
    "convert": _convert,
    "bitcast": _bitcast,
    "iota": _iota,
    "full": _full,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reduce_sum": _reduce("jnp.sum", "jnp.any", accumulates=True),
    "reduce_prod": _reduce("jnp.prod", "jnp.all", accumulates=True),
    "reduce_max": _reduce("jnp.max", "jnp.any", accumulates=False),
    "reduce_min": _reduce("jnp.min", "jnp.all", accumulates=False),
    "reduce_and": _reduce("jnp.bitwise_and.reduce", "jnp.all", accumulates=False),
    "reduce_or": _reduce("jnp.bitwise_or.reduce", "jnp.any", accumulates=False),
    "argmax": _arg_reduce("lax.argmax"),
    "argmin": _arg_reduce("lax.argmin"),
    "dot": _dot,
    **SPECIAL,
}
"""The spelling of every primitive."""
