r"""A small convolutional classifier, trained here on clean images, and the features it sees with.

Distances between images say little in pixels; they are taken between *features*, the activations
before the last layer of a classifier. Published numbers use Inception, trained on photographs; for
28 × 28 gray digits that network sees little, and its weights cannot be assumed to be at hand. So the
project **trains its own classifier on the clean training images** of the data set in question (98 to
99 % on MNIST's test images): distances and accuracies so obtained compare methods within this
project, and are not comparable with anyone's FID. The classifier sees clean records, so nothing
computed with it is private: it judges experiments on public data and takes no part in learning.

Whoever has other features passes any function from images to features to `ImageJudge`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from privot.core.errors import PrivotError
from privot.core.files import replacing_file

NUM_FEATURES = 64
_BLOCK = 2000


class ImageClassifier(nn.Module):
    """64 features, one logit a label; for gray images with values in [−1, 1].

    Arguments:
        size: Height and width of the images, a multiple of 4.
        num_labels: Number of classes.
        seed: Of the initial weights.
        dense: Whether features come of one wide layer of all pixels instead of two convolutions.
    """

    def __init__(
        self, size: int = 28, num_labels: int = 10, seed: int = 0, dense: bool = False
    ) -> None:
        super().__init__()
        if size < 8 or size % 4:
            raise PrivotError(f"size {size} is no multiple of 4 from 8 up: pad the images")
        self.size, self.num_labels = size, num_labels
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = _dense(size) if dense else _convolutions(size)
            self.head = nn.Linear(NUM_FEATURES, num_labels)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, num_labels) of images (n, size²) or (n, size, size)."""
        logits: Tensor = self.head(self.body(images.reshape(-1, 1, self.size, self.size)))
        return logits

    @torch.no_grad()
    def features(self, images: Tensor) -> np.ndarray:
        """Activations (n, 64) before the last layer."""
        flat = images.reshape(-1, 1, self.size, self.size)
        return torch.cat([self.body(part) for part in flat.split(_BLOCK)]).double().numpy()

    @torch.no_grad()
    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Class probabilities (n, num_labels) of images with these features."""
        logits: Tensor = self.head(torch.from_numpy(features).float())
        return logits.softmax(dim=1).double().numpy()

    def accuracy(self, images: Tensor, labels: np.ndarray) -> float:
        """Share of images whose most probable class is their label."""
        found = self.probabilities(self.features(images)).argmax(axis=1)
        return float((found == labels).mean())


def _convolutions(size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(24 * (size // 4) ** 2, NUM_FEATURES), nn.ReLU(),
    )  # fmt: skip


def _dense(size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size**2, 512), nn.ReLU(), nn.Linear(512, NUM_FEATURES), nn.ReLU()
    )


def train_classifier(
    images: Tensor,
    labels: np.ndarray,
    *,
    size: int = 28,
    steps: int = 2000,
    batch_size: int = 128,
    seed: int = 0,
    dense: bool = False,
) -> ImageClassifier:
    """A classifier of clean images (n, size²) in [−1, 1]; about a minute on one core.

    A little noise and a shift of up to two pixels are added to the images while it learns, so that its
    features do not hang on single pixels.

    Arguments:
        images: Clean images.
        labels: Their classes (n,), from 0.
        size: Height and width.
        steps: Number of optimizer steps.
        batch_size: Images a step.
        seed: Of weights, batches and disturbances.
        dense: Of the network's kind.
    """
    targets = torch.from_numpy(labels.astype(np.int64))
    model = ImageClassifier(size, int(targets.max()) + 1, seed, dense)
    rng = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        index = torch.randint(len(images), (batch_size,), generator=rng)
        batch = images[index].reshape(-1, size, size)
        shift = torch.randint(-2, 3, (2,), generator=rng).tolist()
        batch = batch.roll(shift, dims=(1, 2))
        batch = batch + 0.1 * torch.randn(batch.shape, generator=rng)
        loss = functional.cross_entropy(model(batch), targets[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def save_classifier(model: ImageClassifier, path: Path) -> None:
    """Write the weights, with what is needed to build the network, as safetensors."""
    facts = {"size": str(model.size), "num_labels": str(model.num_labels)}
    with replacing_file(path) as draft:
        save_file(model.state_dict(), draft, metadata=facts)


def load_classifier(path: Path, size: int = 28, num_labels: int = 10) -> ImageClassifier:
    """Read what `save_classifier` wrote.

    Raises:
        PrivotError: if the file holds another network.
    """
    model = ImageClassifier(size, num_labels)
    try:
        model.load_state_dict(load_file(path))
    except RuntimeError as error:
        raise PrivotError(
            f"{path} holds no classifier of {size} × {size} images: remove it"
        ) from error
    return model.eval()
