"""What a program may do: calls with the kinds of their operands.

A rule is (kinds, template). A kind is a letter per operand:

    a any     f float     n number, no bool     i integer     b bool     w not shared with itself
    v float with a dimension     m float with two or more     3, 4 float with so many     l int64

`<dim>` and its like are drawn by the generator; the rest is Python. A rule that does not fit its
operands raises in eager, and is drawn again.
"""

from test.fuzz.pointwise import BINARY, CONVERT, UNARY
from test.fuzz.rules import rules

VIEWS = rules(
    "a",
    [
        "{0}.t()",
        "{0}.mT",
        "{0}.transpose(<dim>, <other>)",
        "{0}.transpose(0, 1)",
        "{0}.permute(<permutation>)",
        "{0}.movedim(0, -1)",
        "{0}.view(-1)",
        "{0}.reshape(-1)",
        "{0}.view({0}.shape[0], -1)",
        "{0}.reshape(-1, {0}.shape[-1])",
        "{0}.reshape({0}.shape[0], 1, -1)",
        "{0}.flatten(<dim>)",
        "{0}.unflatten(<dim>, (-1, 2))",
        "{0}.unsqueeze(<dim>)",
        "{0}[None]",
        "{0}[..., None]",
        "{0}.squeeze()",
        "{0}.squeeze(<dim>)",
        "{0}.expand(2, *{0}.shape)",
        "{0}.unsqueeze(0).expand({0}.shape[0], *{0}.shape)",
        "{0}.unsqueeze(<dim>).expand(*([3] + [-1] * {0}.dim()))",
        "{0}[1:]",
        "{0}[::2]",
        "{0}[:-1]",
        "{0}[..., 1:]",
        "{0}[:, ::2]",
        "{0}[..., -1]",
        "{0}[0]",
        "{0}[:, 0]",
        "{0}.narrow(<dim>, 1, 1)",
        "{0}.narrow(0, 0, {0}.shape[0] - 1)",
        "{0}.select(<dim>, -1)",
        "{0}.chunk(2, <dim>)",
        "{0}.split(2)",
        "{0}.unbind(<dim>)",
        "{0}.diagonal()",
        "{0}.diagonal(1)",
        "{0}.unfold(<dim>, 2, 1)",
        "{0}.contiguous()",
        "{0}.as_strided((2, 2), (1, 2))",
        "{0}.as_strided((2,), (1,), 1)",
    ],
) + rules("aa", ["{0}.expand_as({1})", "{0}.view_as({1})", "{0}.broadcast_to({1}.shape)"])

REDUCTIONS = (
    *rules(
        "a",
        [
            "{0}.sum()",
            "{0}.sum(<dim>, keepdim=<flag>)",
            "{0}.sum(<dims>)",
            "{0}.amax(<dim>)",
            "{0}.amin(<dims>, keepdim=<flag>)",
            "{0}.any(<dim>)",
            "{0}.all()",
            "{0}.count_nonzero(<dim>)",
            "{0}.max()",
        ],
    ),
    *rules(
        "n",
        [
            "{0}.argmax()",
            "{0}.argmin()",
            "{0}.argmax(<dim>, keepdim=<flag>)",
            "{0}.argmin(<dim>)",
            "{0}.max(<dim>)",
            "{0}.min(<dim>, keepdim=<flag>)",
            "torch.aminmax({0})",
            "{0}.flatten().argmax()",
            "{0}.cumsum(<dim>)",
            "{0}.clamp(-1, 1).prod(<dim>)",
            "torch.sort({0}, dim=<dim>, stable=True)",
            "torch.cummax({0}, <dim>)",
        ],
    ),
    *rules(
        "f",
        [
            "{0}.mean()",
            "{0}.mean(<dims>)",
            "{0}.mean(<dim>, keepdim=True)",
            "{0}.var(<dim>, correction=0)",
            "{0}.std(<dim>)",
            "torch.logsumexp({0}, <dim>)",
            "torch.linalg.vector_norm({0}, dim=<dim>)",
            "{0}.norm()",
            "torch.logcumsumexp({0}, <dim>)",
            "torch.nansum({0}, <dim>)",
        ],
    ),
)

