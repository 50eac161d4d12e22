"""Processes that compile for TPUs, so that an abort of the compiler is an error and no more.

    with CompilerPool() as pool:
        for reply in pool.run(requests):
            ...

The pool belongs to whoever opened it. A process starts when it first gets work, and is used again;
one that dies, or takes too long, is replaced, and its request becomes a result with an error.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from tpu_inductor.aot.messages import DUMP, CompileReply, CompileRequest, DevicelessResult
from tpu_inductor.options import compiler_environment

TIMEOUT_S = 600.0
"""What one compilation may take: a whole model takes minutes."""

START_S = 300.0
"""What a process may take to start, which is two seconds of a core that is free."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many requests are answered, in any order, and how many there are."""

_FATAL = re.compile(r"^F\d{4} [\d:.]+ +\d+ ([\w.]+:\d+)\] *(.*)$", re.MULTILINE)
_LAST_LINES = 8


@dataclass(frozen=True, slots=True)
class _Task:
    """A request that a process works on: its place in the order, and since when it may."""

    index: int
    request: CompileRequest
    started: float


@dataclass(slots=True)
class _Worker:
    """One process, the folder of its dumps and messages, and what it works on."""

    process: subprocess.Popen[bytes]
    connection: Connection
    folder: "tempfile.TemporaryDirectory[str]"
    is_ready: bool = False
    task: _Task | None = None

    @staticmethod
    def start() -> "_Worker":
        folder = tempfile.TemporaryDirectory(prefix="tpu_inductor_", ignore_cleanup_errors=True)
        dump = Path(folder.name) / DUMP
        dump.mkdir()
        ours, theirs = connection.Pipe()
        handle = theirs.fileno()
        with theirs, _stderr_of(folder.name).open("wb") as stderr:
            process = subprocess.Popen(
                # -P: no file of the working directory stands in for a module of the worker.
                [sys.executable, "-P", "-m", "tpu_inductor.aot.worker", str(handle), folder.name],
                env=compiler_environment(dump, sys.path),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(handle,),
                # Ctrl-C is for us, who then stop the workers.
                start_new_session=True,
            )
        return _Worker(process, ours, folder)

    def stop(self) -> None:
        """Ends the process at once; it has nothing to save."""
        self.connection.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def last_words(self) -> str:
        """Why the process died: the failed check of the compiler, or its last lines."""
        text = _stderr_of(self.folder.name).read_text(errors="replace")
        if fatal := _FATAL.search(text):
            return f"{fatal[2].strip()} ({fatal[1]})"
        return "\n".join(text.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"


def _stderr_of(folder: str) -> Path:
    return Path(folder) / "stderr.txt"


class CompilerPool:
    """`size` compile workers, as many as there are cores unless told otherwise.

    `timeout_s` is what one request may take, once its process has started. Use it in a `with`
    statement, or call `close`.
    """

    def __init__(self, size: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._size = size or os.cpu_count() or 1
        self._timeout_s = timeout_s
        self._workers: list[_Worker] = []

    def __enter__(self) -> "CompilerPool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops all workers. The pool may be used again, with new ones."""
        while self._workers:
            self._workers.pop().stop()

    def run(
        self, requests: Iterable[CompileRequest], progress: Progress = lambda done, total: None
    ) -> Iterator[CompileReply]:
        """The replies in the order of the requests, each as soon as it and those before it exist.

        Leaving the iteration early stops what is being compiled. Runs do not overlap.
        """
        waiting = list(enumerate(requests))[::-1]
        total = len(waiting)
        replies: dict[int, CompileReply] = {}
        done = 0
        progress(done, total)
        try:
            for index in range(total):
                while index not in replies:
                    self._hand_out(waiting)
                    for answered, reply in self._collect():
                        replies[answered] = reply
                        done += 1
                        progress(done, total)
                yield replies.pop(index)
        finally:
            for worker in [w for w in self._workers if w.task]:
                self._drop(worker)

    def _hand_out(self, waiting: list[tuple[int, CompileRequest]]) -> None:
        """Gives work to idle workers, and starts workers while there is work for them."""
        for worker in [w for w in self._workers if w.process.poll() is not None and not w.task]:
            self._drop(worker)
        while waiting:
            idle = next((w for w in self._workers if w.task is None), None)
            if idle is None:
                if len(self._workers) == self._size:
                    return
                idle = _Worker.start()
                self._workers.append(idle)
            index, request = waiting.pop()
            idle.task = _Task(index, request, time.monotonic())
            try:
                idle.connection.send(request)
            except OSError:
                # It died just now; its closed connection tells so when replies are collected.
                continue

    def _collect(self) -> Iterator[tuple[int, CompileReply]]:
        """Waits until a process has something to tell, or the time of a request is up."""
        busy = {w.connection: (w, w.task) for w in self._workers if w.task}
        deadline = min(task.started + self._limit(worker) for worker, task in busy.values())
        ready = connection.wait(list(busy), timeout=max(0.0, deadline - time.monotonic()))
        for channel in ready:
            worker, task = busy[channel]  # pyright: ignore[reportArgumentType]
            if reply := self._receive(worker, task):
                yield task.index, reply
        for worker, task in [(w, w.task) for w in self._workers if w.task]:
            elapsed = time.monotonic() - task.started
            if elapsed >= self._limit(worker):
                self._drop(worker)
                text = f"the compiler was stopped after {elapsed:.0f} s without a result"
                yield task.index, _failure(task, text)

    def _limit(self, worker: _Worker) -> float:
        return self._timeout_s if worker.is_ready else START_S

    def _receive(self, worker: _Worker, task: _Task) -> CompileReply | None:
        """The reply; None if the process only told that it has started."""
        try:
            reply = worker.connection.recv()
        except (EOFError, OSError):
            code = worker.process.wait()
            text = f"{_exit_text(code)}: {worker.last_words()}"
            self._drop(worker)
            return _failure(task, text)
        if reply is None:
            worker.is_ready = True
            worker.task = replace(task, started=time.monotonic())
        else:
            worker.task = None
        return reply

    def _drop(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.stop()


def _failure(task: _Task, error: str) -> CompileReply:
    result = DevicelessResult(task.request.name, task.request.target, error)
    return CompileReply(result, None, time.monotonic() - task.started)


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"the compile worker ended with exit status {code}"
    names = {s.value: s.name for s in signal.Signals}
    return f"the compiler aborted with {names.get(-code, f'signal {-code}')}"
