"""The papers' claims about images and curves, in their own words, each judged by measured rows.

A claim is a quotation with its place, what was found here, and votes: one a judge, a seed and a setting.
Where a sentence names its measure, W₂ or the ε of a ball, that measure alone votes; of images else all
judges of `studies.common.verdicts`. The verdict follows from the votes: change a row, and it changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from studies.common.rows import Row, in_order, select
from studies.common.verdicts import Claim, Estimate, better, compare, extent, known, told
from studies.entropic.wording import place

_FEW, _HALF = 4.0, 0.5
_FIGURES = {"laplace": "3, 9", "gaussian": "4, 10"}  # of 2023
_IMAGES = {"w2_train": "training", "w2": "held-out"}


def curve_claims(rows: list[Row]) -> list[Claim]:
    """Figures 1 and 2: entropic recovers the domain, unregularized learns the noise."""
    shares = [row["w2"]["unregularized"] / row["w2"]["released"] for row in rows]
    claims = []
    for kind in in_order(rows, "mechanism"):
        found = select(rows, mechanism=kind)
        ratios = [row["w2"]["entropic"] / row["w2"]["floor"] for row in found]
        claims.append(
            Claim(
                "for both the Laplace and Gaussian mechanisms entropic regularization allows to recover "
                "the original domain of the data",
                place(f"2024, IV-A, Figures 1, 2; {kind.capitalize()}", "a"),
                f"W₂ over the floor: {extent(ratios, '.1f')}; recovered is taken as below {_FEW:g}",
                [ratio < _FEW for ratio in ratios],
                min(row["settings"]["steps"] for row in found),
            )
        )
    without = Claim(
        "Without regularization …, the model generates the privatized distribution and fails to recover "
        "the original domain",
        place("2024, IV-A, Figure 1", "a"),
        f"its outputs are {extent(shares, '.2f')} as far from the clean curve as the reports are, where "
        "above 0.6 is taken as a failure",
        [share > 0.6 for share in shares],
        min(row["settings"]["steps"] for row in rows),
    )
    hidden = [row["w2"]["released"] / row["w2"]["floor"] for row in rows]
    noise = Claim(
        "noise in both cases appears to be large enough to completely obfuscate the data domain",
        place("2024, IV-A, Figure 1", "a"),
        f"the reports' W₂ over the floor: {extent(hidden, '.1f')}; obfuscated is taken as beyond "
        f"{_FEW:g}",
        [ratio > _FEW for ratio in hidden],
    )
    return [*claims, without, noise]


def denoising_claims(rows: list[Row]) -> list[Claim]:
    """Figure 3: denoisers fail on the images from which entropic transport learns digits."""
    # Another network's rows have the same denoisers once more, trained for less.
    of_denoisers = [row for row in rows if not _is_dcgan(row)]
    return [
        *(claim for row in of_denoisers for claim in _denoiser_claims(row)),
        *(claim for row in rows for claim in _learning_claims(row, _start(row, of_denoisers))),
        *(claim for row in of_denoisers for claim in _wavelet_claims(row)),
    ]


def _start(row: Row, rows: list[Row]) -> Row:
    """What a fit has to be better than: the small network before any step, under the same noise.

    Random weights of a DCGAN put out one gray, to which no fit can lose.
    """
    alike = select(rows, noise=row["noise"], seed=row["seed"]) if _is_dcgan(row) else [row]
    found: Row = (alike or [row])[0]["results"]["start"]
    return found


def _is_dcgan(row: Row) -> bool:
    return bool(row["plan"]["architecture"] == "dcgan")


def _at(row: Row) -> str:
    """The noise of a row, as the papers call it where they have it."""
    kind = row["noise"]["kind"].capitalize()
    if row["noise"] == {"kind": "gaussian", "scale": 2.0}:
        return f"a noise of ours: {kind}, ε = {row['epsilon']:.3g}"
    return f"{kind} called {row['claimed_epsilon']:g}, ε = {row['epsilon']:.3g}"


def _denoiser_claims(row: Row) -> Iterable[Claim]:
    found = row["results"]
    quotes = {
        "wavelet": "the wavelet transform can not be used to recover the images",
        "blind_spot": "[noise2void] … also failed to reconstruct the images",
    }
    for name, quote in quotes.items():
        read = found[name]["accuracy"]
        yield Claim(
            quote,
            place(f"2024, IV-B, Figure 3; {_at(row)}", "b"),
            f"a clean-trained classifier reads {100 * read:.0f} % of them, "
            f"{100 * found['released']['accuracy']:.0f} % of those released; half is taken as recovered",
            [read < _HALF],
            found[name].get("steps"),
        )


def _learning_claims(row: Row, start: Row) -> Iterable[Claim]:
    """Of each generator whether it learned: whether it is better than the start."""
    began = "start of the small network" if _is_dcgan(row) else "start"
    found = row["results"] | {began: start}
    sentences = {
        "unregularized": "[the] -Wasserstein loss (without entropic regularization) … fails to learn "
        "from privatized data",
        "denoised": "a Wasserstein-GAN … on the wavelet-denoised images, which also fails to provide "
        "useful samples",
        "entropic": "the results do suggest that the model has learned to generate new images of digits",
    }
    network = "DCGAN from random weights: " if _is_dcgan(row) else ""
    for name, quote in sentences.items():
        figure = "2023, 4.3, Figure 2" if name == "denoised" else "2024, IV-B, Figure 3"
        better_one = (name, began) if name == "entropic" else (began, name)
        yield Claim(
            quote,
            place(f"{figure}; {_at(row)}", "b"),
            network + told(found, (began, name)),
            compare(*(found[each] for each in better_one)),
            found[name]["steps"],
        )


def _wavelet_claims(row: Row) -> Iterable[Claim]:
    """Entropic transport beside the wavelet transform, alone and with a generator."""
    found = row["results"]
    read = found["wavelet"]["accuracy"]
    yield Claim(
        "the entropic p-WGAN generator learned with the privatized samples was able to learn the "
        "distribution far beyond the values of [ε] needed for the wavelet transform reconstruction",
        place(f"2023, 4.3, Figure 2; {_at(row)}", "b"),
        f"{100 * read:.0f} % of the wavelet's images are read, half is taken as reconstructed; "
        + told(found, ("start", "entropic")),
        [read < _HALF, *compare(found["entropic"], found["start"])],
        found["entropic"]["steps"],
    )
    yield Claim(
        "Comparing Wavelet denoising and Entropic p-WGAN",
        place(f"2023, Figure 8, taken to say that the latter is better; {_at(row)}", "b"),
        told(found, ("denoised", "entropic")),
        compare(found["entropic"], found["denoised"]),
        min(found[name]["steps"] for name in ("denoised", "entropic")),
    )


def sweep_claims(rows: list[Row]) -> list[Claim]:
    """Figure 6: entropic is lowest in W₂ at every σ, and grows least."""
    return [claim for row in rows for claim in _sweep_claims(row)]


def _sweep_claims(row: Row) -> list[Claim]:
    losses = ("entropic", "unregularized", "sinkhorn_divergence")
    others = losses[1:]
    stddevs = sorted(in_order(row["points"], "stddev"))
    value = {(p["loss"], p["stddev"]): p for p in row["points"]}
    ours = [(value["entropic", s], value[x, s]) for x in others for s in stddevs]
    ends = {x: (value[x, stddevs[0]], value[x, stddevs[-1]]) for x in losses}
    growth = {x: _growth(*points) for x, points in ends.items()}
    shown = ", ".join(
        f"{first['w2']:.1f} and {last['w2']:.1f} ({x.replace('_', ' ')})"
        for x, (first, last) in ends.items()
    )
    by_others = [better(p, q, name) for p, q in ours for name in known(p) if name != "w2"]
    apart = [q["excess"] - p["excess"] for p, q in ours]
    steps = min(p["steps"] for p in row["points"] if p["loss"] in losses)
    return [
        Claim(
            "the Wasserstein distance between the generated and the target distribution is smallest for "
            "the the entropy-regularized 2-Wasserstein GAN",
            place("2024, IV-C, Figure 6", "c"),
            f"W₂ at the least and the largest σ: {shown}. It rewards shrinking (fresh clean digits "
            f"score {row['floor']['w2']:.1f}, their mean image {row['reference']['mean_image']:.1f}): "
            f"of {len(by_others)} comparisons by other judges {by_others.count(True)} favor the "
            f"entropic loss, {by_others.count(False)} the other one",
            [better(p, q, "w2", 0) for p, q in ours],
            steps,
        ),
        Claim(
            "the distance grows with the noise scale for all three of the metrics we considered, "
            "however, the slope of our method is the smallest",
            place("2024, IV-C, Figure 6", "c"),
            "W₂ grows by "
            + ", ".join(
                f"{found['w2']:.1f} ({x.replace('_', ' ')})" for x, found in growth.items()
            ),
            [better(first, last, "w2", 0) for first, last in ends.values()]
            + [better(growth["entropic"], growth[x], "w2", 0) for x in others],
            steps,
        ),
        Claim(
            "the Sinkhorn divergence and the unregularized Wasserstein distance do not implicitly "
            "minimize this measure",
            place("2024, IV-C, Figure 6", "c"),
            f"from σ to σ, their excess less that of the entropic loss is at least {min(apart):.2f} and "
            f"at most {max(apart):.2f} nats",
            [better(p, q, "excess", 0) for p, q in ours],
            steps,
        ),
    ]


def _growth(first: Row, last: Row) -> Row:
    """How much W₂ grows between two points, and its standard deviation over seeds."""
    spread = math.hypot(*(each.get("w2_std", 0.0) for each in (first, last)))
    return {"w2": last["w2"] - first["w2"], "w2_std": spread}


def size_claims(rows: list[Row]) -> list[Claim]:
    """Figure 7: W₂ falls with n, like n^(−1/2); no overfitting."""
    return [claim for row in rows for claim in _size_claims(row)]


def _size_claims(row: Row) -> list[Claim]:
    points = select(row["points"], loss="entropic")
    trained, held_out = (
        ", ".join(f"{p[name]:.2f}" for p in points if name in p) for name in ("w2_train", "w2")
    )
    steps = min(p["steps"] for p in points)
    slopes = {
        name: Estimate.exponent(points, "num_people", name)
        for name in _IMAGES
        if all(name in p for p in points) and len(points) > 1
    }
    # What a report is likelier by, in nats, under the model of the reports it was learned from.
    apart = [p["excess_test"] - p["excess_train"] for p in points]
    return [
        Claim(
            "The distance is decreasing … for both train and test curves",
            place("2024, IV-D, Figure 7", "d"),
            f"W₂ at n = {points[0]['num_people']:,} to {points[-1]['num_people']:,}, to training images "
            f"{trained or 'not measured'}, to held-out ones {held_out}",
            [
                better(more, fewer, name, 0)
                for name in ("w2_train", "w2")
                for fewer, more in pairwise(p for p in points if name in p)
            ],
            steps,
        ),
        Claim(
            "expected by theorem III.3 to be proportional to [n^(−1/2)]",
            place("2024, IV-D, Figure 7", "d"),
            "exponent of W₂ over n, "
            + ", ".join(
                f"to {_IMAGES[name]} images {slope.value:.3f} ± {slope.chance:.3f}"
                for name, slope in slopes.items()
            )
            + ". The theorem bounds an excess, not W₂, and images have a W₂ to others of their kind",
            [slope.near(-0.5) for slope in slopes.values()],
            steps,
        ),
        Claim(
            "The closeness of the train and test curves also shows no signs of overfitting",
            place("2024, IV-D, Figure 7", "d"),
            "W₂ as above, where close is taken as within 5 %. The excess shows overfitting: held out "
            f"it is {apart[0]:.0f} nats more than on the reports trained on, of the fewest people, and "
            f"{apart[-1]:.0f} of the most",
            [
                abs(p["w2"] - p["w2_train"]) < 0.05 * p["w2"] if "w2_train" in p else None
                for p in points
            ],
            steps,
        ),
    ]


def privacy_claims(rows: list[Row]) -> list[Claim]:
    """Figures 3, 4 of 2023, 10, 13, 14 of 2024: higher privacy, and what its ε is."""
    return [claim for row in rows for claim in _privacy_claims(row)]


def _privacy_claims(row: Row) -> Iterable[Claim]:
    points = select(row["points"], loss="entropic")
    steps = min(p["steps"] for p in points)
    kind = row["kind"].capitalize()
    digits = row["dataset"] == "mnist"
    where = "IV-E, Figure 10" if digits else "IV-G, Figures 13, 14"
    pairs = [
        (p, start)
        for p in points
        for start in select(row["points"], loss="start", claimed_epsilon=p["claimed_epsilon"])
    ]
    scores = (
        f"ε = {p['epsilon']:.1f}: {told({'start': start, 'entropic': p}, ('start', 'entropic'))}"
        for p, start in pairs
    )
    if digits:
        ratios = [p["epsilon"] / p["claimed_epsilon"] for p in points]
        yield Claim(
            "[Δ] is the [ℓ1] sensitivity of the training data and is equal to the radius of the [ℓ1] "
            "ball … (similarly with the [ℓ2] sensitivity [Δ] being set to the radius of the [ℓ2] ball.)",
            place(f"2023, 4.1; {kind}, Figures {_FIGURES[row['kind']]}", "e"),
            f"two records can be a diameter apart: what is called ε = "
            f"{points[0]['claimed_epsilon']:g} to {points[-1]['claimed_epsilon']:g} is "
            f"{points[0]['epsilon']:.1f} to {points[-1]['epsilon']:.1f}, {extent(ratios, '.2f')} "
            "times as large",
            [ratio <= 1 for ratio in ratios],
        )
    yield Claim(
        "The results indicate the effectiveness of our model at higher privacy regimes",
        place(f"2024, {where}; {kind}", "e"),
        "; ".join(scores) or "its start was not measured",
        [vote for p, start in pairs for vote in compare(p, start)],
        steps,
    )
    if len(points) > 1:
        ends = {f"ε = {p['epsilon']:.1f}": p for p in (points[0], points[-1])}
        yield Claim(
            "smaller [ε] values still produced a lot of noise in the generated samples or eroded the "
            "images significantly",
            place(f"2024, {where}; {kind}", "e"),
            f"{told(ends, ends)}; taken as worse at the smaller ε",
            compare(points[0], points[-1]),
            steps,
        )


def noisy_claims(rows: list[Row]) -> list[Claim]:
    """Figures 11 and 12: entropic 1-WGAN against noisy 1-WGAN."""
    claims = []
    for row in select(rows, dataset="fashion_mnist"):
        found = row["results"]
        real = {x: found[x]["precision"] for x in ("entropic", "noisy_wasserstein")}
        where = place("2024, IV-F, Figure 11, second", "f")
        claims += [
            Claim(
                "the images generated by the entropic Wasserstein GAN still look like clothing items",
                where,
                f"{100 * real['entropic']:.0f} % are as near to real ones as these are to each other; "
                + told(found, ("noisy_wasserstein", "entropic")),
                [real["entropic"] > _HALF, *compare(found["entropic"], found["noisy_wasserstein"])],
                found["entropic"]["steps"],
            ),
            Claim(
                "while the images generated by the unregularized Wasserstein GAN with noise added to "
                "the generator look like noise",
                where,
                f"{100 * real['noisy_wasserstein']:.0f} % are as near to real ones as these are to each "
                f"other: blurred and of few kinds (recall {found['noisy_wasserstein']['recall']:.2f}), "
                "but clothes",
                [real["noisy_wasserstein"] < _HALF],
                found["noisy_wasserstein"]["steps"],
            ),
        ]
    for row in rows:
        found = row["results"]
        claims.append(
            Claim(
                "The closeness of the distributions is also validated by the closeness in FID scores",
                place(f"2024, IV-F, Figure 11; {row['dataset'].replace('_', '-')}", "f"),
                f"Fréchet {found['entropic']['frechet']:.0f} (entropic), "
                f"{found['noisy_wasserstein']['frechet']:.0f} (noisy wasserstein), by features of a "
                "classifier",
                [better(found["entropic"], found["noisy_wasserstein"], "frechet")],
                min(found[name]["steps"] for name in ("entropic", "noisy_wasserstein")),
            )
        )
    return claims
