"""Commands in processes of their own, forked from one that has imported what they need.

A process that begins with `python -m privot` spends a second of processor time on imports. The forks are
made by the server of `multiprocessing`, which has no threads whose locks a child could wait for.
"""

import os
import sys
import tempfile
import traceback
from multiprocessing import get_context
from pathlib import Path

# Of standard input, output and error.
_MODES = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND)


class Forked:
    """A command that runs: `stdout` is the end of a pipe that it writes to."""

    def __init__(self, process, stdout, err):
        self._process, self.stdout, self._err = process, stdout, err
        self.pid = process.pid

    def wait(self, timeout=None):
        """Its exit code."""
        self._process.join(timeout)
        return self._process.exitcode

    def said(self):
        """What it wrote to standard error."""
        return Path(self._err).read_text()

    def poll(self):
        """Its exit code, or None while it runs."""
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def kill(self):
        self._process.kill()
        self._process.join()


def forkserver():
    """What makes processes that are forks of the server."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["commands", "numbered_people", "numba", "privot.collector.app"])
    return context


def call(function, *arguments):
    """Call a function in a fork of the server, and return its result.

    One that forks again and again is quicker there: a process of tests has half a gigabyte to copy.
    """
    reader, writer = forkserver().Pipe(duplex=False)
    process = forkserver().Process(target=_answer, args=(writer, function, arguments))
    process.start()
    writer.close()  # if the process ends without an answer, so does the wait for one
    failure, result = reader.recv()
    process.join()
    assert failure is None, failure
    return result


def _answer(pipe, function, arguments):
    try:
        answer = None, function(*arguments)
    except BaseException:
        answer = traceback.format_exc(), None
    pipe.send(answer)


def start(folder, *arguments, stdin=os.devnull, out=None, err=None, before=None, **environment):
    """Start `privot …` in a folder, with files as its standard input, output (else a pipe) and error.

    `before` is called in the process first: a function that a module of the tests has, or a partial one.
    """
    if err is None:
        descriptor, err = tempfile.mkstemp(dir=folder.parent, suffix=".err")
        os.close(descriptor)
    with tempfile.TemporaryDirectory() as made:
        if out is None:
            os.mkfifo(pipe := os.path.join(made, "out"))
        environment = os.environ | {name: str(value) for name, value in environment.items()}
        files = (str(stdin), out or pipe, err)
        given = (str(folder), arguments, environment, files, before)
        process = forkserver().Process(target=_run, args=given)
        process.start()
        # As soon as the other end is open.
        return Forked(process, None if out else open(pipe, "rb"), err)


def _run(folder, arguments, environment, files, before):
    from privot.cli import main

    if before is not None:
        before()
    os.chdir(folder)
    os.environ.update(environment)
    for number, (path, mode) in enumerate(zip(files, _MODES)):
        os.dup2(os.open(path, mode), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
    sys.argv = ["privot", *map(str, arguments)]
    main()
