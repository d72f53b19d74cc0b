"""The central commands, as a user types them."""

import json

import numpy as np
from typer.testing import CliRunner

from privot.cli.app import app
from privot.core.errors import PrivotError

run = CliRunner()


SCHEMA = """
unit = "visit"
[columns.x]
kind = "array"
shape = [6, 6]
bounds = [0, 255]
[columns.y]
kind = "categorical"
categories = ["0", "1"]
"""


def images(path, labels=True, side=6):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    x = (rng.random((300, side, side)) * (100 + 100 * y[:, None, None])).astype(np.uint8)
    np.savez(path, x=x, **({"y": y} if labels else {}))
    return path


def test_fit_images(tmp_path):
    data, schema = images(tmp_path / "data.npz"), tmp_path / "schema.toml"
    schema.write_text(SCHEMA)
    model = tmp_path / "model"
    fit = (
        f"central fit {data} --method slices --schema {schema} --low-pass 3 --epsilon 50 --steps 60"
    )
    done = run.invoke(app, f"{fit} --delta 1e-3 --batch-size 30 -o {model}".split())
    assert done.exit_code == 0, done.output
    assert "learned through 60 releases" in done.output
    fields = json.loads((model / "model.json").read_text())
    assert fields["kind"] == "central"
    assert fields["guarantee"]["epsilon"] <= 50
    samples = tmp_path / "samples.npz"
    drawn = run.invoke(app, f"sample {model} --num-rows 20 --seed 1 -o {samples}".split())
    assert drawn.exit_code == 0, drawn.output
    assert "20 synthetic records, ε = " in drawn.output
    with np.load(samples) as arrays:
        assert arrays["x"].shape == (20, 6, 6)
        assert set(arrays["y"]) <= {"0", "1"}
    sampled = run.invoke(app, f"sample {model} -n 9 --where y=1 -o {samples} --force".split())
    assert sampled.exit_code == 0, sampled.output
    with np.load(samples) as arrays:
        assert set(arrays["y"]) == {"1"}
    refused = run.invoke(app, f"sample {model} --where x=1 -o {samples} --force".split())
    assert "conditions on y alone" in str(refused.exception)
    again = run.invoke(app, f"{fit} --delta 1e-3 --batch-size 30 -o {model} --force".split())
    assert isinstance(again.exception, PrivotError)
    assert "has counted 60 releases already" in str(again.exception)


def test_labels_are_the_schemas(tmp_path):
    data, schema = images(tmp_path / "data.npz"), tmp_path / "schema.toml"
    schema.write_text(SCHEMA)
    command = f"central fit {tmp_path}/other.npz --schema {schema} --epsilon 5 -o {tmp_path}/model"
    with np.load(data) as arrays:
        pixels, labels = arrays["x"], arrays["y"]
    for x, y, says in (
        (pixels, labels + 1, "column 'y'"),
        (pixels, labels + 0.7, "column 'y'"),
        (np.full((9, 6, 6), "a"), np.zeros(9, int), "x"),
        (pixels[:, :5], labels, "images of shape 5×6"),
    ):
        np.savez(tmp_path / "other.npz", x=x, y=y)
        done = run.invoke(app, command.split())
        assert isinstance(done.exception, PrivotError)
        assert says in str(done.exception)
        assert not list(tmp_path.glob("model*"))


def test_adapt(tmp_path):
    source = images(tmp_path / "s.npz", side=4)
    target = images(tmp_path / "t.npz", labels=False, side=4)
    done = run.invoke(
        app,
        f"central adapt {source} {target} --unit visit --epsilon 50 --delta 1e-3 "
        f"--training-steps 20 -o {tmp_path / 'c'}".split(),
    )
    assert done.exit_code == 0, done.output
    assert "adapted through 4 noisy sums" in done.stdout
    assert "per visit" in done.stdout
    assert "person" not in done.output
    assert (tmp_path / "c" / "weights.safetensors").exists()
