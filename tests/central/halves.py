"""Fits of images that are bright on one side, without the seconds of a calibration."""

import functools

import numpy as np
import torch

from central.declared_images import image_schema, image_table
from privot.central import SliceSettings, fit
from privot.central.slices import SlicePlan, accounted_grid
from privot.schema.columns.array import tensor_values

SCHEMA = image_schema((6, 6), 2)
SHORT = {"batch_size": 20, "num_projections": 12, "low_pass": 3}


def learn(settings, table=None, schema=SCHEMA, **more):
    table = image_table(*data()) if table is None else table
    settings = SliceSettings(**SHORT | settings)
    return fit(table, schema, epsilon=8.0, delta=1e-3, method=settings, **more)


def data(count=400):
    """Class 0 is bright on the left, class 1 on the right, each by a random amount."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    images = torch.full((count, 6, 6), 0.1)
    bright = 0.5 + 0.3 * torch.rand(count, 1, 1, generator=rng)
    images[labels == 0, :, :3] = bright[labels == 0]
    images[labels == 1, :, 3:] = bright[labels == 1]
    return images, labels


def drawn(model, count, **how):
    table = model.sample(count, seed=0, **how)
    return tensor_values(table["image"]), np.array(table["label"].to_pylist()).astype(int)


def uncalibrated(settings, epsilon, delta, count, records):
    """Instead of `SliceSettings.plan`: what is fitted is tested, not what is promised."""
    grid = 2.0**-20
    steps = 1 if settings.release == "once" else settings.steps
    accounting = settings.accounting(count, records, accounted_grid(grid, 1000))
    return _plan(accounting, 0.2, steps, delta, grid)


_plan = functools.cache(SlicePlan)  # what it promises takes longer to compute than a fit
