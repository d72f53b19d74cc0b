"""Central synthesizers of dpmm: another trust model, in which **a curator sees every record**.

AIM, MST and PrivBayes measure noisy marginals of the records themselves, which their chosen curator
holds; ε bounds what the synthetic records tell of one person, and δ the chance that it does not. In
local reports nobody is trusted, and ε bounds what anybody ever sees.

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

import numpy as np

MODELS = {"MST": "mst.MSTGM", "AIM": "aim.AIMGM", "PrivBayes": "priv_bayes.PrivBayesGM"}


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
    module, _, name = MODELS[method].partition(".")
    kind = getattr(import_module(f"dpmm.models.{module}"), name)
    model = kind(epsilon=float(epsilon), delta=float(delta), n_jobs=1)
    model.set_random_state(np.random.RandomState(0))
    model.set_domain({f"c{i}": size for i, size in enumerate(sizes)})
    model.check_fit(frame)
    model.fit(frame)
    drawn = model.generate(n_records=len(codes))
    np.save(made, drawn[list(frame)].to_numpy(np.int64))


if __name__ == "__main__":
    main(*sys.argv[1:])