MATMULS = (
    *rules(
        "vv",
        [
            "{0} @ {1}",
            "torch.relu({0} @ {1})",
            "{0} @ {1} * 2 + 1",
            "torch.tanh({0} @ {1})",
            "({0} @ {1}).relu()",
            "{0} @ {1}.mT",
            "{0}.mT @ {1}",
            "({0}.mT @ {1}).sigmoid()",
            "{0}.reshape(-1, {0}.shape[-1]) @ {1}",
            "{0}[None] @ {1}",
            "{0} @ {1}[None]",
            "torch.tensordot({0}, {1}, 1)",
            "torch.outer({0}, {1})",
            "F.linear({0}, {1})",
            "torch.relu(F.linear({0}, {1}))",
        ],
    ),
    *rules(
        "mm",
        [
            "torch.mm({0}, {1})",
            "torch.bmm({0}, {1})",
            "torch.bmm({0}.expand({1}.shape[0], -1, -1), {1})",
            "torch.bmm({0}, {1}.expand({0}.shape[0], -1, -1)).relu()",
            "torch.einsum('ij,bjk->bik', {0}, {1}) + 1",
            "torch.einsum('bij,jk->bik', {0}, {1}).relu()",
            "torch.einsum('bij,bkj->bik', {0}, {1})",
            "torch.einsum('ij,kj->ikj', {0}, {1})",
            "torch.stack([{0}, {0}]) @ {1} + 1",
            "{0} @ torch.stack([{1}, {1}, {1}]) * 2",
            "{0} @ {0}.mT + 1",
            "torch.func.vmap(lambda w: torch.relu({0} @ w))({1})",
        ],
    ),
    *rules(
        "vvv", ["F.linear({0}, {1}, {2})", "torch.relu({0} @ {1} + {2})", "{0} @ {1} * {2} + {2}"]
    ),
    *rules("mmm", ["torch.addmm({0}, {1}, {2})", "torch.baddbmm({0}, {1}, {2}, beta=0.5)"]),
    *rules("mmm", ["F.scaled_dot_product_attention({0}, {1}, {2})"]),
    *rules("mm", ["F.scaled_dot_product_attention({0}, {1}, {1})"]),
    *rules("vv", ["torch.dot({0}, {1})", "torch.mv({0}, {1})"]),
)

INDEXING = (
    *rules(
        "al",
        [
            "{0}[{1} % {0}.shape[0]]",
            "{0}[:, {1} % {0}.shape[1]]",
            "{0}[{1} % {0}.shape[0], {1} % {0}.shape[1]]",
            "{0}[{1} % {0}.shape[0] - {0}.shape[0]]",
            "torch.index_select({0}, <dim>, {1}.flatten() % {0}.shape[<dim>])",
            "torch.gather({0}, <dim>, {1} % {0}.shape[<dim>])",
            "torch.take_along_dim({0}, {1} % {0}.shape[<dim>], <dim>)",
            "torch.take({0}, {1} % {0}.numel())",
            "torch.zeros_like({0}).index_add(0, {1} % {0}.shape[0], {0})",
            "{0}.index_fill(<dim>, {1}.flatten() % {0}.shape[<dim>], 1)",
        ],
    ),
    *rules(
        "ala",
        [
            "torch.scatter({0}, <dim>, {1} % {0}.shape[<dim>], 1)",
            "torch.scatter_add({0}, <dim>, {1} % {0}.shape[<dim>], {2})",
            "{0}.index_put(({1} % {0}.shape[0],), {2}, accumulate=True)",
            "{0}.index_add(0, {1} % {0}.shape[0], {2})",
            "torch.scatter_reduce({0}, <dim>, {1} % {0}.shape[<dim>], {2}, 'amax')",
        ],
    ),
    *rules("ml", ["F.embedding({1} % {0}.shape[0], {0})"]),
    *rules("ml", ["F.cross_entropy({0}, {1} % {0}.shape[1])"]),
    *rules("ab", ["{0}[{1}]", "{0}.masked_select({1})", "torch.masked_scatter({0}, {1}, {0})"]),
    *rules("aa", ["torch.select_scatter({0}, {1}, <dim>, 0)"]),
    *rules("aa", ["torch.slice_scatter({0}, {1}, <dim>, 1)"]),
)

OUT_OF_RANGE = rules(
    "al",
    [
        "{0}[{1}]",
        "torch.gather({0}, <dim>, {1})",
        "torch.index_select({0}, <dim>, {1}.flatten())",
        "F.embedding({1}, {0})",
        "torch.zeros_like({0}).index_add(0, {1}, {0})",
        "{0} // {1}",
        "torch.scatter({0}, <dim>, {1}, 1)",
    ],
)
"""What raises for what the data holds."""

