"""Fits of images and vectors by noisy sums, and of networks by noisy slices: what needs PyTorch."""

from __future__ import annotations

import torch

from privot.models import Checkpoint
from privot.sliced.fitting import Run
from privot.sliced.images import ImageRecords
from privot.sliced.ledgers import open_ledger
from privot.sliced.mixtures.image_fit import fit_images
from privot.sliced.mixtures.image_recipe import ImageRecipe
from privot.sliced.mixtures.settings import MixtureSettings
from privot.sliced.mixtures.vector_fit import VectorRecipe, fit_vectors
from privot.sliced.mixtures.vectors import LabeledVectors
from privot.sliced.model import SlicedModel
from privot.sliced.network import train_network
from privot.sliced.record_maps import records_of
from privot.sliced.releases.mechanism import SlicingMechanism
from privot.sliced.settings import SlicedSettings
from privot.training.parallel import threads_for


def fit_image_sums(run: Run, settings: MixtureSettings) -> SlicedModel:
    """A mixture of labeled images, by rounds of noisy sums."""
    count, records = len(run.table), ImageRecords(run.schema, degree=1)
    recipe = ImageRecipe.of(settings, run.epsilon, run.delta, count, records)
    plan = recipe.plan(run.epsilon, run.delta, count, records)
    values, labels = records.encode(run.table)
    if labels is None:
        labels = torch.zeros(count, dtype=torch.int64)
    parts = (values.numpy(), labels.numpy())
    with threads_for(0), run.rounds(plan, parts, settings) as rounds:
        return run.model(fit_images(rounds, records, recipe), records, plan, settings)


def fit_vector_sums(run: Run, settings: MixtureSettings) -> SlicedModel:
    """A mixture of labeled vectors, by two rounds of noisy sums."""
    count, vectors = len(run.table), LabeledVectors(run.schema)
    recipe = VectorRecipe.of(settings, run.epsilon, run.delta, count, vectors)
    plan = recipe.plan(run.epsilon, run.delta, count, vectors)
    values, labels = vectors.encode(run.table)
    parts = (values.numpy(), labels.numpy())
    records = records_of(run.schema, degree=1)
    with threads_for(0), run.rounds(plan, parts, settings) as rounds:
        return run.model(fit_vectors(rounds, vectors, recipe), records, plan, settings)


def fit_slices(run: Run, settings: SlicedSettings) -> SlicedModel:
    """A network, trained on noisy slices."""
    records = records_of(run.schema, **settings.features)
    values, labels = records.encode(run.table)
    plan = settings.plan(run.epsilon, run.delta, len(values), records)
    ledger = open_ledger(plan, run.path, run.resume)
    mechanism = SlicingMechanism(values, labels, records, ledger)
    state = Checkpoint(run.path, {"ledger": ledger.id}, run.resume)
    try:
        with threads_for(0):
            law, history = train_network(mechanism, records, settings, state, run.progress)
    finally:
        ledger.close()
    return run.model(law, records, plan, settings, ledger.spent, history)
