"""Command line: parse arguments, call the library, print. All computations are available from Python.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | failure for other reasons than the input; resumable interruption; refuted audit; bad records |
| 2 | the input cannot be used |
| 3 | success, but a verdict has the grade of `--fail-on`, or a worse one |
| 130 | interruption by Ctrl-C without anything to resume |

With all codes but 0, one line on standard error says why (a line for each problem of a schema), except
that `privot audit` and `privot schema check` print on standard output what they found, and nothing is
printed if the output's pipe was closed.
This module imports hardly anything, so that Ctrl-C during the import of commands prints one line, too.
"""

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and report every error as an exit code and one line."""
    code = 1
    try:
        finished = _run()
        sys.stdout.flush()
        code = finished
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        target = "standard output" if error.filename is None else error.filename
        _say(f"{target} cannot be used ({error.strerror or error}): make room, or name another")
    if code == _INTERRUPTED:
        _say("stopped; outputs that were there are as before")
    sys.exit(code)


def _run() -> int:
    """Run the command, and return its exit code."""
    import warnings

    from privot.core.errors import PrivotError, extra_of, printable

    try:
        from privot.cli.console import short_warnings

        warnings.showwarning = short_warnings
        from privot.cli.app import run

        return run()
    except PrivotError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            _drop_output()
        for line in str(error).split("\n"):
            _say(printable(" ".join(line.split())))
        return 2
    except ModuleNotFoundError as error:
        missing = extra_of(error)
        if missing is None:
            raise
        needed, extra = missing
        _say(f"this command needs {needed}: pip install 'privot[{extra}]'")
        return 2


def _say(line: str) -> None:
    """Print a line on standard error without importing the console."""
    print(f"privot: {line}", file=sys.stderr)


def _drop_output() -> None:
    """Discard buffered output, whose failure Python would otherwise report again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        return
