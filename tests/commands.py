"""Commands as users type them, run in this process: one of their own would mostly import PyTorch."""

import io
import shlex
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest
from typer.main import get_command

from privot.cli import app as commands
from privot.cli import main

_APP = get_command(commands.app)  # made once: to make it takes longer than most refusals


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def privot(folder, *arguments, stdin="", **environment):
    """Run `privot …` in a folder."""
    printed, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(printed, "utf-8", newline="", write_through=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, str(value))
        patch.setattr(commands, "app", _APP)
        patch.setattr(sys, "argv", ["privot", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        patch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as stopped:
                main()
    return Done(int(stopped.value.code or 0), printed.getvalue().decode(), err.getvalue())


def typed(folder, *first):
    """What runs a line as typed after `privot` (and `first`) there: exit code, output, error."""

    def call(line=""):
        done = privot(folder, *first, *shlex.split(line))
        return done.returncode, done.stdout, done.stderr

    return call
