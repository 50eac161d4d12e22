"""What to tell of an error that JAX raised while it compiled or ran a program."""

from tpu_inductor.errors import PREFER_XLA, InvalidIR, LaunchError, bug_text
from tpu_inductor.runtime.load import lines_of

_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")


def explain_failure(error: BaseException, program: str) -> InvalidIR | LaunchError:
    """`error` as ours: LaunchError where memory ran out, else a bug with the user's line."""
    lines = lines_of(error)
    # The statement of the program says which operators it runs, and where they come from.
    _, _, comment = (lines[0][0] if lines else "").partition("  # ")
    if any(text in str(error) for text in _OUT_OF_MEMORY):
        return LaunchError(
            f"program {program} ran out of memory: {error}. Use smaller inputs, drop tensors that "
            "are not needed before the call, or run part of the model outside of torch.compile"
        )
    return InvalidIR(bug_text(f"program {program}", comment, PREFER_XLA, error))
