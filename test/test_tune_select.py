"""Who wins a race: noise, seeds, ties, failures, and which time counts."""

import math
import random

import pytest

from tpu_inductor.tune.select import Measurement, Race, select


class Scripted:
    """Times contenders by a script: the first time, then those of the final, the last repeated."""

    def __init__(self, **times):
        self.times = {name: list(script) for name, script in times.items()}
        self.rounds = []

    def __call__(self, programs):
        self.rounds.append(list(programs))
        return [self.next(name) for name in programs]

    def next(self, name):
        script = self.times[name]
        time = script.pop(0) if len(script) > 1 else script[0]
        return time if isinstance(time, Measurement) else Measurement(time)


def race(contenders, seeds=(), rival=None):
    return Race(tuple(contenders), seeds, rival)


def run(races, measure, is_deterministic=False, **settings):
    return select(races, measure, is_deterministic=is_deterministic, **settings)


def winner(only, measure, **settings):
    (outcome,) = run([only], measure, **settings)
    return None if outcome.winner is None else only.contenders[outcome.winner]


def test_the_final_finds_the_best_where_the_first_round_was_noisy():
    measure = Scripted(lucky=[5, 20], best=[11, 10], third=[12, 12], slow=[30, 30])
    assert winner(race(["lucky", "third", "best", "slow"]), measure) == "best"
    assert "slow" not in measure.rounds[1]


def test_one_bad_round_of_the_final_does_not_decide():
    measure = Scripted(a=[10, 10, 90, 10, 10, 10], b=[11, 12, 12, 1, 12, 12])
    assert winner(race(["a", "b"]), measure) == "a"


@pytest.mark.parametrize("seed", range(5))
def test_the_best_wins_under_random_noise(seed):
    noise = random.Random(seed)
    true = {f"c{i}": 10.0 + 2 * i for i in range(8)}

    def measure(programs):
        return [Measurement(true[p] * noise.uniform(0.97, 1.15)) for p in programs]

    shuffled = random.Random(seed).sample(list(true), len(true))
    assert winner(race(shuffled), measure, repeats=21) == "c0"


def test_a_seed_stays_in_the_final_whatever_its_first_time_was():
    measure = Scripted(seed=[1000, 9], **{f"c{i}": [10] for i in range(5)})
    contenders = [*(f"c{i}" for i in range(5)), "seed"]
    assert winner(race(contenders, seeds=(5,)), measure) == "seed"
    assert all("seed" in names for names in measure.rounds)


def test_a_seed_beyond_the_top_is_measured_all_the_same():
    measure = Scripted(seed=[1], **{f"c{i}": [10] for i in range(20)})
    contenders = [*(f"c{i}" for i in range(20)), "seed"]
    assert winner(race(contenders, seeds=(20,)), measure, top=4) == "seed"
    assert measure.rounds[0] == ["c0", "c1", "c2", "c3", "seed"]


def test_a_seed_without_a_first_time_stays_in_the_final():
    measure = Scripted(seed=[Measurement(doubt="the profiler lost it"), 5], other=[10])
    assert winner(race(["seed", "other"], seeds=(0,)), measure) == "seed"


def test_time_on_the_device_decides_and_not_the_hosts():
    def measure(programs):
        times = {"busy": Measurement(10.0, 500.0), "lazy": Measurement(20.0, 50.0)}
        return [times[p] for p in programs]

    assert winner(race(["lazy", "busy"]), measure) == "busy"


@pytest.mark.parametrize(("seed_us", "expected"), [(10.19, "seed"), (10.21, "other")])
def test_a_seed_wins_ties(seed_us, expected):
    measure = Scripted(seed=[seed_us], other=[10.0])
    assert winner(race(["other", "seed"], seeds=(1,)), measure) == expected


@pytest.mark.parametrize(("seed_us", "expected"), [(10.0, "seed"), (10.01, "other")])
def test_what_is_deterministic_ties_only_where_it_is_equal(seed_us, expected):
    measure = Scripted(seed=[seed_us], other=[10.0])
    assert winner(race(["other", "seed"], seeds=(1,)), measure, is_deterministic=True) == expected


def test_among_equals_without_seeds_the_most_promising_wins():
    assert winner(race(["a", "b"]), Scripted(a=[3], b=[3])) == "a"


def test_what_is_deterministic_is_measured_once():
    measure = Scripted(a=[3], b=[2], xla=[1])
    outcomes = run([race(["a", "b"], (0,), "xla")], measure, is_deterministic=True)
    assert [o.winner for o in outcomes] == [1]
    assert measure.rounds == [["a", "b", "xla"]]


def test_what_the_compiler_refuses_drops_out_with_its_error():
    bad = Measurement(refused="too much VMEM")
    measure = Scripted(bad=[bad], good=[10])
    (outcome,) = run([race(["bad", "good"], seeds=(0,))], measure)
    assert outcome.winner == 1
    assert outcome.results[0] == bad
    assert measure.rounds[1:] == [["good"]] * 5


def test_a_refusal_in_the_final_counts():
    bad = Measurement(refused="the worker died")
    assert winner(race(["a", "b"]), Scripted(a=[1, 1, bad, 1], b=[2])) == "b"


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_nobody_wins_where_nothing_has_a_time(is_deterministic):
    times = {"a": [Measurement(refused="no")], "b": [Measurement(doubt="no listing")], "xla": [4]}
    only = race(["a", "b"], (0,), "xla")
    (outcome,) = run([only], Scripted(**times), is_deterministic=is_deterministic)
    assert outcome.winner is None
    assert outcome.rival == Measurement(4)


def test_the_rival_is_measured_in_every_round_and_never_chosen():
    measure = Scripted(a=[10], xla=[50, 1])
    (outcome,) = run([race(["a"], (0,), "xla")], measure)
    assert outcome.winner == 0
    assert outcome.rival == Measurement(1)
    assert len(measure.rounds) == 6


def test_races_share_their_rounds():
    measure = Scripted(a=[2], b=[1], c=[1], d=[2], xla=[3])
    outcomes = run([race(["a", "b"], (), "xla"), race(["c", "d"])], measure)
    assert [o.winner for o in outcomes] == [1, 0]
    assert measure.rounds[0] == ["a", "b", "xla", "c", "d"]
    assert outcomes[1].rival is None


def test_without_races_nothing_is_measured():
    measure = Scripted()
    assert run([], measure) == []
    assert measure.rounds == []


@pytest.mark.parametrize(
    ("xla", "is_deterministic", "wins"),
    [(9.7, False, True), (9.9, False, False), (9.9, True, True), (10, True, False)],
)
def test_the_rival_wins_by_more_than_noise(xla, is_deterministic, wins):
    measure = Scripted(a=[10], xla=[xla])
    (outcome,) = run([race(["a"], (0,), "xla")], measure, is_deterministic=is_deterministic)
    assert outcome.rival_wins == wins


def test_what_has_no_time_does_not_win():
    measure = Scripted(a=[10], xla=[Measurement(doubt="no listing")])
    (outcome,) = run([race(["a"], (0,), "xla")], measure, is_deterministic=True)
    assert not outcome.rival_wins


def test_an_endless_time_never_wins():
    assert winner(race(["a", "b"]), Scripted(a=[math.inf], b=[2])) == "b"
