"""What to say in a forked process, where JAX's threads are not and any call of JAX hangs."""

import os


def describe_fork(what: str, home: int) -> str:
    """The message for `what` happened in process `home`, of which this one is a fork."""
    return (
        f"{what} in process {home}, of which process {os.getpid()} is a fork: JAX's threads did "
        "not follow, so the call would hang. Start workers afresh, with "
        'DataLoader(..., multiprocessing_context="spawn") or '
        'torch.multiprocessing.set_start_method("spawn"), or call the model in process '
        f"{home} alone"
    )
