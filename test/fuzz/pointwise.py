"""Rules of expressions that compute each element by itself, and of conversions."""

from test.fuzz.rules import rules

_FUNCTIONS = (
    "tanh", "sigmoid", "exp", "sin", "cos", "atan", "erf", "expm1", "floor", "ceil", "trunc",
    "round", "frac", "reciprocal", "signbit", "isnan", "isinf", "isfinite", "nan_to_num",
)  # fmt: skip
_ACTIVATIONS = ("gelu", "silu", "softplus", "elu", "hardswish", "mish", "selu", "relu6")

UNARY = (
    *rules("f", [f"torch.{name}({{0}})" for name in _FUNCTIONS]),
    *rules("f", [f"F.{name}({{0}})" for name in _ACTIVATIONS]),
    *rules(
        "f",
        [
            "torch.sqrt({0}.abs())",
            "torch.rsqrt({0}.abs() + 0.1)",
            "torch.log1p({0}.abs())",
            "F.leaky_relu({0}, 0.1)",
            "F.gelu({0}, approximate='tanh')",
            "F.hardtanh({0}, -1, 0.5)",
            "torch.pow({0}.abs() + 0.1, <scalar>)",
        ],
    ),
    *rules(
        "n",
        [
            "torch.relu({0})",
            "{0}.abs()",
            "{0}.neg()",
            "{0}.sign()",
            "torch.square({0})",
            "{0}.clamp(-2, 3)",
            "{0}.clamp(min=0)",
            "{0}.clamp_max(1)",
            "{0} > 0",
            "{0} == 0",
            "{0} <= 1",
            "{0} * <scalar>",
            "{0} + <scalar>",
            "<scalar> - {0}",
            "{0} / 3",
            "{0} // 3",
            "{0} % 3",
            "torch.fmod({0}, 3)",
            "{0} ** 2",
            "torch.add({0}, {0}, alpha=2)",
        ],
    ),
    *rules("a", ["torch.logical_not({0})", "{0}.clone()", "{0} != 0", "{0}.detach()"]),
    *rules("i", ["~{0}", "{0} << 2", "{0} >> 1", "{0} & 6", "{0} ^ -1", "{0} | 1"]),
    *rules("b", ["~{0}", "{0} + 1", "{0} * 2.5"]),
)

BINARY = (
    *rules(
        "aa",
        [
            "{0} + {1}",
            "{0} * {1}",
            "torch.maximum({0}, {1})",
            "torch.minimum({0}, {1})",
            "{0} == {1}",
            "{0} < {1}",
            "{0} >= {1}",
            "torch.logical_and({0}, {1})",
            "torch.logical_xor({0}, {1})",
        ],
    ),
    *rules(
        "nn",
        [
            "{0} - {1}",
            "{0} + {1}",
            "{0} * {1}",
            "torch.add({0}, {1}, alpha=2)",
            "torch.rsub({0}, {1})",
            "{0} // ({1}.abs().clamp(1, 9))",
            "{0} % ({1}.abs().clamp(1, 9))",
            "torch.fmod({0}, {1}.abs().clamp(1, 9))",
            "torch.div({0}, {1}.abs().clamp(1, 9), rounding_mode='trunc')",
            "torch.clamp({0}, min={1})",
        ],
    ),
    *rules("fn", ["{0} / {1}", "{0} / ({1} + 2)", "torch.copysign({0}, {1})"]),
    *rules("ff", ["torch.atan2({0}, {1})", "torch.hypot({0}, {1})", "torch.lerp({0}, {1}, 0.3)"]),
    *rules("fff", ["torch.addcmul({0}, {1}, {2}, value=2)", "torch.lerp({0}, {1}, {2})"]),
    *rules("ii", ["{0} & {1}", "{0} | {1}", "{0} ^ {1}"]),
    *rules("bb", ["{0} & {1}", "{0} | {1}", "{0} ^ {1}"]),
    *rules("baa", ["torch.where({0}, {1}, {2})"]),
    *rules("ba", ["torch.where({0}, {1}, 0)", "{1}.masked_fill({0}, 1)", "{1} * {0}"]),
    *rules("bf", ["{1}.masked_fill({0}, -math.inf)", "torch.where({0}, {1}, math.nan)"]),
)

CONVERT = (
    *rules("a", ["{0}.float()", "{0}.double()", "{0}.bool()", "{0}.to(<float>)"]),
    *rules("i", ["{0}.to(<int>)", "{0}.long()", "{0}.int()"]),
    *rules("b", ["{0}.to(<int>)", "{0}.long()", "{0}.int()"]),
    *rules("f", ["{0}.nan_to_num(1, 2, 3).clamp(-99, 99).to(<signed>)"]),
    *rules("f", ["{0}.nan_to_num(1, 2, 3).clamp(0, 99).to(torch.uint8)"]),
    *rules("f", ["{0}.half()", "{0}.bfloat16()", "{0}.to(<float>).to(<float>)"]),
    *rules("fa", ["{1}.type_as({0})"]),
)
