"""Options: defaults, precedence, and refusal of what means nothing."""

from pathlib import Path

import pytest

from tpu_inductor.options import Options


def test_defaults():
    options = Options.parse(environ={})
    assert options == Options()
    assert (options.strict, options.debug, options.fuel, options.target) == (
        False,
        False,
        None,
        None,
    )


def test_variables_are_read():
    environ = {
        "TPU_TILE_DEBUG": "1",
        "TPU_TILE_STRICT": "true",
        "TPU_TILE_FUEL": "3",
        "TPU_TILE_CACHE_DIR": "/tmp/x",
        "TPU_TILE_TARGET": "v5e",
    }
    options = Options.parse(environ=environ)
    assert options.debug
    assert options.strict
    assert (options.fuel, options.target, options.cache_dir) == (3, "v5e", Path("/tmp/x"))


def test_an_option_wins_over_its_variable():
    environ = {"TPU_TILE_TARGET": "v5e", "TPU_TILE_DEBUG": "1"}
    options = Options.parse(options={"target": "v6e", "debug": False}, environ=environ)
    assert (options.target, options.debug) == ("v6e", False)


def test_modes_are_accepted():
    assert Options.parse("max-autotune", environ={}).mode == "max-autotune"


@pytest.mark.parametrize("value", [True, False, "tpu"])
def test_interpret(value):
    assert Options.parse(options={"interpret": value}, environ={}).interpret == value


@pytest.mark.parametrize(
    ("mode", "options", "environ", "message"),
    [
        (None, {"trget": "v5e"}, {}, r"unknown option 'trget'.*did you mean 'target'.*strict"),
        (None, {"target": "v9"}, {}, r"'v9'.*'target'.*Valid: cpu, v4, v5e, v5p, v6e, tpu7x"),
        (None, {"strict": "maybe"}, {}, r"'maybe' for option 'strict'.*True, False"),
        (None, {"fuel": -1}, {}, r"-1 for option 'fuel'.*0 or more"),
        (None, {"fuel": True}, {}, r"True for option 'fuel'"),
        (None, {"interpret": "gpu"}, {}, r"'gpu'.*True, False, 'tpu'"),
        (None, {"prefer": "palas"}, {}, r"did you mean 'pallas'"),
        (None, {"eager_ops": [3]}, {}, r"\[3\] for option 'eager_ops'.*'aten.sort'"),
        (None, {"eager_ops": "sort"}, {}, r"'sort' for option 'eager_ops'.*'aten.sort.stable'"),
        ("max-autotun", {}, {}, r"mode.*did you mean 'max-autotune'"),
        (None, {}, {"TPU_TILE_FUEL": "x"}, r"environment variable TPU_TILE_FUEL"),
        (None, {}, {"TPU_TILE_DEBUG": "x"}, r"environment variable TPU_TILE_DEBUG"),
    ],
)
def test_nonsense_is_a_value_error(mode, options, environ, message):
    with pytest.raises(ValueError, match=message):
        Options.parse(mode, options, environ)
