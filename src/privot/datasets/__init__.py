"""Data to try things on: made-up people, public images."""

from privot.datasets.fetch import draw_people, fetch
from privot.datasets.handwriting import draw_digits
from privot.datasets.images import LabeledImages, load_images

__all__ = ["LabeledImages", "draw_digits", "draw_people", "fetch", "load_images"]
