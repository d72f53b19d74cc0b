"""Two processes on loopback train what one would: the same batches, the same weights.

What a step asks of the machine holds inside its block only.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import privot
from privot import load
from privot.core.errors import PrivotError
from privot.training import Interrupted
from privot.training.loop import ALONE, Group, threads_for
from privot.transport import SinkhornSolver, entropic_cost
from privot.transport.ground import product_precision
from privot.transport.sinkhorn import entropic_cost_of_rows
from training.parallel_fits import LOSSES, fits, write_releases

TESTS = Path(__file__).parents[1]


def torchrun(folder, *arguments):
    """Two processes, which end with this call."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    seen = os.pathsep.join([str(TESTS), str(Path(privot.__file__).parents[1])])
    environment = os.environ | {"PYTHONPATH": seen, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def ends(printed):
    """When the first process had saved all, and when the other one had left."""
    return (float(re.search(rf"{word} ([\d.]+)", printed)[1]) for word in ("saved", "left"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parallel")
    write_releases(folder)
    return folder


def weights(model):
    return {k: v for k, v in model.sampler.generator.state_dict().items() if v.is_floating_point()}


@pytest.mark.slow
def test_two_processes_learn_what_one_does(folder):
    done = torchrun(folder, str(TESTS / "training" / "parallel_fits.py"), str(folder), "two")
    assert done.returncode == 0, done.stderr
    for loss, alone in fits(folder):
        together = load(folder / f"{loss}.two")
        np.testing.assert_allclose(alone.history["loss"], together.history["loss"], rtol=1e-3)
        ours, theirs = weights(alone), weights(together)
        assert ours.keys() == theirs.keys()
        for name in ours:
            torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-4)
    assert set(LOSSES) == {path.stem for path in folder.glob("*.two")}
    saved, left = ends(done.stdout)
    assert saved < left  # who is done waits for who still saves


FAILS = """
from training.parallel_fits import say_when_left
import torch
from privot.training.loop import join
assert join(torch.device("cpu")).any(True)
say_when_left()
"""


@pytest.mark.slow
def test_who_ends_in_the_middle_of_work_waits_for_nobody(tmp_path):
    """The others are in a step that would never meet it."""
    (tmp_path / "fails.py").write_text(FAILS)
    done = torchrun(tmp_path, "fails.py")
    assert done.returncode == 0, done.stderr
    saved, left = ends(done.stdout)
    assert left < saved


FIT = ["-m", "privot", "fit", "split.parquet", "-o", "model", "--batch-size", "60", "--seed", "5"]
FIT += ["--estimator", "generator"]


@pytest.mark.slow
def test_a_checkpoint_of_one_process_is_continued_by_two(folder):
    """Begun alone, stopped in the middle, ended by torchrun: as if nothing had happened."""
    from privot import FitSettings, Release, fit

    settings = FitSettings("generator", steps=80, batch_size=60, seed=5)
    release = Release.load(folder / "split.parquet")
    whole = fit(release, settings)

    def stop(step, steps, loss):
        if step == 40:
            os.kill(os.getpid(), 2)

    with pytest.raises(Interrupted):
        fit(release, settings, checkpoint=folder / "model.checkpoint", progress=stop)
    done = torchrun(folder, *FIT, "--steps", "80", "--resume")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("learned from") == 1
    assert not (folder / "model.checkpoint").exists()
    together = load(folder / "model")
    assert together.made_with["num_reports"] == 900
    np.testing.assert_allclose(whole.history["loss"], together.history["loss"], rtol=5e-3)
    for name, ours in weights(whole).items():
        torch.testing.assert_close(ours, weights(together)[name], rtol=1e-2, atol=2e-3)


def test_rows_of_a_problem_have_the_gradient_of_the_whole():
    costs = torch.rand(6, 8, dtype=torch.float64, requires_grad=True)
    solver = SinkhornSolver(1e-9, 10_000)
    value, _ = entropic_cost(costs, solver=solver)
    (whole,) = torch.autograd.grad(value, costs)
    for first in (0, 3):
        rows = costs[first : first + 3].detach().requires_grad_()
        value_of_rows, _ = entropic_cost_of_rows(rows, first, lambda own: costs.detach(), solver)
        (part,) = torch.autograd.grad(value_of_rows, rows)
        assert torch.equal(value_of_rows, value)
        torch.testing.assert_close(part, whole[first : first + 3])


def test_shares_are_equal_and_cover_all():
    assert [Group(rank, 3).share(12) for rank in range(3)] == [
        slice(0, 4), slice(4, 8), slice(8, 12),
    ]  # fmt: skip
    with pytest.raises(PrivotError, match="batch_size 13 cannot be shared by 3"):
        Group(0, 3).share(13)


def test_alone_nothing_is_exchanged():
    rows = torch.ones(3, 2, requires_grad=True)
    assert ALONE.gather_with_gradient(rows) is rows
    assert ALONE.total(rows) is rows
    assert ALONE.any(True)
    assert not ALONE.any(False)


def test_latent_classes_are_counted_by_one_process(folder, monkeypatch):
    from privot import Release, fit

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(PrivotError, match="without torchrun"):
        fit(Release.load(folder / "joint.parquet"))


@pytest.mark.parametrize(("num_entries", "inside"), [(2**20, 1), (2**20 + 1, 3)])
def test_small_steps_are_one_threads_work(num_entries, inside):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(ZeroDivisionError), threads_for(num_entries):
            assert torch.get_num_threads() == inside
            raise ZeroDivisionError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_products_are_short_inside_alone():
    before = torch.get_float32_matmul_precision()
    with product_precision("medium"):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before
