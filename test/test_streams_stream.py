"""Streaming: every split into blocks gives what the region gives as a whole, or a reason."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_graphs import BOOL, F32, build, tensor
from stream_programs import check_stream, refusal_of, run_stream, stream_of, trace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.simplify import drop_dead
from tpu_inductor.graph.types import DType

F64 = DType.F64
ROWS, KEYS, WIDTH = 5, 64, 3


class Rows:
    """Rows of scores and what goes with them, as values of a graph in float64."""

    def __init__(self, b: Builder):
        self.b = b
        self.s = tensor(b, "s", (ROWS, KEYS), F64)
        self.t = tensor(b, "t", (ROWS, KEYS), F64)
        self.v = tensor(b, "v", (KEYS, WIDTH), F64)
        self.seen = tensor(b, "seen", (ROWS, KEYS), BOOL)
        self.g = tensor(b, "g", (KEYS,), F64)
        self.r = tensor(b, "r", (ROWS, 1), F64)

    def lit(self, number: float):
        return self.b.lit(number, F64)

    def op(self, prim: str, *operands: Value | float) -> Var:
        values = [self.lit(x) if isinstance(x, int | float) else x for x in operands]
        return self.b.op(prim, *values)

    def total(self, x: Var, prim: str = "reduce_sum") -> Var:
        return self.b.reduce(prim, x, (1,), keepdims=True)

    def dot(self, x: Var) -> Var:
        attrs = A.Dot((1,), (0,), (), (), "highest", F64)
        return self.b.one("dot", x, self.v, attrs=attrs)

    def grown(self, s: Var) -> tuple[Var, Var, Var]:
        """exp(s - max), its sum and the maximum."""
        peak = self.total(s, "reduce_max")
        e = self.op("exp", self.op("sub", s, peak))
        return e, self.total(e), peak

    def softmax(self, s: Var) -> Var:
        e, total, _ = self.grown(s)
        return self.op("div", e, total)


def make(program) -> Graph:
    return drop_dead(build(lambda b: program(Rows(b))))


def values(kind: str = "plain") -> list[torch.Tensor]:
    """Tensors for `Rows`, with the scores of `kind`."""
    rng = torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=rng, dtype=torch.float64)  # noqa: E731
    s = normal(ROWS, KEYS) * {"large": 100, "huge": 1e4}.get(kind, 3)
    seen = torch.rand(ROWS, KEYS, generator=rng) < 0.7
    if kind == "hidden":
        s[0], s[1, :40], s[2, 7:] = -math.inf, -math.inf, -math.inf
        seen[0], seen[1, :40] = False, False
    if kind == "nan":
        s[0, 3], s[1, 50], s[2, 9] = math.nan, math.inf, -math.inf
    if kind == "low":
        s -= 2000
    return [s, normal(ROWS, KEYS), normal(KEYS, WIDTH), seen, normal(KEYS), normal(ROWS, 1)]


def normalise_last(r: Rows):
    e, total, _ = r.grown(r.s)
    return r.op("div", r.dot(e), r.b.reshape(total, (ROWS, 1)))


def by_logarithm(r: Rows):
    _, total, peak = r.grown(r.s)
    lse = r.op("add", peak, r.op("log", total))
    return r.dot(r.op("exp", r.op("sub", r.s, lse)))


def masked(r: Rows):
    return r.dot(r.softmax(r.op("select", r.seen, r.s, -math.inf)))


def masked_after(r: Rows):
    """The weights of hidden keys are made 0, those of a row that sees nothing as well."""
    s = r.op("select", r.seen, r.s, -math.inf)
    return r.dot(r.op("select", r.seen, r.softmax(s), 0.0))


def safe(r: Rows):
    """A row that sees nothing gives 0."""
    s = r.op("select", r.seen, r.s, -math.inf)
    e, total, peak = r.grown(s)
    empty = r.op("eq", peak, -math.inf)
    return r.dot(r.op("select", empty, 0.0, r.op("div", e, total)))


def guarded(r: Rows):
    """The peak and the sum of a row that sees nothing are made finite."""
    s = r.op("select", r.seen, r.s, -math.inf)
    peak = r.total(s, "reduce_max")
    peak = r.op("select", r.op("eq", peak, -math.inf), 0.0, peak)
    e = r.op("exp", r.op("sub", s, peak))
    total = r.total(e)
    total = r.op("select", r.op("eq", total, 0.0), 1.0, total)
    lse = r.op("add", r.op("log", total), peak)
    return [r.dot(r.op("div", e, total)), lse]


def clamped(r: Rows):
    peak = r.op("max", r.total(r.s, "reduce_max"), -1e4)
    e = r.op("exp", r.op("sub", r.s, peak))
    return r.op("div", r.dot(e), r.op("add", r.total(e), 1e-30))


def soft_cap(r: Rows):
    return r.dot(r.softmax(r.op("mul", r.op("tanh", r.op("mul", r.s, 0.02)), 50.0)))


def alibi(r: Rows):
    place = r.b.convert(r.b.iota((ROWS, KEYS), DType.I32, 1), F64)
    return r.dot(r.softmax(r.op("add", r.s, r.op("mul", place, r.r))))


def causal(r: Rows):
    rows, keys = (r.b.iota((ROWS, KEYS), DType.I32, d) for d in (0, 1))
    hidden = r.op("select", r.op("le", keys, rows), r.s, -math.inf)
    return r.dot(r.softmax(hidden))


def sinks(r: Rows):
    """A logit per row that takes part in the softmax and has no value."""
    peak = r.op("max", r.total(r.s, "reduce_max"), r.r)
    e = r.op("exp", r.op("sub", r.s, peak))
    total = r.op("add", r.total(e), r.op("exp", r.op("sub", r.r, peak)))
    return r.dot(r.op("div", e, total))


def differential(r: Rows):
    weights = r.op("sub", r.softmax(r.s), r.op("mul", r.softmax(r.t), r.r))
    return r.dot(weights)


def log_sum_exp(r: Rows):
    _, total, peak = r.grown(r.s)
    return r.op("add", peak, r.op("log", total))


def entropy(r: Rows):
    e, total, peak = r.grown(r.s)
    logarithm = r.op("sub", r.op("sub", r.s, peak), r.op("log", total))
    return r.op("neg", r.total(r.op("mul", r.op("div", e, total), logarithm)))


def backward(r: Rows):
    """softmax's backward times a matrix."""
    p = r.softmax(r.s)
    shared = r.total(r.op("mul", p, r.t))
    return r.dot(r.op("mul", p, r.op("sub", r.t, shared)))


