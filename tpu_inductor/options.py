"""What the user asked for: `mode=`, `options={...}` and TPU_TILE_* variables as one frozen value.

This is the only reader of the environment. A given option wins over its variable. A name or a value
that means nothing is a ValueError which lists what would have been accepted.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, cast

import platformdirs

Interpret: TypeAlias = bool | Literal["tpu"]

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
TARGETS = ("cpu", "v4", "v5e", "v5p", "v6e", "tpu7x")
PREFER = ("auto", "pallas", "xla")

_FLAGS = {"1": True, "true": True, "yes": True, "on": True} | {
    "": False,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


LIBTPU_VARIABLES = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""What libtpu must find in the environment to compile for chips that are not there."""


def prepare_libtpu(
    environ: MutableMapping[str, str] = os.environ, dump_to: Path | None = None
) -> None:
    """Lets `aot` compile without a TPU. Call it before JAX starts; what is set already stays.

    With `dump_to`, libtpu leaves there what `aot.price` reads of every compilation. It reads
    LIBTPU_INIT_ARGS once, when it is loaded: a process has one such folder, and what was appended
    later is not seen. Raises ValueError if the path holds white space, at which libtpu would split.
    """
    for name, value in LIBTPU_VARIABLES.items():
        environ.setdefault(name, value)
    if dump_to is not None:
        given = environ.get("LIBTPU_INIT_ARGS", "")
        environ["LIBTPU_INIT_ARGS"] = f"{given} {_dump_flags(dump_to)}".strip()


def _dump_flags(folder: Path) -> str:
    if len(str(folder).split()) != 1:
        raise ValueError(f"libtpu cannot dump to {str(folder)!r}: the path holds white space")
    return (
        f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        " --xla_jf_dump_llo_pass_label_regex=^(final_bundles|deduplication-map)$"
    )


def compiler_environment(dump_to: Path, search: Sequence[str]) -> dict[str, str]:
    """The environment of a process that compiles without a TPU; `search` is its `sys.path`."""
    environ = dict(os.environ)
    prepare_libtpu(environ, dump_to=dump_to)
    # What JAX takes from its own cache leaves no dump.
    environ |= {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in search if path)
    return environ


def _default_cache_dir() -> Path:
    return platformdirs.user_cache_path("tpu_inductor")


@dataclass(frozen=True, slots=True)
class Options:
    """Every choice that a user can make, with its default.

    `fuel` fuses the first n regions alone. `interpret` runs the kernels of a TPU target in Pallas
    interpret mode on the CPU; "tpu" adds the TPU's semantics: unwritten memory is NaN, races raise.
    `check_indices` raises as torch does at an index out of range and an integer division by zero;
    None means for the target "cpu" alone.
    `eager_ops` are operators that run in torch, `aten.sort` or one overload, `aten.sort.stable`.
    """

    mode: str | None = None
    strict: bool = False
    debug: bool = False
    debug_dir: Path = Path("tpu_tile_debug")
    fuel: int | None = None
    target: str | None = None
    interpret: Interpret = False
    prefer: str = "auto"
    check_indices: bool | None = None
    eager_ops: tuple[str, ...] = ()
    cache_dir: Path = field(default_factory=_default_cache_dir)

    @staticmethod
    def parse(
        mode: str | None = None,
        options: Mapping[str, object] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> "Options":
        """The options of one torch.compile call. Raises ValueError for unknown names and values."""
        values: dict[str, object] = {"mode": mode}
        values |= {name: environ[var] for name, var in _VARIABLES.items() if var in environ}
        sources = {
            name: f"environment variable {_VARIABLES[name]}" for name in values if name != "mode"
        }
        sources |= {name: f"option {name!r}" for name in options or {}} | {"mode": "mode"}
        values |= options or {}
        for name in values:
            if name not in _READERS:
                raise _unknown(name, f"option {name!r}", _READERS)
        return Options(**{n: _READERS[n](v, sources[n]) for n, v in values.items()})  # pyright: ignore[reportArgumentType]


def _unknown(given: object, where: str, valid: Iterable[str]) -> ValueError:
    names = list(valid)
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ValueError(f"unknown {where} of backend tpu_tile{hint} Valid: {', '.join(names)}")


def _bad(source: str, value: object, valid: str) -> ValueError:
    return ValueError(f"bad value {value!r} for {source} of backend tpu_tile. Valid: {valid}")


def _read_flag(value: object, source: str) -> bool:
    flag = _FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise _bad(source, value, "True, False (variables: 1, 0)")
    return flag


def _read_flag_or_none(value: object, source: str) -> bool | None:
    return None if value in (None, "") else _read_flag(value, source)


def _read_count(value: object, source: str) -> int | None:
    if value is None or value == "":
        return None
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise _bad(source, value, "a whole number of regions, 0 or more")
    return number


def _read_path(value: object, source: str) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise _bad(source, value, "a directory path")
    return Path(value).expanduser()


def _read_names(value: object, source: str) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if isinstance(names, Sequence) and all(isinstance(n, str) for n in names):
        stripped = tuple(n.strip() for n in cast(Sequence[str], names) if n.strip())
        if all(_OPERATOR.fullmatch(n) for n in stripped):
            return stripped
    raise _bad(source, value, "names of operators, 'aten.sort' or 'aten.sort.stable'")


def _read_interpret(value: object, source: str) -> Interpret:
    if isinstance(value, bool):
        return value
    if value == "tpu":
        return "tpu"
    raise _bad(source, value, "True, False, 'tpu'")


def _choice(valid: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, source: str) -> str:
        if value in valid:
            return str(value)
        raise _unknown(value, f"value {value!r} for {source}", valid)

    return read


def _optional(read: Callable[[object, str], str]) -> Callable[[object, str], str | None]:
    return lambda value, source: None if value in (None, "") else read(value, source)


_OPERATOR = re.compile(r"\w+\.\w+(\.\w+)?")

_READERS: dict[str, Callable[[object, str], object]] = {
    "mode": _optional(_choice(MODES)),
    "strict": _read_flag,
    "debug": _read_flag,
    "debug_dir": _read_path,
    "fuel": _read_count,
    "target": _optional(_choice(TARGETS)),
    "interpret": _read_interpret,
    "prefer": _choice(PREFER),
    "check_indices": _read_flag_or_none,
    "eager_ops": _read_names,
    "cache_dir": _read_path,
}

_VARIABLES = {
    "debug": "TPU_TILE_DEBUG",
    "strict": "TPU_TILE_STRICT",
    "fuel": "TPU_TILE_FUEL",
    "cache_dir": "TPU_TILE_CACHE_DIR",
    "target": "TPU_TILE_TARGET",
    "check_indices": "TPU_TILE_CHECK_INDICES",
    "eager_ops": "TPU_TILE_EAGER_OPS",
}
