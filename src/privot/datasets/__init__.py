"""Data to try things on: made-up people, public images."""

from privot.datasets.fetch import fetch
from privot.datasets.images import LabeledImages, load_images
from privot.datasets.places import draw_people

__all__ = ["LabeledImages", "draw_people", "fetch", "load_images"]
