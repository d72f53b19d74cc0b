"""Data to try things on."""

from privot.datasets.places import Places, draw_people, load_places

__all__ = ["Places", "draw_people", "load_places"]
