"""Equal equations have one form and begin as equal groups; what differs has another form."""

from kernel_graphs import F32, build, dot, tensor

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.regions.factors import Unifier
from tpu_inductor.regions.groups import Group, build_group
from tpu_inductor.regions.seeds import Seed, form_of
from tpu_inductor.regions.wiring import Wiring


def products(b: Builder):
    x, y, z = (tensor(b, name, (64, 64)) for name in "xyz")
    return [
        b.op("mul", x, y),
        b.op("mul", y, z),
        b.op("mul", x, x),
        b.op("mul", x, b.lit(0.0, F32)),
        b.op("mul", x, b.lit(-0.0, F32)),
        b.op("add", x, y),
        b.op("mul", tensor(b, "short", (8, 64)), tensor(b, "other", (8, 64))),
    ]


def layers(b: Builder):
    """The same product and bias twice."""
    x, w, v = tensor(b, "x", (64, 32)), tensor(b, "w", (32, 128)), tensor(b, "v", (128,))
    return [b.op("add", dot(b, b.op("mul", x, x), w), b.reshape(v, (1, 128))) for _ in range(2)]


def group_of(graph: Graph, order: list[int], unifier: Unifier) -> Group:
    group = build_group(Wiring.of(graph), unifier, order[-1:], order[:-1])
    assert isinstance(group, Group)
    return group


def test_a_form_knows_edges_literals_and_types():
    graph = build(products)
    wiring = Wiring.of(graph)
    first, again, *others = [form_of(wiring, [i]) for i in range(len(graph.eqns))]
    assert first == again
    assert len({first, *others}) == 1 + len(others)


def test_a_planted_group_is_what_its_equations_would_be():
    graph = build(layers)
    wiring, unifier = Wiring.of(graph), Unifier()
    half = len(graph.eqns) // 2
    for i, eqn in enumerate(graph.eqns[:half]):
        if wiring.free[i]:
            continue
        closure = [
            j for j, e in enumerate(graph.eqns[:i]) if wiring.free[j] and e.out in eqn.inputs
        ]
        order, other = [*closure, i], [half + j for j in (*closure, i)]
        assert form_of(wiring, order) == form_of(wiring, other)
        seed = Seed.of(group_of(graph, order, unifier), wiring, order)
        planted, built = seed.plant(wiring, unifier, other), group_of(graph, other, unifier)
        assert planted.members == built.members
        assert planted.reads.keys() == built.reads.keys()
        assert [*planted.made()] == [*built.made()]
        assert sorted(f.size for f in planted.facts.factors) == sorted(
            f.size for f in built.facts.factors
        )
        assert [p.index for p in planted.facts.dots] == [p.index for p in built.facts.dots]
        assert not planted.facts.factors & group_of(graph, order, unifier).facts.factors
