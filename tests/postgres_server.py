"""A real PostgreSQL server in a folder of its own, for as long as a test session needs it."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from glob import glob
from pathlib import Path


def programs():
    """The folder of initdb and pg_ctl; None where there is no server."""
    places = [shutil.which("initdb"), *sorted(glob("/usr/lib/postgresql/*/bin/initdb"))]
    found = [Path(place).resolve().parent for place in places if place]
    return next((f for f in found if (f / "pg_ctl").exists()), None)


def _as_nobody(command):
    """The server refuses to run as root."""
    if os.getuid():
        return command
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]


@contextmanager
def server(*options):
    """The address of a server, which listens in its folder only."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    bin_, data = programs(), folder / "data"
    if not os.getuid():
        os.chown(folder, 65534, 65534)
    how = {
        "cwd": folder,
        "check": True,
        "capture_output": True,
        "env": {"LC_ALL": "C", "PATH": os.environ["PATH"]},
    }
    try:
        made = [
            bin_ / "initdb",
            "-D",
            data,
            "-U",
            "privot",
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(_as_nobody(list(map(str, made))), **how)
        told = f"-c listen_addresses= -c unix_socket_directories={folder} " + " ".join(options)
        start = [bin_ / "pg_ctl", "-D", data, "-o", told, "-l", folder / "log", "-w", "start"]
        subprocess.run(_as_nobody(list(map(str, start))), **how)
        try:
            yield f"postgresql://privot@/postgres?host={folder}"
        finally:
            stop = [bin_ / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"]
            subprocess.run(_as_nobody(list(map(str, stop))), **how)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
