r"""Noise of the paper's digits setting, by every accountant: what the results page computes on the spot.

d = 784, k = 1000, N = 60 000, B = 100, 100 epochs, records of norm ½, ε = 10, δ = 1e-5 (Rakotomamonjy,
Ralaivola 2021, table 5, where σ = 2.94 and 0.84 stand).
"""

from __future__ import annotations

from dataclasses import replace

from privot.privacy.slicing import Method, SlicedAccounting, published_stddev
from studies.common.pages import table

EPSILON, DELTA, STEPS = 10.0, 1e-5, 60_000
SETTING = SlicedAccounting(
    dim=784, num_projections=1000, records=60_000, batch_size=100, radius=0.5
)
METHODS: tuple[Method, ...] = ("rdp", "pld")
# Noise that the paper prints.
PUBLISHED_STDDEV = {"bernstein": 2.94, "clt": 0.84}
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
    for name, title in (
        ("bernstein", "Bernstein's inequality"),
        ("clt", "normal approximation (no bound)"),
    ):
        printed = PUBLISHED_STDDEV[name]
        anew = published_stddev(SETTING, name, EPSILON, DELTA, STEPS)  # type: ignore[arg-type]  # a bound's name
        honest = (SETTING.epsilon(printed, STEPS, DELTA, m) for m in METHODS)
        body.append([title, "10", f"{printed:g}", f"{anew:.3f}", *(f"{e:.3g}" for e in honest)])
    head = ("as published", "ε claimed", "σ printed", "its recipe worked out anew")
    return table((*head, "honest ε of the printed σ, Rényi", "privacy-loss distribution"), body)
