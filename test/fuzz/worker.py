"""A judge in a process of its own: a crash or a hang is a verdict too, and memory is given back."""

import gc
import logging
import multiprocessing
import warnings
from multiprocessing.connection import Connection
from types import TracebackType

import torch

from test.fuzz.compare import Difference
from test.fuzz.judge import Judge
from test.fuzz.program import Program

RENEW_AFTER = 200
"""Programs until the process is replaced: what a compiler keeps of each adds up."""

START_SECONDS = 120


class Worker:
    """Judges programs one after the other. A program may take `seconds`."""

    def __init__(self, judge: Judge, seconds: float = 90) -> None:
        self.judge = judge
        self.seconds = seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None
        self._judged = 0

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def __call__(self, program: Program) -> tuple[Difference, ...]:
        """The verdict on `program`, whatever becomes of the process."""
        if self._process is None or self._judged >= RENEW_AFTER:
            self._stop()
            self._start()
        assert self._pipe is not None  # just started
        self._judged += 1
        self._pipe.send(program)
        if not self._pipe.poll(self.seconds):
            self._stop()
            return (Difference("hangs", "a call", f"no answer within {self.seconds} s"),)
        try:
            return self._pipe.recv()
        except EOFError:
            code = self._process.exitcode if self._process else None
            self._stop()
            return (Difference("crashes", "a call", f"the process ended with {code}"),)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self.judge), daemon=True)
        self._process.start()
        theirs.close()
        self._judged = 0
        if not self._pipe.poll(START_SECONDS):
            raise TimeoutError(f"the worker did not start within {START_SECONDS} s")
        self._pipe.recv()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def serve(pipe: Connection, judge: Judge) -> None:
    """Answers programs with verdicts until the other side is gone."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    pipe.send("ready")
    while True:
        try:
            program = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(program))
        torch._dynamo.reset()
        gc.collect()
