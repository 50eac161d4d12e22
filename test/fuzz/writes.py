"""Rules of statements that change an operand in place, and which signs of zeros are not fixed."""

from test.fuzz.rules import rules

WRITES = (
    *rules(
        "w",
        [
            "{0}.zero_()",
            "{0}.fill_(2)",
            "{0}.add_(1)",
            "{0}.mul_(2)",
            "{0}[1:].fill_(1)",
            "{0}[0] = 1",
            "{0}[:, 0] += 1",
            "{0}[..., 1:] = 0",
            "{0}[::2].mul_(3)",
            "{0}.t().add_(1)",
            "{0}.diagonal().fill_(1)",
            "{0}.view(-1).mul_(2)",
            "{0}.transpose_(0, -1)",
            "{0}.t_()",
            "{0}.unsqueeze_(<dim>)",
            "{0}.squeeze_()",
            "{0}.unsqueeze(0).neg_()",
            "{0}.select(<dim>, -1).zero_()",
            "{0}.masked_fill_({0} > 0, 1)",
            "{0}.chunk(2, <dim>)[0].add_(1)",
        ],
    ),
    *rules(
        "wa",
        [
            "{0}.add_({1})",
            "{0}.mul_({1})",
            "{0}.copy_({1})",
            "{0}[1:] = {1}[1:]",
            "{0}[0] = {1}",
            "{0}[:, 0] = {1}[0]",
            "{0}.sub_({1})",
            "{0}.transpose(0, 1).copy_({1})",
            "torch.add({1}, 1, out={0})",
            "{0}.where({0} > 0, {1}).add_(1)",
        ],
    ),
    *rules("wb", ["{0}.masked_fill_({1}, 2)", "{0}[{1}] = 0", "{0}[{1}] += 1"]),
    *rules("wl", ["{0}[{1} % {0}.shape[0]] = 1", "{0}.index_fill_(0, {1} % {0}.shape[0], 2)"]),
    *rules("wla", ["{0}.scatter_(<dim>, {1} % {0}.shape[<dim>], 1)"]),
    *rules("wla", ["{0}.index_add_(0, {1} % {0}.shape[0], {2})"]),
    *rules("wla", ["{0}.index_put_(({1} % {0}.shape[0],), {2}, accumulate=True)"]),
    *rules("w", ["{0}.resize_({0}.shape[0])", "{0}.clamp_(-1, 1)", "{0}.relu_()"]),
    *rules("w", ["{0}.set_({0}.detach().clone())"]),
)
"""Statements that change an operand in place: its data, or its shape."""

UNSETTLED_SIGNS = ("F.gelu", "maximum", "minimum", "max=", "min={", "amax", "amin", "+ 0", "0 - ")
"""Where the sign of zero depends in eager on the number of elements, or is XLA's by the README."""

UNSETTLED_STRIDES = ("copysign", "//", "rounding_mode", "logical_")
"""Where torch's own tracing errs about strides, by the README."""

ZERO_GRADIENTS = ("rounding_mode", "//", "floor", "ceil", "trunc", "round", "sign", "sgn")
"""Calls whose gradient is zero, which torch adds to that of the other readers of their operand."""

VIEWED_INPUTS = (
    "{0}.t()",
    "{0}.transpose(0, -1)",
    "{0}[1:]",
    "{0}[::2]",
    "{0}[..., ::2]",
    "{0}[..., 1:]",
    "{0}[:1].expand({0}.shape)",
    "{0}.unsqueeze(0)",
    "{0}.permute(2, 0, 1)",
    "{0}.view(-1)",
    "{0}.diagonal()",
    "{0}.contiguous(memory_format=torch.channels_last)",
)
"""Parts of a tensor that are passed as an argument, or as another argument beside it."""
