"""64 × 64 color images, the setting of faces, on made-up data: bright in red, or dark."""

import torch
from torch import nn

from central.declared_images import image_records, image_table
from privot.central import SliceSettings, fit
from privot.central.slice_fit import smoothed_sliced_loss
from privot.central.slices import SlicePlan, SlicingMechanism
from privot.privacy.ledger import Ledger
from privot.privacy.slice_accounting import SlicedAccounting
from privot.schema.columns.array import tensor_values


def reddish(count):
    """Images (n, 3, 64, 64), red in label 1."""
    labels = torch.arange(count) % 2
    images = 0.5 * torch.rand(count, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    images[labels == 1, 0] += 0.5
    return images, labels


class LatentImages(nn.Module):
    """A frozen public network to 512 × 4 × 4 = 8192 coordinates, each record on the unit sphere."""

    num_labels, width, non_negative, unit = 1, 8192, True, "person"

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers = [
                layer
                for ins, outs in [(3, 16), (16, 32), (32, 64), (64, 512)]
                for layer in (nn.Conv2d(ins, outs, 4, 2, 1), nn.ReLU())
            ]
            self.network = nn.Sequential(*layers).requires_grad_(False)

    def prepare(self, values):
        return values

    def features(self, prepared):
        latent = self.network(prepared.float()).flatten(1)
        return (1 - 1e-6) * latent / latent.norm(dim=1, keepdim=True)  # rounding stays inside


def test_network_learns_colors(monkeypatch):
    """Frequencies up to 52 of each color, d = 8112; little noise stands in for the calibration."""

    def plan(self, epsilon, delta, count, records):
        accounting = self.accounting(count, records, 2.0**-15)
        assert accounting.dim == 8112
        return SlicePlan(accounting, 0.02, self.steps, delta, 2.0**-20)

    monkeypatch.setattr(SliceSettings, "plan", plan)
    images, _ = reddish(60)
    settings = SliceSettings(
        low_pass=52,
        degree=1,
        scale=60.0,
        steps=80,
        batch_size=20,
        num_projections=100,
        generated=10,
        hidden=(32,),
        learning_rate=5e-2,
        averaging=0.9,
    )
    table, schema = image_table(images.movedim(1, 3)), image_records((64, 64, 3)).schema
    model = fit(table, schema, epsilon=10.0, delta=1e-3, method=settings)
    drawn = tensor_values(model.sample(40, seed=0)["image"])
    assert drawn.shape == (40, 64, 64, 3)
    red, green, blue = drawn.mean(axis=(0, 1, 2))
    # 0.145 ± 0.012 in eight runs; noise has no seed.
    assert red > green + 0.05
    assert red > blue + 0.05


def test_latent_of_8192_and_2000_slices():
    """A calibrated plan, its releases, and a generator's step on the smoothed loss in the latent."""
    images, _ = reddish(40)
    records = LatentImages()

    def accounting(grid):
        return SlicedAccounting(8192, 2000, len(images), 10, non_negative=True, grid=grid)

    plan = SlicePlan.calibrate(10.0, 1e-3, 3, accounting)
    mechanism = SlicingMechanism(images, None, records, Ledger(plan))
    generator = nn.Sequential(nn.Linear(32, 3 * 64 * 64), nn.Sigmoid())
    rng = torch.Generator().manual_seed(0)
    for _ in range(3):
        slices = mechanism.release()
        assert slices.directions.shape == (8192, 2000)
        assert slices.values.shape == (10, 2000)
        made = generator(torch.randn(10, 32, generator=rng)).reshape(-1, 3, 64, 64)
        projected = records.features(made) @ slices.directions
        smoothed_sliced_loss(slices.values, projected, plan.stddev, 2, rng).backward()
    gradient = generator[0].weight.grad
    assert bool(torch.isfinite(gradient).all())
    assert float(gradient.abs().max()) > 0
    assert mechanism.ledger.left == 0
    assert mechanism.ledger.plan.guarantee.epsilon <= 10
