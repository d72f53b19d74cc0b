"""One bad input, and how it is tried."""

import os
import shlex
import shutil
import time
import zlib
from dataclasses import dataclass, field

import commands

CPU_SECONDS = 10  # of this process, so that no other process counts
# Warnings, and the reminder of what a unit is.
_ASIDE = ("privot: warning:", "per person:")


@dataclass(frozen=True)
class Case:
    """A command line, a part of what it must say, and files that are there beforehand.

    Arguments:
        line: What is typed after `privot`.
        says: A part of the refusal.
        files: Content by name.
        stdin: What comes on the pipe.
    """

    line: str
    says: str
    files: dict = field(default_factory=dict)
    stdin: str = ""

    @property
    def id(self):
        """The line, and what tells its files apart."""
        more = repr([*sorted(self.files.items()), self.stdin]) if self.files or self.stdin else ""
        return self.line + (f" #{zlib.crc32(more.encode()):08x}" if more else "")

    @property
    def words(self):
        """The arguments."""
        return shlex.split(self.line)


def cases(*rows):
    """Cases of rows (line, says[, files[, stdin]])."""
    return [Case(*row) for row in rows]


def snapshot(folder):
    """Every file and folder, with what tells that it was not written again."""
    found = {}
    for place, folders, files in os.walk(folder):
        found |= {os.path.relpath(os.path.join(place, name), folder): None for name in folders}
        for name in files:
            path = os.path.join(place, name)
            stat = os.lstat(path)
            told = (stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_mode)
            found[os.path.relpath(path, folder)] = told
    return found


def require_refused(done, says):
    """One line, and it says what it must."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith(_ASIDE)]
    assert done.returncode in (1, 2), f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("privot: ")
    assert says in lines[0], lines[0]
    assert done.stdout == "", done.stdout


def run_refused(folder, case):
    """Try a case in this process."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = snapshot(folder)
    try:
        started = time.process_time()
        require_refused(commands.privot(folder, *case.words, stdin=case.stdin), case.says)
        assert time.process_time() - started < CPU_SECONDS
        assert snapshot(folder) == before
    finally:  # so that a case that fails spoils no other
        for name in {*case.files, *(snapshot(folder).keys() - before.keys())}:
            if (folder / name).is_dir():
                shutil.rmtree(folder / name, ignore_errors=True)
            else:
                (folder / name).unlink(missing_ok=True)