def rms_norm(r: Rows):
    square = r.op("mul", r.total(r.op("mul", r.s, r.s)), 1 / KEYS)
    scale = r.op("rsqrt", r.op("add", square, 1e-6))
    return r.dot(r.op("mul", r.op("mul", r.s, scale), r.g))


def amax_scale(r: Rows):
    return r.dot(r.op("div", r.s, r.total(r.op("abs", r.s), "reduce_max")))


def label_smoothing(r: Rows):
    _, total, peak = r.grown(r.s)
    lse = r.op("add", peak, r.op("log", total))
    return r.total(r.op("sub", r.s, lse))


def online_maximum(r: Rows):
    return r.total(r.s, "reduce_max")


def maximum_of_shifted(r: Rows):
    """A maximum under a shift, and a minimum of values that scale."""
    e, _, peak = r.grown(r.s)
    return [r.total(r.op("sub", r.t, peak), "reduce_max"), r.total(e, "reduce_min")]


def softmin(r: Rows):
    low = r.total(r.s, "reduce_min")
    e = r.op("exp", r.op("sub", low, r.s))
    return r.dot(r.op("div", e, r.total(e)))


def logarithm_of_weights(r: Rows):
    """exp(log p): a scale that becomes a shift and a scale again."""
    return r.dot(r.op("exp", r.op("log", r.softmax(r.s))))


def shifted_by_another(r: Rows):
    """The peak is of other scores than those that it is taken from."""
    peak = r.total(r.op("select", r.seen, r.s, -math.inf), "reduce_max")
    e = r.op("exp", r.op("sub", r.s, peak))
    return r.dot(r.op("div", e, r.total(e)))


