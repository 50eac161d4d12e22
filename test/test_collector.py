"""A compilation pauses the cycle collector, and leaves it as it was."""

import gc

import pytest

from tpu_inductor.collector import pause_collector


def allocate() -> None:
    """Enough values at once to start the collector several times."""
    assert len([[] for _ in range(10 * gc.get_threshold()[0])])


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_nothing_is_collected_inside() -> None:
    with pause_collector():
        before = collections()
        allocate()
        assert collections() == before
    allocate()
    assert collections() > before


def test_an_exception_ends_the_pause() -> None:
    with pytest.raises(KeyError), pause_collector():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    with pause_collector():
        with pause_collector():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
