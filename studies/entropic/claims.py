"""The papers' claims about images and curves, in their own words, each judged by measured rows.

A claim is a quotation with its place, what was found here, and votes: one a judge (Fréchet distances of
two classifiers' features and of pixels, coverage, the papers' W₂), a seed and a setting. The verdict
follows from the votes alone: change a row, and it changes.
"""

from __future__ import annotations

from studies.common.rows import Row, in_order, select
from studies.entropic.verdicts import JUDGES, Claim, Votes, better, compare, extent, known, told


def curve_claims(rows: list[Row]) -> list[Claim]:
    """Figures 1 and 2: entropic recovers the domain, unregularized learns the noise."""
    ratios = {
        kind: [r["w2"]["entropic"] / r["w2"]["floor"] for r in select(rows, mechanism=kind)]
        for kind in ("laplace", "gaussian")
    }
    shares = [row["w2"]["unregularized"] / row["w2"]["released"] for row in rows]
    found = ", ".join(f"{extent(v, '.1f')} ({k})" for k, v in ratios.items() if v)
    steps = min(row["settings"]["steps"] for row in rows)
    return [
        Claim(
            "for both the Laplace and Gaussian mechanisms entropic regularization allows to recover the "
            "original domain of the data",
            "2024, IV-A, Figures 1, 2 (a)",
            f"W₂ over the floor: {found}; recovered is taken as below 4",
            [ratio < 4 for values in ratios.values() for ratio in values],
            steps,
        ),
        Claim(
            "Without regularization (column (c)), the model generates the privatized distribution and "
            "fails to recover the original domain",
            "2024, IV-A, Figure 1 (a)",
            f"its outputs are {extent(shares, '.2f')} as far from the clean curve as the reports are",
            [share > 0.6 for share in shares],
            steps,
        ),
    ]


def denoising_claims(rows: list[Row]) -> list[Claim]:
    """Figure 3: denoisers fail on the images from which entropic transport learns digits."""
    claims = []
    for row in rows:
        found = row["results"]
        label = f"{row['noise']['kind'].capitalize()}, ε = {row['epsilon']:.3g}"
        read = {k: found[k]["accuracy"] for k in ("released", "wavelet", "blind_spot")}
        shown = ", ".join(f"{100 * v:.0f} % ({k.replace('_', ' ')})" for k, v in read.items())
        claims += [
            Claim(
                "the wavelet transform can not be used to recover the images … noise2void … also failed "
                "to reconstruct the images",
                f"2024, IV-B, Figure 3 (b); {label}",
                f"read by a clean-trained classifier: {shown}; by logistic regression on labeled "
                f"*reports* {100 * row['learnable']:.0f} %",
                [read["wavelet"] < 0.5, read["blind_spot"] < 0.5],
            ),
            Claim(
                "[the] -Wasserstein loss (without entropic regularization) … fails to learn from "
                "privatized data",
                f"2024, IV-B, Figure 3 (b); {label}",
                told(found, ("start", "unregularized")),
                compare(found["start"], found["unregularized"]),
                found["unregularized"]["steps"],
            ),
            Claim(
                "the results do suggest that the model has learned to generate new images of digits",
                f"2024, IV-B, Figure 3 (b); {label}",
                told(found, ("start", "unregularized", "entropic", "self_corrected")),
                compare(found["entropic"], found["start"])
                + compare(found["entropic"], found["unregularized"]),
                found["entropic"]["steps"],
            ),
        ]
    return claims


def sweep_claims(rows: list[Row]) -> list[Claim]:
    """Figure 6: entropic is lowest in W₂ at every σ, and grows least."""
    return [claim for row in rows for claim in _sweep_claims(row)]


def _sweep_claims(row: Row) -> list[Claim]:
    losses = ("entropic", "unregularized", "sinkhorn_divergence")
    lowest: Votes = []
    flattest: Votes = []
    stddevs = sorted(in_order(row["points"], "stddev"))
    value = {(p["loss"], p["stddev"]): p for p in row["points"]}
    for name in ("w2", *known(row["points"][0])):
        sign = -JUDGES.get(name, -1)
        lowest += [
            min(losses, key=lambda x: sign * value[x, s][name]) == "entropic" for s in stddevs
        ]
        growth = {
            x: sign * (value[x, stddevs[-1]][name] - value[x, stddevs[0]][name]) for x in losses
        }
        flattest.append(min(losses, key=growth.__getitem__) == "entropic")
    steps = min(p["steps"] for p in row["points"] if p["loss"] in losses)
    shrunk = _listed(select(row["points"], loss="entropic"), "w2", ".1f")
    return [
        Claim(
            "the Wasserstein distance between the generated and the target distribution is smallest for "
            "the the entropy-regularized 2-Wasserstein GAN",
            "2024, IV-C, Figure 6 (c)",
            f"W₂ {shrunk} as σ grows, but the *mean image* alone scores "
            f"{row['reference']['mean_image']:.1f} and fresh clean digits {row['floor']['w2']:.1f}: "
            "W₂ of samples rewards shrinking, and other judges differ",
            lowest,
            steps,
        ),
        Claim(
            "the distance grows with the noise scale for all three of the metrics we considered, "
            "however, the slope of our method is the smallest",
            "2024, IV-C, Figure 6 (c)",
            "growth from the least to the largest σ, by every judge",
            flattest,
            steps,
        ),
    ]


