"""Sums by two servers, as their operators, people and the analyst type them."""

import json
from contextlib import ExitStack

import numpy as np
import pytest

from collector_process import post_shares, serving
from commands import privot
from privot.aggregated import Encoder
from privot.aggregated.shares import ROLES

SCHEMA = """
[promise]
epsilon = 4
where = "aggregated"
delta = 1e-6
people = 300
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.old]
kind = "boolean"
"""


def ran(folder, line):
    done = privot(folder, *line.split())
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(folder, line):
    done = privot(folder, *line.split())
    assert done.returncode == 2, done.stdout
    return done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which everybody did their part."""
    folder = tmp_path_factory.mktemp("aggregated")
    rng = np.random.default_rng(0)
    rows = [f"{rng.choice(['red', 'blue'])},{rng.choice(['true', 'false'])}" for _ in range(400)]
    (folder / "people.csv").write_text("color,old\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    assert "if one of the two servers is honest" in ran(folder, "calibrate schema.toml")
    said = ran(folder, "privatize people.csv -r encoder.json -o shares")
    assert "shares of 400 records" in said
    for role in ("leader", "helper"):
        made = f"aggregate {role} shares/{role}.shares --encoder encoder.json --role {role}"
        assert "400 new shares, 400 in all; a batch is 300 or more" in ran(folder, made)
    for role in ("leader", "helper"):
        both = "--release leader/ids.txt --release helper/ids.txt"
        ran(folder, f"aggregate {role} {both} -o {role}.json")
    said = ran(folder, "fit leader.json helper.json -o model")
    assert "learned from the sums of 400 reports, ε = 4, δ = 1e-06 if one of the two" in said
    return folder


def test_a_model_is_learned_and_sampled(whole):
    said = ran(whole, "sample model -n 100 -o synthetic.csv --seed 0 --where old=true")
    assert "100 synthetic records" in said
    fields = json.loads((whole / "model" / "model.json").read_text())
    assert fields["kind"] == "aggregated"
    assert fields["guarantee"]["where"] == "aggregated"


def test_the_same_batch_again_is_the_same_file(whole):
    line = "aggregate leader --release leader/ids.txt --release helper/ids.txt -o again.json"
    ran(whole, line)
    assert (whole / "again.json").read_bytes() == (whole / "leader.json").read_bytes()


def test_what_cannot_be_is_refused(whole, tmp_path):
    assert "give the leader's file" in refused(whole, "fit helper.json leader.json -o other")
    assert "exists" in refused(whole, "fit leader.json helper.json -o model")
    assert "--encoder and --role" in refused(whole, "aggregate judge shares/leader.shares")
    assert "is the leader's" in refused(whole, "aggregate leader --role helper")
    assert "whole shares" in refused(whole, "aggregate helper shares/leader.shares")
    assert "opened already" in refused(whole, "aggregate leader shares/leader.shares")
    again = "aggregate again shares/leader.shares --encoder encoder.json --role leader"
    assert "has had a leader of this encoder" in refused(whole, again)
    (whole / "few.txt").write_text("\n".join((whole / "leader/ids.txt").read_text().split()[:9]))
    few = refused(whole, "aggregate leader --release few.txt --release few.txt -o few.json")
    assert "9 reports are fewer than the promise's 300" in few
    assert not (whole / "few.json").exists()
    assert "cannot be read" in refused(whole, "aggregate leader --release none.txt -o few.json")
    for given, found in (("leader.json", 0), ("leader/ids.txt", 1)):
        said = refused(whole, f"aggregate leader --release {given} -o few.json")
        assert f"({found} lists of ids, not two): give the servers' ids.txt" in said
    both = "aggregate leader --release leader/ids.txt --release helper/ids.txt -o few.json"
    for ignored in (" shares/leader.shares", " --verify proofs.bin"):
        assert "neither SHARES nor --verify" in refused(whole, both + ignored)
    assert not (whole / "few.json").exists()


@pytest.fixture(scope="module")
def proven(whole, tmp_path_factory):
    """Shares with proofs, at both servers."""
    folder = tmp_path_factory.mktemp("proven")
    for name in ("people.csv", "schema.toml"):
        (folder / name).write_bytes((whole / name).read_bytes())
    ran(folder, "calibrate schema.toml --proofs")
    ran(folder, "privatize people.csv -r encoder.json -o shares")
    made = "aggregate leader shares/leader.shares --encoder encoder.json --role leader --key key"
    done = privot(folder, *made.split())
    assert "key: the key of both servers" in done.stderr
    said = done.stdout
    assert "leader/proofs.bin: for the other server alone" in said
    assert "400 new shares, 0 verified" in said
    done = privot(folder, *made.replace("leader", "helper").split())
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_what_both_verified_is_learned_from(proven):
    for role, other in (("leader", "helper"), ("helper", "leader")):
        assert "400 verified" in ran(proven, f"aggregate {role} --verify {other}/proofs.bin")
    for role in ("leader", "helper"):
        both = "--release leader/ids.txt --release helper/ids.txt"
        ran(proven, f"aggregate {role} {both} -o {role}.json")
    assert "learned from the sums of 400 reports" in ran(proven, "fit leader.json helper.json -o m")


def test_the_key_of_proofs_is_secret_and_needed(proven):
    assert (proven / "key").stat().st_mode & 0o77 == 0
    made = "aggregate third --encoder encoder.json --role leader"
    assert "verify_key must be 16 random bytes" in refused(proven, made)
    helper = "aggregate third --encoder encoder.json --role helper --key other"
    assert "--key other cannot be read" in refused(proven, helper)  # and none of its own is made
    assert not (proven / "other").exists()
    assert not (proven / "third").exists()
    (proven / "torn").write_text("no key")
    assert "--key torn cannot be read" in refused(proven, made + " --key torn")
    (proven / "wrong").write_text("ab" * 16)
    again = refused(proven, "aggregate leader --key wrong")
    assert "--key wrong: leader has another, and no report is verified by two" in again
    bare = SCHEMA[SCHEMA.index("[columns.color]") :]
    (proven / "bare.toml").write_text(bare)
    calibrate = "calibrate bare.toml --epsilon 1 --proofs -o local.json"
    assert "is for sums by two servers" in refused(proven, calibrate)


@pytest.mark.parametrize("proofs", [False, True])
def test_two_servers_accept_shares_over_http(tmp_path, proofs):
    """Devices post 200 pairs of shares, the same again, and a model is learned from both sums."""
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    (tmp_path / "schema.toml").write_text(SCHEMA.replace("300", "200"))
    rows = [f"{('red', 'blue')[i % 2]},{('true', 'false')[i % 2]}" for i in range(200)]
    (tmp_path / "people.csv").write_text("color,old\n" + "\n".join(rows) + "\n")
    ran(tmp_path, "calibrate schema.toml" + " --proofs" * proofs)
    ran(tmp_path, "privatize people.csv -r encoder.json -o shares")
    if proofs:
        (tmp_path / "key").write_text("ab" * 16)
    options = ["--key", tmp_path / "key"] if proofs else []
    text = (tmp_path / "encoder.json").read_text()
    rule, ids = Encoder.from_json(text), None
    with ExitStack() as stack:
        for role in ROLES:
            (tmp_path / f"{role}-process").mkdir()
            given = (tmp_path / f"{role}-process", "--role", role, *options)
            server = stack.enter_context(serving(*given, store=tmp_path / role, text=text))
            length, data = (
                rule.share_length(role),
                (tmp_path / f"shares/{role}.shares").read_bytes(),
            )
            shares = [data[at : at + length] for at in range(0, len(data), length)]
            connection = server.connection()
            for share in shares[:20]:
                assert post_shares(connection, [share])[0] == 200
            status, told = post_shares(connection, shares)
            assert (status, told["accepted"], told["duplicates"]) == (200, 180, 20)
            connection.request("GET", "/encoder.json")
            assert connection.getresponse().read().decode() == text
            assert "127.0.0.1" not in server.said()
        for role in ROLES:
            ran(tmp_path, f"aggregate {role}")
        for role, other in zip(ROLES, ROLES[::-1], strict=True):
            if proofs:
                ran(tmp_path, f"aggregate {role} --verify {other}/proofs.bin")
            found = (tmp_path / role / "ids.txt").read_text().split()
            assert len(found) == 200
            assert ids in (None, found)
            ids = found
        both = "--release leader/ids.txt --release helper/ids.txt"
        for role in ROLES:
            ran(tmp_path, f"aggregate {role} {both} -o {role}.json")
        status, told = post_shares(connection, shares[:2])
        assert (status, [each["reason"] for each in told["failed"]]) == (409, ["opened"] * 2)
    assert "learned from the sums of 200 reports" in ran(
        tmp_path, "fit leader.json helper.json -o m"
    )


def test_a_server_of_shares_is_refused_what_it_cannot_be(whole):
    (whole / "torn").write_text("no key")
    (whole / "other.toml").write_text(SCHEMA.replace("300", "301"))
    ran(whole, "calibrate other.toml -o other.json")
    for line, words in (
        ("encoder.json --role mixer", "give collector, shuffler, leader or helper"),
        ("encoder.json --role leader --store helper", "is the helper's"),
        ("encoder.json --role leader --store postgresql://a@b/c", "a leader keeps a folder"),
        ("encoder.json encoder.json --role leader --store new", "takes one encoder.json"),
        ("encoder.json --role leader --store new --release there", "takes one encoder.json"),
        ("encoder.json --key key", "give --role leader or helper"),
        ("encoder.json --role leader --store new --key torn", "--key torn cannot be read"),
        ("none.json --role leader --store new", "none.json"),
        ("other.json --role leader --store leader", "is of another encoder"),
    ):
        assert words in refused(whole, f"serve --port 0 {line}")
    assert not (whole / "new").exists()
