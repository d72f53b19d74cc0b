"""Borders of labels: what a record adds to gradients, and the sets of draws that teach a classifier."""

import numpy as np
import torch

from central.declared_images import image_records
from privot.central.sums import Rounds, SumMechanism, SumPlan, contributions, sensitivity
from privot.models import Checkpoint
from privot.privacy.ledger import Ledger
from studies.sliced.borders import ROUNDS, Borders, ImageGradients, Whitened, agreeing

LOW = image_records((6, 5), num_labels=3, low_pass=3, degree=1)


def images_of(labels, contrast, seed):
    """Images whose labels are brighter in other rows, by the contrast."""
    rng = torch.Generator().manual_seed(seed)
    images = 0.4 + 0.15 * torch.randn(len(labels), 6, 5, generator=rng)
    for label in range(3):
        images[labels == label, 2 * label : 2 * label + 2] += contrast
    return images.clamp(0, 1)


def whitened(images, labels):
    coordinates = LOW.prepare(images).double().numpy()
    own = [coordinates[labels == label] for label in range(3)]
    means, covariances = zip(*((x.mean(axis=0), np.cov(x.T)) for x in own), strict=True)
    return Whitened.of_pixels(LOW, np.array(means), np.array(covariances))


def test_a_replaced_record_moves_gradients_by_at_most_the_sensitivity():
    """Images near and far beyond the norm, with right and wrong labels; unclipped ones would pass it."""
    labels = torch.arange(60) % 3
    images = images_of(labels, 0.1, 0)
    inputs = whitened(images, labels)
    weights = np.random.default_rng(0).standard_normal((3, 10))
    records = torch.cat([images, torch.eye(30).reshape(30, 6, 5)]).numpy(), np.arange(90) % 3
    query = ImageGradients(weights, inputs)
    added = contributions(query, records).astype(float)
    apart = np.linalg.norm(added[:, None] - added[None], axis=2)
    assert 0.5 * sensitivity(query) < apart.max() <= sensitivity(query)
    total = np.zeros((1, 30), np.int64)
    query.add(total, records)
    assert (total[0] == added.sum(axis=0)).all()


def test_a_set_of_draws_teaches_what_records_know():
    """Draws have a third of the records' contrast, but the private classifier knows its directions."""
    labels = torch.arange(3).repeat_interleave(300)
    records, candidates = images_of(labels, 0.15, 1), images_of(labels, 0.05, 2)
    inputs = whitened(candidates, labels)
    plan = SumPlan((1e4,) * ROUNDS, 1e-5, 900)
    mechanism = SumMechanism((records.numpy(), labels.numpy()), Ledger(plan))
    rounds = Rounds(mechanism, Checkpoint(None, {}, resume=False))
    borders = Borders.release(rounds, inputs, candidates, labels, 900)
    images = agreeing([borders], candidates, labels, 120, torch.Generator().manual_seed(3))
    assert images.shape == (360, 6, 5)
    assert images.min() >= 0
    assert images.max() <= 1

    def gradient(images, labels):
        flat = images.flatten(1)
        residuals = borders.residuals(inputs(images), labels)
        return float((residuals.T @ (flat - flat.mean(dim=0)) / len(flat)).norm())

    chosen = torch.arange(3).repeat_interleave(120)
    assert gradient(images, chosen) < 0.02 * gradient(candidates, labels)


def test_a_set_of_draws_agrees_with_both_classifiers():
    """The second classifier's gradient is that of squares of pixels, which the first does not see."""
    labels = torch.arange(3).repeat_interleave(300)
    records, candidates = images_of(labels, 0.15, 1), images_of(labels, 0.05, 2)

    def squares(images):
        return images.flatten(1) ** 2

    found = squares(candidates).double().numpy()
    second = Whitened.of(squares, found.mean(axis=0), np.cov(found.T), (20, 10))
    plan = SumPlan((1e4,) * 2 * ROUNDS, 1e-5, 900)
    mechanism = SumMechanism((records.numpy(), labels.numpy()), Ledger(plan))
    rounds = Rounds(mechanism, Checkpoint(None, {}, resume=False))
    borders = [
        Borders.release(rounds, inputs, candidates, labels, 900)
        for inputs in (whitened(candidates, labels), second)
    ]

    def gradient(chosen):
        rng = torch.Generator().manual_seed(3)
        z = second(agreeing(chosen, candidates, labels, 200, rng))
        residuals = borders[1].residuals(z, torch.arange(3).repeat_interleave(200))
        return float((residuals.T @ z).norm())

    assert gradient(borders) < 0.5 * gradient(borders[:1])
