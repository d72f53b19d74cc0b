"""The papers' claims about images and curves, each judged by measured rows.

A claim is a sentence of the papers, what was found here, and a verdict that follows from the numbers by
the rule written beside it: change a row, and the verdict changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studies.common.pages import table
from studies.common.rows import Row

CONFIRMED, CORRECTED = "confirmed", "corrected"
_LEARNED = 0.1


@dataclass(frozen=True)
class Claim:
    """A sentence, what was found, and whether the numbers bear it out."""

    sentence: str
    found: str
    holds: bool

    @property
    def verdict(self) -> str:
        """One word."""
        return CONFIRMED if self.holds else CORRECTED


def claims_table(claims: Sequence[Claim]) -> str:
    """How many hold, and each beside what was found."""
    rows = [
        (claim.sentence, claim.found, claim.verdict if claim.holds else f"**{claim.verdict}**")
        for claim in claims
    ]
    confirmed = sum(claim.holds for claim in claims)
    return (
        f"{confirmed} of {len(claims)} are confirmed as they stand; letters refer to the sections "
        "below.\n\n" + table(("claim", "found here", "verdict"), rows)
    )


def curve_claims(rows: list[Row]) -> list[Claim]:
    """Figures 1 and 2: entropic recovers the domain, unregularized learns the noise."""
    laplace = [row for row in rows if row["mechanism"] == "laplace"]
    gaussian = [row for row in rows if row["mechanism"] == "gaussian"]
    claims = []
    for kind, chosen in (("Laplace", laplace), ("Gaussian", gaussian)):
        if not chosen:
            continue
        ratios = [row["w2"]["entropic"] / row["w2"]["floor"] for row in chosen]
        claims.append(
            Claim(
                f"{kind} noise, ε = 5: entropic transport recovers the curve (a).",
                f"W₂ {_range(ratios, '.1f')} times the floor, {len(chosen)} curves; "
                "recovered is: below 4 times, all",
                max(ratios) < 4,
            )
        )
    shares = [row["w2"]["unregularized"] / row["w2"]["released"] for row in rows]
    claims.append(
        Claim(
            "Without regularization the privatized distribution is learned (a).",
            f"its outputs are {_range(shares, '.2f')} as far from the clean curve as the reports are",
            min(shares) > 0.6,
        )
    )
    return claims


def denoising_claims(rows: list[Row]) -> list[Claim]:
    """Figure 3: denoisers fail on the images from which entropic transport learns digits."""
    claims = []
    for row in rows:
        found, floor = row["results"], row["floor"]["frechet"]
        best = max(found["wavelet"]["accuracy"], found["blind_spot"]["accuracy"])
        label = f"{row['noise']['kind'].capitalize()}, ε = {row['epsilon']:.3g}"
        claims.append(
            Claim(
                f"{label}: denoising cannot recover the images (b).",
                f"clean-trained classifier reads {100 * found['released']['accuracy']:.0f} % of the "
                f"released, {100 * found['wavelet']['accuracy']:.0f} % of the wavelet-denoised, "
                f"{100 * found['blind_spot']['accuracy']:.0f} % of the blind-spot-denoised images; "
                f"trained *on labeled reports*, logistic regression reads "
                f"{100 * row['learnable']:.0f} %",
                best < 0.5,
            )
        )
        entropic, corrected = (found[name]["frechet"] for name in ("entropic", "self_corrected"))
        others = [
            found[name]["frechet"]
            for name in ("wavelet", "blind_spot", "unregularized", "denoised")
        ]
        claims.append(
            Claim(
                f"{label}: entropic transport learns digits from the same images (b).",
                f"Fréchet {entropic:.0f} plain, {corrected:.0f} self-corrected (floor {floor:.1f}); "
                f"the best other reading {min(others):.0f}{_from_start(found)}",
                entropic < min(others),
            )
        )
    return claims


def _from_start(found: dict[str, Any]) -> str:
    """What the network drew before any loss was minimized, if that was measured."""
    return f", the start of all fits {found['start']['frechet']:.0f}" if "start" in found else ""


def sweep_claims(row: Row) -> list[Claim]:
    """Figure 6: entropic is lowest in W₂ at every σ, and grows least."""
    value = {(p["loss"], p["stddev"]): p for p in row["points"]}
    losses = ("entropic", "unregularized", "sinkhorn_divergence")
    stddevs = sorted({p["stddev"] for p in row["points"]})
    low, high = stddevs[0], stddevs[-1]
    lowest = all(
        value["entropic", s]["w2"] == min(value[name, s]["w2"] for name in losses) for s in stddevs
    )
    growth = {
        name: value[name, high]["w2"] - value[name, low]["w2"]
        for name in (*losses, "self_corrected")
    }
    mean, floor = row["reference"]["mean_image"], row["floor"]["w2"]
    below = [s for s in stddevs if value["entropic", s]["w2"] < floor]
    gain = [
        value["entropic", s]["frechet"] / value["self_corrected", s]["frechet"] for s in stddevs
    ]
    return [
        Claim(
            "W₂ to the clean digits: entropic below W₂ and Sinkhorn divergence at every σ (c).",
            ", ".join(
                f"σ = {s:g}: {value['entropic', s]['w2']:.1f} against "
                f"{value['unregularized', s]['w2']:.1f} and "
                f"{value['sinkhorn_divergence', s]['w2']:.1f}"
                for s in stddevs
            ),
            lowest,
        ),
        Claim(
            "… and it grows least with σ (c).",
            f"from σ = {low:g} to {high:g} by {growth['entropic']:.1f}, against "
            f"{growth['unregularized']:.1f} (W₂) and {growth['sinkhorn_divergence']:.1f} "
            f"(Sinkhorn divergence); self-corrected {growth['self_corrected']:.1f}",
            growth["entropic"] == min(growth[name] for name in losses),
        ),
        Claim(
            "W₂ to the clean data says how well the digits were learned (c, d).",
            f"the *mean image* alone scores {mean:.1f}, fresh clean digits {floor:.1f}, plain entropic "
            f"transport less than these at {len(below)} of {len(stddevs)} σ while its Fréchet distance "
            f"is {_range(gain, '.1f')} times the self-corrected one's: W₂ of samples rewards shrinking",
            not below,
        ),
    ]


def size_claims(row: Row) -> list[Claim]:
    """Figure 7: W₂ falls with n, like n^(−1/2); no overfitting."""
    points = [p for p in row["points"] if p["loss"] == "entropic"]
    first, last = points[0], points[-1]
    gaps = [p["excess_test"] - p["excess_train"] for p in points]
    tests = [p["excess_test"] for p in points]
    return [
        Claim(
            "W₂ to the clean digits falls with n, proportionally to n^(−1/2) (d).",
            f"plain entropic, n = {first['num_people']:,} to {last['num_people']:,}: W₂ "
            f"{first['w2']:.2f} to {last['w2']:.2f}, a factor "
            f"{first['w2'] / last['w2']:.2f} where n^(−1/2) says "
            f"{(last['num_people'] / first['num_people']) ** 0.5:.1f} (floor {row['floor']['w2']:.2f})",
            first["w2"] / last["w2"] > 0.5 * (last["num_people"] / first["num_people"]) ** 0.5,
        ),
        Claim(
            "The excess entropic cost falls with n: what the theorem is about (d).",
            f"held out, in nats between batches of 1000: {', '.join(f'{t:.2f}' for t in tests)}",
            tests[-1] < tests[0],
        ),
        Claim(
            "No sign of overfitting (d).",
            f"held-out less training excess, in nats: {', '.join(f'{g:.2f}' for g in gaps)}",
            max(gaps) < 0.25 * max(abs(t) for t in tests),
        ),
    ]


def privacy_claims(rows: list[Row]) -> list[Claim]:
    """Figures 10, 13, 14: higher privacy, and what its ε is."""
    claims = []
    for row in rows:
        points = [p for p in row["points"] if p["loss"] == "entropic"]
        ratios = [p["epsilon"] / p["claimed_epsilon"] for p in points]
        title = f"{row['dataset'].replace('_', '-')}, {row['kind'].capitalize()}"
        last = points[-1]
        corrected = next(
            p for p in row["points"]
            if p["loss"] == "self_corrected" and p["claimed_epsilon"] == last["claimed_epsilon"]
        )  # fmt: skip
        claims.append(
            Claim(
                f"{title}: the guarantee is the ε stated ({points[0]['claimed_epsilon']:g} to "
                f"{last['claimed_epsilon']:g}) (e, g).",
                f"the diameter makes it {points[0]['epsilon']:.1f} to {last['epsilon']:.1f}, "
                f"{_range(ratios, '.2f')} times as large",
                max(ratios) <= 1,
            )
        )
        claims.append(
            Claim(
                f"{title}: the model still learns at the smallest ε (e, g).",
                f"at ε = {last['epsilon']:.1f} Fréchet {last['frechet']:.0f} plain and "
                f"{corrected['frechet']:.0f} self-corrected (at ε = {points[0]['epsilon']:.1f} "
                f"{points[0]['frechet']:.0f} plain), coverage {last['coverage']:.2f} and "
                f"{corrected['coverage']:.2f}; learned is: coverage of at least {_LEARNED:.2f}",
                max(last["coverage"], corrected["coverage"]) >= _LEARNED,
            )
        )
    return claims


def noisy_claims(rows: list[Row]) -> list[Claim]:
    """Figures 11 and 12: entropic 1-WGAN against noisy 1-WGAN."""
    claims = []
    for row in rows:
        found = {name: scores["frechet"] for name, scores in row["results"].items()}
        claims.append(
            Claim(
                f"{row['dataset'].replace('_', '-')}: entropic 1-Wasserstein beats the noisy one (f).",
                f"Fréchet {found['entropic']:.0f} against {found['noisy_wasserstein']:.0f}; "
                f"self-corrected {found['self_corrected']:.0f} (ε = {row['epsilon']:.4g})",
                found["entropic"] < found["noisy_wasserstein"],
            )
        )
    return claims


def _range(values: list[float], digits: str) -> str:
    low, high = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return low if low == high else f"{low} to {high}"
