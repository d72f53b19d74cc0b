"""Noisy sums of several curators: released apart, merged, and learned from together, by commands."""

import numpy as np
import pytest

from commands import typed

SCHEMA = """
[columns.old]
kind = "boolean"
[columns.sick]
kind = "boolean"
[promise]
epsilon = 2
where = "central"
delta = 1e-6
people = 1000
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for name, seed in (("north", 0), ("south", 1)):
        old = np.random.default_rng(seed).random(1000 + seed) < 0.5
        (tmp_path / f"{name}.csv").write_text("old,sick\n" + "".join(f"{o},{o}\n" for o in old))
    return typed(tmp_path)


def test_two_curators_release_merge_and_learn(call, tmp_path):
    for name, number in (("north", "1,000"), ("south", "1,001")):
        code, out, err = call(f"central fit {name}.csv --schema schema.toml --count -o {name}.json")
        assert (code, f"noisy sums of {number} records, ε = 2, δ = 1e-06" in out) == (0, True), err
    code, out, err = call("collect north.json south.json --count -o both.json")
    assert (code, "both.json: noisy sums of 2,001 reports, ε = 2" in out) == (0, True), err
    code, _, err = call("fit south.json north.json -o apart --seed 3")
    assert code == 0, err
    code, out, err = call("fit both.json -o model --seed 3")
    assert (code, "learned from the sums of 2,001 reports, ε = 2" in out) == (0, True), err
    for model in ("model", "apart"):
        assert call(f"sample {model} -n 50 --seed 0 -o {model}.csv")[0] == 0
    assert (tmp_path / "model.csv").read_text() == (tmp_path / "apart.csv").read_text()


def test_what_is_refused_leaves_what_is_there(call, tmp_path):
    line = "central fit north.csv --schema schema.toml --count -o north.json"
    assert "leave out other settings" in call(f"{line} --epsilon 1")[2]
    assert not (tmp_path / "north.json").exists()
    assert call(line)[0] == 0
    before = (tmp_path / "north.json").read_bytes()
    assert "exists" in call(line)[2]
    assert "counted a release: use its sums, or spend more" in call(f"{line} --force")[2]
    assert "is in two of the sums" in call("collect north.json north.json --count -o twice.json")[2]
    assert "no setting but seed" in call("fit north.json -o model --estimator latent_classes")[2]
    for option in ("--target sick", "--waves", "--device cpu", "--strict"):
        assert "leave out --waves and times" in call(f"fit north.json -o model {option}")[2], option
    for option in ("--strict", "--key north.csv"):
        said = call(f"collect north.json --count -o twice.json {option}")[2]
        assert "leave out --key, -r and --strict" in said, option
    assert not (tmp_path / "twice.json").exists()
    assert not (tmp_path / "model").exists()
    assert (tmp_path / "north.json").read_bytes() == before
