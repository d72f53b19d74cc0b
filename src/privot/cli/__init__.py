"""The command line: parse, call, print. Nothing is computed here that Python users would miss.

Exit codes: 0 done; 1 stopped, or failed in a way that nothing given is to blame for, or what was
examined is refuted; 2 what was given cannot be used; 3 done, and the verdict is as bad as `--fail-on`
names; 130 stopped by Ctrl-C before there was anything to resume. Whatever is not 0 has one line on
standard error; a pipe that nobody reads any more has none.

This module itself imports next to nothing: Ctrl-C while the commands are imported is one line, too.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and turn whatever ends it into an exit code and one line."""
    code = 1
    try:
        code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = 1
    except OSError as error:
        _drop_output()
        what = "standard output" if error.filename is None else error.filename
        _say(f"{what} cannot be used ({error.strerror or error}): make room, or name another")
        code = 1
    if code == _INTERRUPTED:
        _say("stopped; outputs that were there are as before")
    sys.exit(code)


def _run() -> int:
    """Run the command; its exit code."""
    import warnings

    from privot.core.errors import PrivotError, extra_of, printable

    try:
        from privot.cli.console import short_warnings

        warnings.showwarning = short_warnings
        from privot.cli.app import run

        return run()
    except PrivotError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            # What is left in the buffer has nowhere to go, and Python would say so once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _say(printable(" ".join(str(error).split())))
        return 2
    except ModuleNotFoundError as error:
        if (found := extra_of(error)) is None:
            raise
        needed, extra = found
        _say(f"this command needs {needed}: pip install 'privot[{extra}]'")
        return 2


def _say(line: str) -> None:
    """Print a line where not even the console may have been imported."""
    print(f"privot: {line}", file=sys.stderr)


def _drop_output() -> None:
    """Discard what is left to print, of which Python would complain once more at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        return
