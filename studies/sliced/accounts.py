r"""Noise of the paper's digits setting, by every accountant: what the results page computes on the spot.

d = 784, k = 1000, N = 60 000, B = 100, 100 epochs, records of norm ½, ε = 10, δ = 1e-5 (Rakotomamonjy,
Ralaivola 2021, Table 4, where σ = 2.94 and 0.84 stand among others).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from privot.privacy.slice_accounting import Method, SlicedAccounting
from studies.common.pages import table
from studies.rivals.published_slice_bounds import published_stddev

Bound = Literal["bernstein", "clt"]
EPSILON, DELTA, STEPS = 10.0, 1e-5, 60_000
SETTING = SlicedAccounting(
    dim=784, num_projections=1000, records=60_000, batch_size=100, radius=0.5
)


def _digits(records: int) -> SlicedAccounting:
    return SlicedAccounting(
        dim=784, num_projections=200, records=records, batch_size=128, radius=0.5
    )


METHODS: tuple[Method, ...] = ("rdp", "pld")
# Noise that the paper prints for digits, and its whole Table 4: bound, δ, setting, epochs, printed σ.
PUBLISHED_STDDEV = {"bernstein": 2.94, "clt": 0.84}
_FACES = SlicedAccounting(
    dim=8192, num_projections=2000, records=162_000, batch_size=256, radius=0.5
)
PRINTED: tuple[tuple[str, Bound, float, SlicedAccounting, int, float], ...] = (
    ("USPS → MNIST", "bernstein", 1e-5, _digits(10_000), 100, 4.74),
    ("MNIST → USPS", "bernstein", 1e-5, _digits(7438), 100, 5.34),
    (
        "VisDA", "bernstein", 1e-5,
        SlicedAccounting(dim=100, num_projections=1000, records=55_387, batch_size=128, radius=0.5),
        50, 6.40,
    ),
    (
        "Office-31", "bernstein", 1e-3,
        SlicedAccounting(dim=50, num_projections=100, records=497, batch_size=32, radius=0.5),
        50, 8.05,
    ),
    ("digits, Bernstein's inequality", "bernstein", 1e-5, SETTING, 100, 2.94),
    ("digits, normal approximation (no bound)", "clt", 1e-5, SETTING, 100, 0.84),
    ("faces, Bernstein's inequality", "bernstein", 1e-6, _FACES, 100, 2.392),
    ("faces, normal approximation (no bound)", "clt", 1e-6, _FACES, 100, 0.37),
)  # fmt: skip
_VARIANTS = (
    ("without replacement, `replace_one`", SETTING),
    (
        "padded Poisson, `zero_out`, radius 1",
        replace(SETTING, sampling="padded_poisson", neighboring="zero_out", radius=1.0),
    ),
    ("non-negative records, `replace_one`", replace(SETTING, non_negative=True)),
    ("d = 7840, `replace_one`", replace(SETTING, dim=7840)),
    ("d = 7840, k = 200, `replace_one`", replace(SETTING, dim=7840, num_projections=200)),
)


def published_epsilons() -> dict[str, float]:
    """What the printed noise is worth, by the privacy-loss distribution, if all else were right."""
    return {n: SETTING.epsilon(s, STEPS, DELTA, "pld") for n, s in PUBLISHED_STDDEV.items()}


def accounting_table() -> str:
    """Noise for ε = 10 by setting, and the honest ε of the noise that was printed."""
    body = [
        [name, "10", *(f"{a.calibrate(EPSILON, DELTA, STEPS, m):.3f}" for m in METHODS)]
        for name, a in _VARIANTS
    ]
    body.append(
        [
            "without replacement, `replace_one`",
            "1",
            *(f"{SETTING.calibrate(1.0, DELTA, STEPS, m):.2f}" for m in METHODS),
        ]
    )
    noise = table(("exact accounting", "ε", "σ, Rényi", "σ, privacy-loss distribution"), body)
    return noise + "\n\n" + _published_table()


def _published_table() -> str:
    body = []
    for name, bound, delta, setting, epochs, printed in PRINTED:
        steps = epochs * (setting.records // setting.batch_size)
        anew = published_stddev(setting, bound, EPSILON, delta, steps)
        honest = (setting.epsilon(printed, steps, delta, m) for m in METHODS)
        needed = setting.calibrate(EPSILON, delta, steps, "pld")
        body.append(
            [
                name, f"{delta:g}", f"{printed:g}", f"{anew:.3g}",
                *(f"{e:.3g}" for e in honest), f"{needed:.3g}",
            ]
        )  # fmt: skip
    head = ("as published, for ε = 10", "δ", "σ printed", "its recipe worked out anew")
    worth = ("honest ε of the printed σ, Rényi", "privacy-loss distribution", "σ that ε = 10 needs")
    return table((*head, *worth), body)
