"""Central synthesizers of dpmm: another trust model, in which **a curator sees every record**.

AIM, MST and PrivBayes measure noisy marginals of the records themselves, which their chosen curator
holds; ε bounds what the synthetic records tell of one person, and δ the chance that it does not. In
local reports nobody is trusted, and ε bounds what anybody ever sees. Their neighbors differ by a record
that is added or removed (a count changes by 1), a weaker promise than that of a replaced record.

AIM as its paper runs it fits its graphical model of up to 80 MB anew after each of up to 160
measurements, by 1 000 steps of mirror descent from the last model, whose cost grows with the model:
.13 s a step at 10 MB. "AIM, 100 steps" takes 100 of them, and 1 000 for the last model, from nothing;
"…, 10 MB" bounds the model as well. Measurements, noise and workload (all pairs) are the same.

dpmm pins versions that this project does not have, so it lives in an environment of its own, whose
interpreter runs this file: `python central.py METHOD EPSILON DELTA CODES SIZES OUT`.

References:
    McKenna, Mullins, Sheldon, Miklau, *AIM: an adaptive and iterative mechanism for differentially
    private synthetic data* (2022); McKenna, Miklau, Sheldon, *Winning the NIST contest: a scalable and
    general approach to differentially private synthetic data* (2021); Zhang et al., *PrivBayes: private
    data release via Bayesian networks* (2017).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

# Where a method is, and its settings; AIM's own are 1 000 steps and 80 MB.
MODELS: dict[str, tuple[str, dict[str, int]]] = {
    "MST": ("mst.MSTGM", {}),
    "AIM": ("aim.AIMGM", {}),
    "AIM, 100 steps": ("aim.AIMGM", {"n_iters": 100}),
    "AIM, 100 steps, 10 MB": ("aim.AIMGM", {"n_iters": 100, "max_model_size": 10}),
    "PrivBayes": ("priv_bayes.PrivBayesGM", {}),
}
_LAST_STEPS = 1000


def installed(python: Path) -> bool:
    """Whether the interpreter is there, and has dpmm."""
    if not python.is_file():
        return False
    done = subprocess.run([python, "-c", "import dpmm"], capture_output=True, check=False)
    return done.returncode == 0


def central(
    python: Path, method: str, codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float
) -> np.ndarray:
    """Synthetic codes, as many rows as `codes`, by another interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        given, listed, made = (
            Path(folder) / name for name in ("codes.npy", "sizes.npy", "made.npy")
        )
        np.save(given, codes)
        np.save(listed, np.array(sizes))
        words = [__file__, method, str(epsilon), str(delta), str(given), str(listed), str(made)]
        subprocess.run([str(python), *words], check=True, stdout=subprocess.DEVNULL)
        drawn: np.ndarray = np.load(made)
    return drawn


def main(method: str, epsilon: str, delta: str, given: str, listed: str, made: str) -> None:
    """What the other interpreter does."""
    codes, sizes = np.load(given), np.load(listed).tolist()
    frame = import_module("pandas").DataFrame({f"c{i}": codes[:, i] for i in range(len(sizes))})
    where, settings = MODELS[method]
    module, _, name = where.partition(".")
    kind = getattr(import_module(f"dpmm.models.{module}"), name)
    model = kind(epsilon=float(epsilon), delta=float(delta), n_jobs=1, **settings)
    if "n_iters" in settings:
        measure = model.generator._fit

        def measure_quickly(*args: Any, **kwargs: Any) -> Any:
            measured = measure(*args, **kwargs)
            model.generator.n_iters = _LAST_STEPS
            return measured

        model.generator._fit = measure_quickly
    model.set_random_state(np.random.RandomState(0))
    model.set_domain({f"c{i}": size for i, size in enumerate(sizes)})
    model.check_fit(frame)
    model.fit(frame)
    drawn = model.generate(n_records=len(codes))
    np.save(made, drawn[list(frame)].to_numpy(np.int64))


if __name__ == "__main__":
    main(*sys.argv[1:])