NORMS = (
    *rules(
        "v",
        [
            "torch.softmax({0}, <dim>)",
            "torch.log_softmax({0}, <dim>)",
            "F.softmin({0}, <dim>)",
            "F.layer_norm({0}, {0}.shape[-1:])",
            "F.rms_norm({0}, {0}.shape[-1:])",
            "F.normalize({0}, dim=<dim>)",
            "F.glu({0}, <dim>)",
            "{0} - {0}.mean(<dim>, keepdim=True)",
            "{0} / ({0}.abs().sum(<dim>, keepdim=True) + 1)",
            "torch.func.vmap(lambda v: v.sum() / 3)({0})",
            "torch.func.vmap(lambda v: torch.softmax(v, 0) * 2)({0})",
            "torch.func.vmap(lambda v: v.argmax())({0})",
            "F.dropout({0}, 0.5)",
            "torch.rand_like({0})",
        ],
    ),
    *rules(
        "m",
        [
            "F.batch_norm({0}, None, None, training=True)",
            "F.group_norm({0}, 1)",
            "F.instance_norm({0})",
        ],
    ),
    *rules(
        "vv",
        ["F.layer_norm({0}, {0}.shape[-1:], {1}, {1})", "F.rms_norm({0}, {0}.shape[-1:], {1})"],
    ),
    *rules("ff", ["F.mse_loss({0}, {1})", "F.smooth_l1_loss({0}, {1})", "F.l1_loss({0}, {1})"]),
)

WINDOWS = (
    *rules("m", ["F.max_pool1d({0}, 2)", "F.avg_pool1d({0}, 2, stride=1)"]),
    *rules(
        "m", ["F.adaptive_avg_pool1d({0}, 2)", "F.max_pool1d({0}, 3, 1, 1, return_indices=True)"]
    ),
    *rules("3", ["F.interpolate({0}, scale_factor=2, mode='nearest')"]),
    *rules("4", ["F.max_pool2d({0}, 2)", "F.avg_pool2d({0}, 2, padding=1)"]),
    *rules("4", ["F.pixel_unshuffle({0}, 2)", "{0}.to(memory_format=torch.channels_last)"]),
    *rules("4", ["{0}.to(memory_format=torch.channels_last).flatten(1).argmax(1)"]),
    *rules("33", ["F.conv1d({0}, {1})", "F.conv1d({0}, {1}, padding=1).relu()"]),
    *rules("44", ["F.conv2d({0}, {1})", "F.conv2d({0}, {1}, padding=1, stride=2)"]),
)

JOINS = (
    *rules(
        "a",
        [
            "torch.cat([{0}, {0}], <dim>)",
            "torch.cat([{0}, {0} + 1], <dim>)",
            "torch.stack([{0}, {0}], <dim>)",
            "F.pad({0}, (1, 2))",
            "F.pad({0}, (1, 0, 0, 2), value=3)",
            "F.pad({0}, (-1, 1))",
            "torch.flip({0}, (<dim>,))",
            "torch.flip({0}, <dims>)",
            "torch.roll({0}, 1, <dim>)",
            "torch.roll({0}, -2)",
            "{0}.repeat(2, *([1] * {0}.dim()))",
            "{0}.repeat_interleave(2, <dim>)",
            "torch.tile({0}, (2,))",
            "torch.tril({0})",
            "torch.triu({0}, 1)",
            "torch.rot90({0})",
            "torch.diag_embed({0})",
            "torch.constant_pad_nd({0}, (0, 1))",
        ],
    ),
    *rules("m", ["F.pad({0}, (1, 1), mode='reflect')", "F.pad({0}, (1, 1), mode='replicate')"]),
    *rules("3", ["F.pad({0}, (1, 1), mode='circular')"]),
    *rules("aa", ["torch.cat([{0}, {1}], <dim>)", "torch.stack([{0}, {1}], <dim>)"]),
    *rules("aa", ["torch.cat([{0}, {1}])", "torch.hstack([{0}, {1}])", "torch.vstack([{0}, {1}])"]),
)

CREATE = rules(
    "a",
    [
        "torch.zeros_like({0})",
        "torch.ones_like({0})",
        "torch.full_like({0}, 2)",
        "torch.arange({0}.shape[0])",
        "torch.arange({0}.shape[0], dtype=torch.float32)",
        "torch.arange({0}.numel()).view({0}.shape) * 3 - 1",
        "torch.linspace(0, 1, {0}.shape[-1])",
        "torch.eye({0}.shape[0])",
        "torch.ones({0}.shape[0], 4)[:, ::2]",
        "{0}.new_zeros({0}.shape[0])",
        "torch.tensor([1.5, -0.0, math.inf])",
        "torch.empty_strided((2, 3), (1, 2)).fill_(1.5)",
        "torch.empty_strided((2, 3), (4, 1)).fill_(0)",
        "torch.scalar_tensor({0}.numel())",
        "{0} * {0}.shape[0]",
        "{0} + {0}.numel()",
    ],
)

EXPRESSIONS = (
    (10, UNARY),
    (12, BINARY),
    (5, CONVERT),
    (14, VIEWS),
    (8, REDUCTIONS),
    (7, MATMULS),
    (4, INDEXING),
    (5, NORMS),
    (2, WINDOWS),
    (5, JOINS),
    (2, CREATE),
)
"""Families by weight. A family is drawn first, so that a long list is no more likely."""
