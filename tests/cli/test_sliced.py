"""The sliced commands, as a user types them."""

import json

import numpy as np
from typer.testing import CliRunner

from privot.cli.app import app
from privot.errors import PrivotError

run = CliRunner()


def images(path, labels=True):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    x = (rng.random((300, 6, 6)) * (100 + 100 * y[:, None, None])).astype(np.uint8)
    np.savez(path, x=x, **({"y": y} if labels else {}))
    return path


def test_fit_images(tmp_path):
    data = images(tmp_path / "data.npz")
    model = tmp_path / "model"
    fit = f"sliced fit {data} --unit visit --num-labels 2 --low-pass 3 --epsilon 50 --steps 300"
    done = run.invoke(app, f"{fit} --delta 1e-3 --batch-size 30 -o {model}".split())
    assert done.exit_code == 0, done.output
    assert "learned through 300 releases" in done.output
    fields = json.loads((model / "model.json").read_text())
    assert fields["kind"] == "sliced"
    assert fields["guarantee"]["epsilon"] <= 50
    samples = tmp_path / "samples.npz"
    drawn = run.invoke(app, f"sample {model} --num-rows 20 --seed 1 -o {samples}".split())
    assert drawn.exit_code == 0, drawn.output
    assert "20 synthetic records, ε = " in drawn.output
    with np.load(samples) as arrays:
        assert arrays["x"].shape == (20, 6, 6)
        assert set(arrays["y"]) <= {0, 1}
    refused = run.invoke(app, f"sample {model} --where label=1 -o {samples} --force".split())
    assert "--where is for models of" in str(refused.exception)
    again = run.invoke(app, f"{fit} --delta 1e-3 --batch-size 30 -o {model} --force".split())
    assert isinstance(again.exception, PrivotError)
    assert "has counted 300 releases already" in str(again.exception)


def test_number_of_labels_is_declared(tmp_path):
    data = images(tmp_path / "data.npz")
    done = run.invoke(app, f"sliced fit {data} --unit visit --epsilon 5".split())
    assert isinstance(done.exception, PrivotError)
    assert "--num-labels" in str(done.exception)
    for y, x in ((np.arange(300) % 2, "1"), (np.arange(300) % 2 + 0.7, "2")):
        with np.load(data) as arrays:
            np.savez(tmp_path / "other.npz", x=arrays["x"], y=y)
        command = f"sliced fit {tmp_path}/other.npz --unit visit --num-labels {x} --epsilon 5"
        done = run.invoke(app, [*command.split(), "-o", str(tmp_path / "model")])
        assert isinstance(done.exception, PrivotError)
        assert f"no class of num_labels {x}" in str(done.exception)
    np.savez(tmp_path / "other.npz", x=np.full((9, 6, 6), "a"), y=np.zeros(9))
    done = run.invoke(app, command.split())
    assert isinstance(done.exception, PrivotError)
    assert "array 'x' of <U1: give numbers" in str(done.exception)
    assert not list(tmp_path.glob("model*"))


def test_adapt(tmp_path):
    source, target = images(tmp_path / "s.npz"), images(tmp_path / "t.npz", labels=False)
    done = run.invoke(
        app,
        f"sliced adapt {source} {target} --unit visit --epsilon 50 --delta 1e-3 --steps 50 "
        f"--batch-size 30 -o {tmp_path / 'c'}".split(),
    )
    assert done.exit_code == 0, done.output
    assert "adapted through 50 releases" in done.stdout
    assert "per visit" in done.stdout
    assert "person" not in done.output
    assert (tmp_path / "c" / "weights.safetensors").exists()
