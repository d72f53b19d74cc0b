"""The papers' theorems and corollaries in their own words, judged by laws that are computed.

Their rows are those of `studies.entropic.theorems`, and for curves of known support those of
`studies.entropic.manifolds`. What nothing here tests stands with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from privot.privacy.shuffling import shuffled_epsilon
from studies.common.rows import Row, Rows, in_order, select
from studies.common.verdicts import Claim, Estimate, extent
from studies.entropic.theorems import groups
from studies.entropic.theory import sub_gaussian_variance
from studies.entropic.wording import place

_PAGE = "[theorems](theorems.md)"
_FEW = 4.0  # as for curves: recovered is taken as below this multiple of the floor
_ABOUT = 0.25  # an exponent is about 1 if it is that near
_NEAR = 0.1  # W₁ on [0, 1]: recovered is taken as below
PEOPLE, DELTA = 400_000, 1e-6
# The half circle's diameter over its radius, both in ℓ1: what is called ε is so many times as large.
_STRETCH = (1 + math.sqrt(2)) / math.sqrt(2)


def theorem_claims(row: Row) -> list[Claim]:
    """All of them, of a run of `studies.entropic.theorems`."""
    return [
        *_recovery_claims(row),
        *_rate_claims(row),
        *_noise_claims(row),
        *_slips(row),
        *_shuffling_claims(),
    ]


def _recovery_claims(row: Row) -> Iterable[Claim]:
    matched = select(row["distortions"], factor=1.0)[0]["w1"]
    others = [r["w1"] for r in row["distortions"] if r["factor"] != 1.0]
    found = (
        f"W₁ of what is reconstructed to the clean law: {matched:.4f} at the matched weight, "
        f"{min(others):.4f} to {max(others):.4f} at others"
    )
    yield Claim(
        "The theorem indicates that the optimal solution to the GAN optimization problem (19) generates "
        "the target distribution",
        f"2024, Theorem III.1; Gaussian · {_PAGE}",
        f"{found}; generated is taken as below a tenth of the largest",
        [matched < 0.1 * max(others)],
    )
    yield Claim(
        "this conclusion holds only if the desired compression rate matches the distribution of the "
        "Gaussian component",
        f"2024, I-A · {_PAGE}",
        found,
        [matched < other for other in others],
    )
    shares = [r["excess"] / r["bound"] for r in row["misfits"]]
    yield Claim(
        "if [ε] is the approximation error in [p]-Wasserstein distance of the class …, then [the law] "
        "is [ε]-close to the target distribution in smoothed KL-divergence",
        f"2024, Lemma 1; Laplace, ε = 5 · {_PAGE}",
        "of classes without the clean law the least excess, which is no less than that divergence, over "
        f"the bound with its factor 1/pσ^p: {extent(shares, '.2g')}",
        [r["excess"] <= r["bound"] for r in row["misfits"]],
    )


def _rate_claims(row: Row) -> Iterable[Claim]:
    corollaries = {
        "Laplace": "Corollary 4",
        "Gaussian": "Theorem III.3",
        "randomized": "Corollary 3",
    }
    for first, corollary in corollaries.items():
        found = {t: points for t, points in groups(row).items() if t.startswith(first)}
        excess = {t: Estimate.exponent(points, "people", "excess") for t, points in found.items()}
        yield Claim(
            "The theorems show that the excess risk diminishes at the parametric rate (of order "
            "[n^(−1/2)])",
            f"2024, III, {corollary} · {_PAGE}",
            f"exponent of the excess over n, where at most −½ is taken as that rate: {_listed(excess)}; "
            "constants are lost or not given",
            [slope.at_most(-0.5) for slope in excess.values()],
        )
    every = {
        name: {t: Estimate.exponent(points, "people", name) for t, points in groups(row).items()}
        for name in ("divergence", "w1")
    }
    yield Claim(
        "the parametric convergence of the smoothed KL-divergence",
        f"2024, III, after Corollary 5; 2023, Corollary 3 · {_PAGE}",
        f"exponent over n: {_listed(every['divergence'])}",
        [slope.at_most(-0.5) for slope in every["divergence"].values()],
    )
    yield Claim(
        "The generalization error and the distance between the generated and target distributions is "
        "thus parametric (of order [1/√n])",
        f"2023, 3, after Theorem 2; the distance, on a line · {_PAGE}",
        f"exponent of W₁ over n: {_listed(every['w1'])}; the theorem bounds no such distance",
        [slope.at_most(-0.5) for slope in every["w1"].values()],
    )
    few, many = (
        [r["excess"] for points in groups(row).values() for r in (points[at],)] for at in (0, -1)
    )
    yield Claim(
        "convergence for larger [σ], corresponding to higher privacy, can be achieved by increasing the "
        "number of samples",
        f"2024, III, after Theorem III.3 · {_PAGE}",
        "under each noise the excess of the most people is "
        f"{extent([b / a for a, b in zip(few, many, strict=True)], '.2g')} of that of the fewest",
        [b < a for a, b in zip(few, many, strict=True)],
    )
    low, high = (select(row["rates"], epsilon=epsilon) for epsilon in (1.0, 5.0))
    growth = [b["excess"] / a["excess"] for a, b in zip(low, high, strict=True)]
    yield Claim(
        "the dependence of the excess risk on the privacy budget can thus be improved",
        f"2024, IV-E · {_PAGE}",
        f"from ε = 1 to 5 the excess in nats grows {extent(growth, '.2g')} times, a bound with e^ε "
        f"{high[0]['bound'] / low[0]['bound']:.0f} times",
        [b < high[0]["bound"] / low[0]["bound"] for b in growth],
    )


def _noise_claims(row: Row) -> Iterable[Claim]:
    threshold = sub_gaussian_variance()
    rows = [
        r | {"variance": r["stddev"] ** 2}
        for r in select(row["noises"], noise="gaussian")
        if r["stddev"] ** 2 > threshold
    ]
    slopes = {
        f"{count:,} people": Estimate.exponent(select(rows, people=count), "variance", "risk")
        for count in in_order(rows, "people")
    }
    yield Claim(
        "the excess risk is approximately linear in [σ²], the privatization noise scale, beyond a "
        "certain threshold",
        f"2024, III, after Theorem III.3 · {_PAGE}",
        f"exponent of the risk 2σ²e over σ² beyond σ(X)² = {threshold:.2f}: {_listed(slopes)}; about "
        f"linear is taken as within {_ABOUT:g} of 1",
        [_about_one(slope) for slope in slopes.values()],
    )


def _about_one(slope: Estimate) -> bool | None:
    away = abs(slope.value - 1)
    if abs(away - _ABOUT) <= slope.chance:
        return None
    return away < _ABOUT


def _slips(row: Row) -> Iterable[Claim]:
    weights = [r for r in row["weights"] if r["epsilon"] != 1]
    yield Claim(
        "training a GAN with loss [W1,ε/Δ1] is [ε]-LDP, and recovers the target distribution",
        f"2023, Corollary 1; the weight as printed, Δ₁ = 1, ε ≠ 1 · {_PAGE}",
        f"W₁ to the clean law {extent([r['printed_w1'] for r in weights], '.2f')}, by laws of "
        f"{min(r['printed_points'] for r in weights)} to {max(r['printed_points'] for r in weights)} "
        f"points; {extent([r['matched_w1'] for r in weights], '.2g')} at the weight Δ₁/ε, where below "
        f"{_NEAR:g} is taken as recovered",
        [r["printed_w1"] < _NEAR for r in weights],
    )
    for words, below in (("below 1", True), ("at least 1", False)):
        rows = [r for r in row["printed"] if (r["printed"] > r["bound"]) != below]
        yield Claim(
            "(11) ensures that if [ε] is the approximation error in [p]-Wasserstein distance of the "
            "class …, then [the law] is [ε]-close to the target distribution",
            f"2023, Theorem 1 (ii); pσ^p {words} · {_PAGE}",
            "of laws at one point each, one apart, the divergence under noise is "
            f"{extent([r['divergence'] for r in rows], '.2g')}, the bound "
            f"{extent([r['printed'] for r in rows], '.2g')}, with its lost factor 1/pσ^p "
            f"{extent([r['bound'] for r in rows], '.2g')}",
            [r["divergence"] <= r["printed"] for r in rows],
        )


def _shuffling_claims() -> Iterable[Claim]:
    quote = (
        "resulting in a [(ε_c = 0.353, δ_c = 10⁻⁶)] central differential privacy guarantee for the "
        "Laplace mechanism"
    )
    page = "[shuffling](../sharp_edges.md#shuffling)"
    called, honest = (shuffled_epsilon(e, PEOPLE, DELTA) for e in (5.0, 5 * _STRETCH))
    most = math.log(PEOPLE / (16 * math.log(2 / DELTA)))
    yield Claim(
        quote,
        f"2023, 4.2; ε₀ = 5, as called · {page}",
        f"the theorem's closed form is {called.epsilon_closed_form:.3f}, the tightest bound known "
        f"{called.epsilon:.3f}",
        [called.epsilon_closed_form <= 0.353],
    )
    yield Claim(
        quote,
        f"2023, 4.2; ε₀ = {5 * _STRETCH:.2f}, by the diameter · {page}",
        f"the theorem asks for ε₀ ≤ {most:.2f}, and says nothing here; of all mechanisms of that ε₀ "
        f"nothing below {honest.epsilon_lower:.3f} can be proven",
        [most >= 5 * _STRETCH],
    )


def support_claims(rows: Rows) -> list[Claim]:
    """Figures 1 and 2 at 400 000 people and the noise that 2023 calls 5, raw and on the known curve."""
    rows = [r for r in rows if r["setting"]["mechanism"] == "gaussian" and _called_five(r)]
    claims = []
    for name, words in (("raw", "as drawn"), ("projected", "projected to the known curve")):
        ratios = [r[f"w2_{name}"] / r["w2_floor"] for r in rows]
        reports = "released_projected" if name == "projected" else "released"
        of_reports = [r[f"w2_{reports}"] / r["w2_floor"] for r in rows]
        claims.append(
            Claim(
                "for both the Laplace and Gaussian mechanisms entropic regularization allows to recover "
                "the original domain of the data",
                place(
                    "2024, IV-A, Figures 1, 2; Gaussian called 5, ε = 10, 400 000 people, " + words,
                    "a",
                ),
                f"W₂ over the floor: {extent(ratios, '.1f')}, of the reports alike "
                f"{extent(of_reports, '.1f')}; recovered is taken as below {_FEW:g}, and below the "
                "reports'",
                [a < min(_FEW, b) for a, b in zip(ratios, of_reports, strict=True)],
            )
        )
    return claims


def _called_five(row: Row) -> bool:
    return bool(abs(row["epsilon_by_radius"] - 5) < 0.25)


def _listed(slopes: dict[str, Estimate]) -> str:
    return ", ".join(f"{slope} ({title})" for title, slope in slopes.items())


_LAWS = "the laws here live on a line"
UNTESTED = [
    Claim(quote, where, reason, [])
    for quote, where, reason in (
        (
            "the curse of dimensionality is not only removed, but the excess risk scales linearly with "
            "the dimension",
            f"2024, III, after Corollary 4 · {_PAGE}",
            f"{_LAWS}: an exponent of the dimension wants grids of several",
        ),
        (
            "entropic regularization uniquely mitigates both the effects of privatization noise and the "
            "curse of dimensionality",
            f"2024, I · {_PAGE}",
            f"{_LAWS}, and no other loss was fitted to them",
        ),
        (
            "suffers from the curse of dimensionality",
            "2024, IV-F, of the noisy Wasserstein loss",
            "it was fitted to one number of people, in one dimension of images",
        ),
        (
            "not only does it serve to privatize the data, but it also results in superior output "
            "performance",
            "2023, 1",
            "no loss was fitted with this weight to clean images",
        ),
        (
            "In Figures 4 and 5 we provide additional 200 uniformly sampled images from the Entropic "
            "[p]-WGAN",
            "2024, IV-B",
            "pictures without a sentence on what they show, whose ε our copy has lost",
        ),
        (
            "Comparing Wavelet denoising and Entropic p-WGAN",
            "2023, Figure 8; Gaussian called 41, both noises called 1568",
            "no generator was fitted to wavelet-denoised images there; noisier images are judged above",
        ),
        (
            "This can be potentially mitigated by increasing the number of samples",
            "2024, IV-E",
            "there are no more digits of MNIST; at ε = 495 more people help (d), at these ε nobody "
            "tried",
        ),
        (
            "the images for the entropic 1-Wasserstein GAN are still corrupted by noise even given the "
            "very high privacy budget",
            "2024, IV-F",
            "no measure here tells noise in an image from blur",
        ),
    )
]