def wide_statistics(r: Rows):
    """Row statistics that are spread before anything is computed of them."""
    _, total, peak = r.grown(r.s)
    spread = [r.b.broadcast_to(x, (ROWS, KEYS)) for x in (total, peak)]
    lse = r.op("add", spread[1], r.op("log", spread[0]))
    return r.dot(r.op("exp", r.op("sub", r.s, lse)))


def total_of_rows(r: Rows):
    """A reduction over the rows too."""
    _, total, peak = r.grown(r.s)
    lse = r.op("add", peak, r.op("log", total))
    return r.b.reduce("reduce_sum", r.op("mul", r.op("sub", r.s, lse), r.t), (0, 1))


PROGRAMS = [
    normalise_last,
    by_logarithm,
    masked,
    masked_after,
    safe,
    guarded,
    clamped,
    soft_cap,
    alibi,
    causal,
    sinks,
    differential,
    log_sum_exp,
    entropy,
    backward,
    rms_norm,
    amax_scale,
    label_smoothing,
    online_maximum,
    maximum_of_shifted,
    softmin,
    logarithm_of_weights,
    shifted_by_another,
    wide_statistics,
    total_of_rows,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_split_gives_the_result_of_the_whole(program):
    check_stream(make(program), values())


EDGES = [
    *(normalise_last, masked, masked_after, safe, guarded, clamped, by_logarithm, log_sum_exp),
    *(sinks, differential, softmin, causal, soft_cap, alibi, backward, wide_statistics),
    online_maximum,
]


@pytest.mark.parametrize("kind", ["hidden", "nan", "low", "large", "huge"])
@pytest.mark.parametrize("program", EDGES)
def test_hidden_infinite_and_large_scores_end_as_in_the_whole(program, kind):
    check_stream(make(program), values(kind))


# -- what the rule says -------------------------------------------------------------------------
def merges(program) -> list[str]:
    return [c.merge for c in stream_of(make(program)).carries]


def test_the_sum_of_the_weights_leaves_the_product():
    stream = stream_of(make(lambda r: r.dot(r.softmax(r.s))))
    assert [(c.merge, c.repair and c.repair.kind) for c in stream.carries] == [
        ("max", None),
        ("add", "scale"),
        ("add", "scale"),
    ]
    body = [stream.eqns[i].prim for i in stream.body]
    assert "div" not in body
    assert stream.eqns[stream.finish[-1]].prim == "div"


def test_a_difference_of_weights_is_two_products():
    assert merges(differential) == ["max", "add", "max", "add", "add", "add"]


def test_a_guard_of_the_region_is_not_doubled():
    stream = stream_of(make(guarded))
    assert sum(stream.eqns[i].prim == "select" for i in stream.body) == 2


def test_a_norm_needs_no_repair():
    stream = stream_of(make(rms_norm))
    assert [c.repair for c in stream.carries] == [None, None]


def test_what_depends_on_neither_runs_before():
    stream = stream_of(make(lambda r: r.dot(r.op("mul", r.s, r.op("exp", r.r)))))
    assert [stream.eqns[i].prim for i in stream.before] == ["exp"]


# -- refusals -------------------------------------------------------------------------------------
def variance(r: Rows):
    mean = r.op("mul", r.total(r.s), 1 / KEYS)
    centred = r.op("sub", r.s, mean)
    return r.total(r.op("mul", centred, centred))


def rounded(r: Rows):
    return r.dot(r.op("tanh", r.op("div", r.s, r.total(r.s, "reduce_max"))))


def temperature(r: Rows):
    _, _, peak = r.grown(r.s)
    rate = r.op("div", 1.0, r.total(r.op("mul", r.s, r.s)))
    return r.dot(r.op("exp", r.op("sub", r.op("mul", r.s, rate), peak)))


def its_own_result(r: Rows):
    return r.softmax(r.s)


def product_of_weights(r: Rows):
    return r.total(r.grown(r.s)[0], "reduce_prod")


def maximum_of_signed(r: Rows):
    return r.total(r.op("div", r.s, r.total(r.s)), "reduce_max")


def best_key(r: Rows):
    return r.b.one("argmax", r.s, attrs=A.Axis(1))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (variance, "the product of two differences"),
        (rounded, "tanh of a value that scales with a running reduction"),
        (temperature, "sub of a value that scales with a running reduction and of one that chang"),
        (its_own_result, "has the axis and depends on the whole of it"),
        (product_of_weights, "reduce_prod of a value that scales"),
        (maximum_of_signed, "that may be negative"),
        (best_key, "argmax is not merged between blocks"),
    ],
)
def test_what_cannot_be_repaired_is_refused_with_its_operator(program, reason):
    assert reason in refusal_of(make(program), size=KEYS)


