"""Junk called Parquet is refused in one line of ours, by whatever reads it: nothing of Arrow's words."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privot import Randomizer, Release, Schema, read_table
from privot.collector import collect_files
from privot.core.errors import PrivotError
from privot.tables.record_files import open_records

SCHEMA = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]\nbins = 4')
ARROW = ("Could not", "Error creating", "magic", "footer", "thrift", "snappy", "Either the file")


def records(path):
    return list(open_records(path, SCHEMA).batches())


@pytest.fixture
def junk(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [i % 97 + i / 7 for i in range(20_000)]}), path)

    def made(how):
        whole = path.read_bytes()
        size = len(whole)
        path.write_bytes(
            {
                "random": bytes(range(256)) * 4,
                "magic": b"PAR1" + bytes(range(255, -1, -1)) + b"PAR1",
                "truncated": whole[: size // 2],
                "footer": whole[:-60] + bytes(52) + whole[-8:],
                "middle": whole[: size // 8]
                + bytes(255 - byte for byte in whole[size // 8 : size // 4])
                + whole[size // 4 :],
            }[how]
        )
        return path

    return made


@pytest.mark.parametrize("how", ["random", "magic", "truncated", "footer", "middle"])
@pytest.mark.parametrize("read", [read_table, records, Release.load, "collect"])
def test_junk_is_refused_in_our_words(junk, how, read, tmp_path):
    path = junk(how)
    if read == "collect":
        randomizer = Randomizer.calibrate(SCHEMA, 1.0)

        def read(path):
            return collect_files([path], tmp_path / "out.parquet", randomizer)

    with pytest.raises(PrivotError) as refused:
        read(path)
    words = str(refused.value)
    assert "people.parquet" in words
    assert ": " in words
    assert "\n" not in words
    assert not [each for each in ARROW if each in words]
    assert not (tmp_path / "out.parquet").exists()
