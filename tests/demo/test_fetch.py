"""Fetching from a server on the loopback address: resuming, refusing, falling back.

Made-up people live where towns are, as often as towns are large.
"""

import gzip
import http.server
import threading
from contextlib import contextmanager

import numpy as np
import pyarrow.csv as pa_csv
import pytest

from commands import privot
from made_up_images import idx_bytes, made_up, source_of
from privot.core.errors import PrivotError
from privot.demo.datasets import IDX_FILES, download, fetch_source
from privot.demo.homes import BOX, PLACES_FILE, SCHEMA_TOML, draw_people
from privot.schema import Schema


class Server(http.server.BaseHTTPRequestHandler):
    """Files from a dictionary; knows ranges, may cut the first answer short."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.path.removeprefix("/sets/")
        asked = self.headers.get("Range")
        self.server.asked.append((name, asked))
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        first = 0
        if asked is not None and self.server.ranges:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            if first >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.send_header("Connection", "close")
        self.end_headers()
        whole = self.server.cut is None or asked is not None
        self.wfile.write(content[first:] if whole else content[: self.server.cut])
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@contextmanager
def serving(files, ranges=True, cut=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.files, server.ranges, server.cut, server.asked = files, ranges, cut, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/sets/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def published(arrays):
    return {name: gzip.compress(idx_bytes(array)) for name, array in zip(IDX_FILES, arrays)}


def test_a_set_is_fetched_and_checked(tmp_path):
    arrays, said = made_up(), []
    with serving(published(arrays)) as (_, address):
        source = source_of(arrays, addresses=["http://127.0.0.1:9/none/", address])
        target = fetch_source(source, tmp_path, said.append)
    assert sorted(path.name for path in target.iterdir()) == sorted(IDX_FILES)
    assert source.read(tmp_path).checksums() == source.checksums
    assert "checksums verified" in said[-1]


def test_a_broken_download_is_resumed_where_it_stopped(tmp_path):
    arrays = made_up()
    files = published(arrays)
    with serving(files, cut=40) as (server, address):
        source = source_of(arrays, addresses=[address])
        with pytest.raises(
            PrivotError, match=r"ended after 40 of .* run the command again to resume"
        ):
            fetch_source(source, tmp_path, lambda line: None)
        part = tmp_path / "made_up" / f"{IDX_FILES[0]}.part"
        assert part.read_bytes() == files[IDX_FILES[0]][:40]
        server.cut = None
        fetch_source(source, tmp_path, lambda line: None)
        assert (IDX_FILES[0], "bytes=40-") in server.asked
    assert source.read(tmp_path).checksums() == source.checksums
    assert not part.exists()


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("there", [0, 10, 300])
def test_resuming_ends_with_the_same_file(tmp_path, ranges, there):
    """Also from a server that knows no ranges, and from a part that was whole already."""
    content = bytes(range(256)) + bytes(44)
    path = tmp_path / "file.gz"
    path.with_name("file.gz.part").write_bytes(content[:there])
    with serving({"file.gz": content}, ranges=ranges) as (_, address):
        download(address + "file.gz", path)
    assert path.read_bytes() == content


def test_other_values_are_refused_and_removed(tmp_path):
    with serving(published(made_up(seed=1))) as (_, address):
        source = source_of(made_up(seed=0), addresses=[address])
        with pytest.raises(PrivotError, match="x_train of made_up"):
            fetch_source(source, tmp_path, lambda line: None)
    assert not list((tmp_path / "made_up").iterdir())


def test_an_archive_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "made_up.npz").write_bytes(b"")
    with pytest.raises(PrivotError, match="is there already"):
        fetch_source(source_of(made_up()), tmp_path)


def test_the_command_reports_what_failed(tmp_path):
    with serving({}) as (_, address):
        done = privot(tmp_path, "demo", "--fetch", "mnist", "--data", "data", "--address", address)
    assert done.returncode == 2
    assert f"{IDX_FILES[0]} could not be fetched" in done.stderr
    assert "404" in done.stderr


def test_people_live_in_towns_in_proportion_to_population():
    people = draw_people(20_000, seed=0)
    Schema.from_toml(SCHEMA_TOML).check_table(people)
    assert people.equals(draw_people(20_000, seed=0))
    places = pa_csv.read_csv(PLACES_FILE)
    largest = int(np.argmax(places["population"].to_numpy()))
    there = [people[n].to_numpy() == places[n][largest].as_py() for n in people.column_names]
    share = places["population"][largest].as_py() / places["population"].to_numpy().sum()
    assert (there[0] & there[1]).mean() == pytest.approx(share, rel=0.1)
    for name, (low, high) in zip(people.column_names, BOX, strict=True):
        assert low <= people[name].to_numpy().min() <= people[name].to_numpy().max() <= high


def test_nobody_cannot_be_drawn():
    with pytest.raises(PrivotError, match="people 0"):
        draw_people(0, seed=0)