# -- as torch traces it ------------------------------------------------------------


def by_matmul(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), -1) @ v


def by_einsum(q, k, v):
    scores = torch.einsum("bhqd,bhkd->bhqk", q * 0.3, k)
    return torch.einsum("bhqk,bhkd->bhqd", F.softmax(scores, -1), v)


def with_tril(q, k, v):
    seen = torch.tril(torch.ones(24, 24, dtype=torch.bool))
    scores = (q @ k.transpose(-1, -2)).masked_fill(~seen, -math.inf)
    return F.softmax(scores, -1) @ v


def with_arange(q, k, v):
    rows, keys = torch.arange(24)[:, None], torch.arange(24)[None, :]
    hidden = (keys > rows) | (keys < 2)
    scores = torch.where(hidden, float("-inf"), q @ k.transpose(-1, -2))
    return F.softmax(scores, -1) @ v


def with_finite_mask(q, k, v):
    rows, keys = torch.arange(24)[:, None], torch.arange(24)[None, :]
    bias = torch.where(keys > rows, -1e9, 0.0).to(q.dtype)
    return F.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v


def with_log_sum_exp(q, k, v):
    scores = q @ k.transpose(-1, -2)
    return torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True)) @ v


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize(
    "fn",
    [by_matmul, by_einsum, with_tril, with_arange, with_finite_mask, with_log_sum_exp, sdpa],
)
def test_attention_streams_along_its_keys_in_every_spelling(fn):
    q, k, v = (torch.randn(2, 3, 24, 8, dtype=torch.float64) for _ in range(3))
    graph, inputs = trace(fn, q, k, v)
    check_stream(graph, inputs, blocks=(1, 7, 24))


def test_shared_heads_in_bfloat16_keep_their_casts_in_the_body():
    """Half the heads of keys, causal: the weights are rounded before they are divided."""

    def fn(q, k, v):
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
        hidden = torch.arange(24)[None, :] > torch.arange(24)[:, None]
        scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(hidden, -math.inf)
        return F.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v

    q = torch.randn(1, 6, 24, 16).bfloat16()
    k, v = (torch.randn(1, 3, 24, 16).bfloat16() for _ in range(2))
    graph, inputs = trace(fn, q, k, v)
    stream = check_stream(graph, inputs, blocks=(7, 24), tolerance=2e-2)
    assert [stream.eqns[c.eqn].prim for c in stream.carries] == ["reduce_max", "reduce_sum", "dot"]
    assert "div" not in [stream.eqns[i].prim for i in stream.body]
    assert stream.eqns[stream.carries[-1].eqn].inputs[0].type.dtype is DType.BF16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_attention_is_as_exact_as_eager(dtype):
    """Softmax in float32 with casts, scores of magnitude 100."""

    def fn(q, k, v):
        scores = q @ k.transpose(-1, -2)
        return F.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v

    rng = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 2, 33, 64, generator=rng) for _ in range(3))
    q, k, v = (q * 10).to(dtype), k.to(dtype), v.to(dtype)
    graph, inputs = trace(fn, q, k, v)
    wide = [x.double() for x in (q, k, v)]
    exact = F.softmax(wide[0] @ wide[1].transpose(-1, -2), -1) @ wide[2]
    eager = (fn(q, k, v).double() - exact).square().mean().sqrt()
    for block in (8, 33):
        (got,) = run_stream(stream_of(graph), inputs, block)
        assert (got.double() - exact).square().mean().sqrt() <= 2 * eager


def test_cross_entropy_streams_along_the_classes_of_its_linear_layer():
    def fn(x, w, target):
        return F.cross_entropy(x @ w.t(), target, ignore_index=-100, label_smoothing=0.1)

    x, w = torch.randn(9, 6, dtype=torch.float64), torch.randn(40, 6, dtype=torch.float64)
    target = torch.randint(0, 40, (9,))
    target[3] = -100
    graph, inputs = trace(fn, x, w, target)
    check_stream(graph, inputs, size=40, blocks=(1, 7, 40))


