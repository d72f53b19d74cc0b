"""Recipes of a trusted curator: releases that are timed, files of images."""

from pathlib import Path

import numpy as np

from studies.sliced.images import load_split
from studies.sliced.timing import release_times


def test_releases_are_timed_one_by_one():
    times = release_times(2)
    assert len(times) == 2
    assert min(times) > 0


def test_a_file_of_images_is_found_in_the_folder_of_data_sets(tmp_path, monkeypatch):
    np.savez(tmp_path / "few.npz", x_train=np.full((2, 28, 28), 255), y_train=np.array([3, 1]))
    monkeypatch.setenv("PRIVOT_DATA", str(tmp_path))
    for path in (Path("few.npz"), tmp_path / "few.npz"):
        x, y = load_split(path, "train")
        assert (x == 1).all()
        assert y.tolist() == [3, 1]
