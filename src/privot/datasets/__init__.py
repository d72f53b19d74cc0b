"""Data to try things on: made-up people, public images."""

from privot.datasets.fetch import fetch
from privot.datasets.images import LabeledImages, load_images
from privot.datasets.places import Places, draw_people, load_places

__all__ = [
    "LabeledImages",
    "Places",
    "draw_people",
    "fetch",
    "load_images",
    "load_places",
]