def test_backward_in_float32_is_as_exact_as_the_whole():
    graph = build(lambda b: backward32(b))
    rng = torch.Generator().manual_seed(2)
    s, t = torch.randn(64, 256, generator=rng) * 3, torch.randn(64, 256, generator=rng)
    v = torch.randn(256, 16, generator=rng)
    p = torch.softmax(s.double(), -1)
    exact = (p * (t.double() - (p * t.double()).sum(-1, keepdim=True))) @ v.double()
    (whole,) = run(graph, [s, t, v])
    (got,) = run_stream(stream_of(graph), [s, t, v], 64)
    errors = [(x.double() - exact).square().mean().sqrt() for x in (got, whole)]
    assert errors[0] <= 2 * errors[1]


def backward32(b: Builder):
    s, t = tensor(b, "s", (64, 256)), tensor(b, "t", (64, 256))
    v = tensor(b, "v", (256, 16))
    e = b.op("exp", b.op("sub", s, b.reduce("reduce_max", s, (1,), True)))
    p = b.op("div", e, b.reduce("reduce_sum", e, (1,), True))
    slope = b.op("sub", t, b.reduce("reduce_sum", b.op("mul", p, t), (1,), True))
    return b.one("dot", b.op("mul", p, slope), v, attrs=A.Dot((1,), (0,), (), (), "highest", F32))


# -- random programs ------------------------------------------------------------------------------
@st.composite
def programs(draw):
    """A random weight of each key, from what streams, and a random sum of weighted values."""

    def program(r: Rows):
        s = r.s
        for _ in range(draw(st.integers(0, 2))):
            s = draw(st.sampled_from([scaled, biased, capped, hidden]))(r, s)
        weight = draw(st.sampled_from([grown, weighed, by_lse, scored, rooted]))(r, s)
        for _ in range(draw(st.integers(0, 3))):
            weight = draw(st.sampled_from([times, over_row, hidden_after, negated, less]))(
                r, weight
            )
        return [r.dot(weight), r.total(weight)]

    return make(program)


def scaled(r: Rows, s: Var) -> Var:
    return r.op("mul", s, 0.5)


def biased(r: Rows, s: Var) -> Var:
    return r.op("add", s, r.r)


def capped(r: Rows, s: Var) -> Var:
    return r.op("tanh", s)


def hidden(r: Rows, s: Var) -> Var:
    return r.op("select", r.seen, s, -math.inf)


def grown(r: Rows, s: Var) -> Var:
    return r.grown(s)[0]


def weighed(r: Rows, s: Var) -> Var:
    return r.softmax(s)


def by_lse(r: Rows, s: Var) -> Var:
    _, total, peak = r.grown(s)
    return r.op("exp", r.op("sub", s, r.op("add", peak, r.op("log", total))))


def scored(r: Rows, s: Var) -> Var:
    return r.op("div", r.t, r.total(r.op("abs", r.t), "reduce_max"))


def rooted(r: Rows, s: Var) -> Var:
    return r.op("mul", r.t, r.op("rsqrt", r.total(r.op("mul", r.t, r.t))))


def times(r: Rows, weight: Var) -> Var:
    return r.op("mul", weight, r.t)


def over_row(r: Rows, weight: Var) -> Var:
    return r.op("div", weight, r.op("exp", r.r))


def hidden_after(r: Rows, weight: Var) -> Var:
    return r.op("select", r.seen, weight, 0.0)


def negated(r: Rows, weight: Var) -> Var:
    return r.op("neg", weight)


def less(r: Rows, weight: Var) -> Var:
    """Less its own mean: one more pass in the region as it stands."""
    return r.op("sub", weight, r.op("mul", r.total(weight), 1 / KEYS))


@settings(max_examples=25, deadline=None)
@given(programs(), st.sampled_from(["plain", "hidden", "large"]), st.sampled_from([7, 64]))
def test_random_programs_give_the_result_of_the_whole(graph, kind, block):
    check_stream(graph, values(kind), size=KEYS, blocks=(block,), tolerance=1e-8)
