"""Sums by two servers, as their operators, people and the analyst type them."""

import json

import numpy as np
import pytest

from commands import privot

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
    few = refused(whole, "aggregate leader --release few.txt -o few.json")
    assert "batch has 9 reports, and the promise is of 300" in few
    assert not (whole / "few.json").exists()
    assert "cannot be read" in refused(whole, "aggregate leader --release none.txt -o few.json")


@pytest.fixture(scope="module")
def proven(whole, tmp_path_factory):
    """Shares with proofs, at both servers."""
    folder = tmp_path_factory.mktemp("proven")
    for name in ("people.csv", "schema.toml"):
        (folder / name).write_bytes((whole / name).read_bytes())
    ran(folder, "calibrate schema.toml --proofs")
    ran(folder, "privatize people.csv -r encoder.json -o shares")
    made = "aggregate leader shares/leader.shares --encoder encoder.json --role leader --key key"
    said = ran(folder, made)
    assert "key: the key of both servers" in said
    assert "leader/proofs.bin: for the other server alone" in said
    assert "400 new shares, 0 verified" in said
    said = ran(folder, made.replace("leader", "helper"))
    assert "the key of both servers" not in said
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
    bare = SCHEMA[SCHEMA.index("[columns.color]") :]
    (proven / "bare.toml").write_text(bare)
    calibrate = "calibrate bare.toml --epsilon 1 --proofs -o local.json"
    assert "is for sums by two servers" in refused(proven, calibrate)
