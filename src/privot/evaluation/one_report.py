"""What one report of an image with a label gives away, to an attacker who knows much else.

The attacker has the clean images and labels of half of the people, hence what images of each label look
like on average, and knows how reports are made; they name the other half's labels, each from its one
report. Of candidates they take the label whose mean features lie nearest to the reported direction; of
noised images, the label that is likeliest, by its own report and by the image's distance from the mean.
Another attacker may name more. It depends on real records: **not private**.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pyarrow as pa

from privot.mechanisms import RandomizedResponse
from privot.release import Release
from privot.release.reports.candidates import CandidatesReport
from privot.schema import Array

_AT_ONCE = 4096


def name_labels(release: Release, people: pa.Table) -> float:
    """Share of people whose label the attacker names, of columns `image` and `label`.

    Reports are in the people's order.
    """
    labels = release.schema.coded["label"].encode_codes("label", people)
    known = np.arange(len(labels)) % 2 == 0
    report = release.randomizer.candidates
    if report is None:
        scores = _scores_of_noise(release, people, known)
    else:
        scores = _scores_of_candidates(release, report, people, known)
    return float((scores[~known].argmax(axis=1) == labels[~known]).mean())


def directions(release: Release, report: CandidatesReport, rows: slice) -> tuple[Array, Array]:
    """What reported candidates say of labels (n, C), and of points with each of them (n, C, q)."""
    answers, codebook = report.read(release.table), report.mechanism.codebook
    y = codebook.rows(answers.seeds[rows], answers.indices[rows])
    labels, points, _ = report.features.parts(y)
    return labels, points


def _scores_of_candidates(
    release: Release, report: CandidatesReport, people: pa.Table, known: np.ndarray
) -> Array:
    """Of each label (n, C): the mean features' product with the reported direction."""
    records = report.encode(people)
    means = _class_means(records.points[known], records.codes[known], report.features.labels)
    weight = report.features.label_weight
    scores = np.empty((len(known), len(means)))
    for start in range(0, len(known), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        labels, points = directions(release, report, rows)
        scores[rows] = math.sqrt(weight) * labels
        scores[rows] += math.sqrt(1 - weight) * np.einsum("ncq,cq->nc", points, means)
    return scores


def _scores_of_noise(release: Release, people: pa.Table, known: np.ndarray) -> Array:
    """Of each label (n, C): the logarithm of how likely both reports are, of its mean image."""
    schema, mechanisms = release.schema, release.randomizer.mechanisms
    clean = schema.images["image"].encode_points("image", people)
    codes = schema.coded["label"].encode_codes("label", people)
    count = schema.coded["label"].alphabet.size
    means = _class_means(clean[known], codes[known], count)
    images, labels = release.reports("image")[0], release.reports("label")[0]
    stddev = math.sqrt(mechanisms["image"].variance)
    far = ((images**2).sum(axis=1)[:, None] - 2 * images @ means.T + (means**2).sum(axis=1)) / 2
    told = np.log(cast("RandomizedResponse", mechanisms["label"]).likelihood_ratio)
    return np.asarray(told * (labels == np.arange(len(means))) - far / stddev**2)


def _class_means(points: Array, codes: np.ndarray, count: int) -> Array:
    """Means (C, q) of points (n, q) of each label; 0 of one that nobody has."""
    own = codes == np.arange(count)[:, None]
    return np.asarray(own @ points / np.maximum(own.sum(axis=1, keepdims=True), 1))