def size_claims(rows: list[Row]) -> list[Claim]:
    """Figure 7: W₂ falls with n, like n^(−1/2); no overfitting."""
    return [claim for row in rows for claim in _size_claims(row)]


def _size_claims(row: Row) -> list[Claim]:
    points = select(row["points"], loss="entropic")
    first, last = points[0], points[-1]
    steps = min(p["steps"] for p in points)
    close: Votes = [
        abs(p["w2"] - p["w2_train"]) < 0.05 * p["w2"] if "w2_train" in p else None for p in points
    ]
    # What a report is likelier by, in nats, under the model of the reports it was learned from.
    apart = [p["excess_test"] - p["excess_train"] for p in points]
    trained = [p for p in points if "w2_train" in p]
    gaps = ", ".join(f"{gap:.2f}" for gap in apart)
    return [
        Claim(
            "The distance is decreasing … for both train and test curves",
            "2024, IV-D, Figure 7 (d)",
            f"n = {first['num_people']:,} to {last['num_people']:,}: W₂ {first['w2']:.2f} to "
            f"{last['w2']:.2f}, Fréchet {first['frechet']:.0f} to {last['frechet']:.0f}",
            [better(last, first, name) for name in ("w2", *known(first))],
            steps,
        ),
        Claim(
            "expected by theorem III.3 to be proportional to [n^(−1/2)]",
            "2024, IV-D, Figure 7 (d)",
            "the theorem bounds an excess, not W₂, which has a floor here of "
            f"{row['floor']['w2']:.1f}; the excess between batches falls below the truth's "
            f"({_listed(points, 'excess_test', '.2f')} nats); between laws it falls like 1/n "
            "([theorems](theorems.md))",
            [None],
        ),
        Claim(
            "The closeness of the train and test curves also shows no signs of overfitting",
            "2024, IV-D, Figure 7 (d)",
            f"W₂ to training images {_listed(trained, 'w2_train', '.2f') or 'not measured'}, to "
            f"held-out ones {_listed(points, 'w2', '.2f')}, but held-out less training excess of "
            f"reports: {gaps} nats, where close is taken as below 1, with these gaps in view",
            close + [gap < 1.0 for gap in apart],
            steps,
        ),
    ]


def _listed(points: list[Row], name: str, digits: str) -> str:
    return ", ".join(f"{point[name]:{digits}}" for point in points)


def privacy_claims(rows: list[Row]) -> list[Claim]:
    """Figures 10, 13, 14: higher privacy, and what its ε is."""
    claims = []
    for row in select(rows, dataset="mnist"):
        points = select(row["points"], loss="entropic")
        ratios = [p["epsilon"] / p["claimed_epsilon"] for p in points]
        stated = f"{points[0]['claimed_epsilon']:g} to {points[-1]['claimed_epsilon']:g}"
        kind = row["kind"].capitalize()
        by_loss = [
            {p["loss"]: p for p in select(row["points"], claimed_epsilon=point["claimed_epsilon"])}
            for point in points
        ]
        beside = [name for name in ("start", "unregularized") if name in by_loss[0]]
        scores = (
            f"ε = {found['entropic']['epsilon']:.1f}: {told(found, (*beside, 'entropic'))}"
            for found in (by_loss[0], by_loss[-1])
        )
        claims += [
            Claim(
                f"{kind} mechanism achieving [ε]-LDP, ε from {stated}",
                "2023, captions of Figures 3, 4, 9, 10 (e)",
                f"the diameter makes it {points[0]['epsilon']:.1f} to {points[-1]['epsilon']:.1f}, "
                f"{extent(ratios, '.2f')} times as large",
                [ratio <= 1 for ratio in ratios],
            ),
            Claim(
                "The results indicate the effectiveness of our model at higher privacy regimes",
                f"2024, IV-E, Figure 10 (e); {kind}",
                "; ".join(scores),
                [
                    vote
                    for found in by_loss
                    for name in beside
                    for vote in compare(found["entropic"], found[name])
                ],
                min(
                    p["steps"] for p in row["points"] if p["loss"] in ("entropic", "unregularized")
                ),
            ),
        ]
    return claims


def noisy_claims(rows: list[Row]) -> list[Claim]:
    """Figures 11 and 12: entropic 1-WGAN against noisy 1-WGAN."""
    claims = []
    for row in rows:
        found = row["results"]
        claims.append(
            Claim(
                "the images generated by the entropic Wasserstein GAN still look like clothing items, "
                "while the images generated by the unregularized Wasserstein GAN with noise added to "
                "the generator look like noise",
                f"2024, IV-F, Figures 11, 12 (f); {row['dataset'].replace('_', '-')}",
                told(found, ("noisy_wasserstein", "entropic", "self_corrected"))
                + f" (ε = {row['epsilon']:.4g})",
                compare(found["entropic"], found["noisy_wasserstein"]),
                found["entropic"]["steps"],
            )
        )
    return claims
