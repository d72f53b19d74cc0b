"""Faces: photographs of any size in, the paper's noise, its network at a small size."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from privot import load
from privot.core.errors import PrivotError
from privot.schema.columns.array import tensor_values
from studies.recipes import parser_of
from studies.sliced import faces


@pytest.fixture
def photographs(tmp_path):
    """Ten of 178 × 218: skin in the middle, red above it, blue beyond the cut."""
    folder = tmp_path / "photographs"
    folder.mkdir()
    for index in range(10):
        pixels = np.full((218, 178, 3), (0, 0, 255), np.uint8)
        pixels[35:109, 15:163] = (255, 0, 0)
        pixels[109:183, 15:163] = (230, 180 + index, 150)
        Image.fromarray(pixels).save(folder / f"{index:06d}.png")
    return folder


def test_photographs_are_cut_and_scaled_in_order(photographs):
    read = tensor_values(faces.read_faces(photographs, 4).column("face"))
    assert read.shape == (4, 64, 64, 3)
    np.testing.assert_array_equal(read[2, 10, 10], (255, 0, 0))
    np.testing.assert_array_equal(read[2, 60, 32], (230, 182, 150))
    # The cut leaves nothing of the border.
    assert read[..., 2].max() < 200


def test_folders_without_faces_are_refused(photographs, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PrivotError, match=r"holds no .jpg or .png"):
        faces.read_faces(tmp_path / "empty")
    (photographs / "000003.png").write_text("no image")
    with pytest.raises(PrivotError, match="000003.png is no photograph"):
        faces.read_faces(photographs)


@pytest.mark.slow
def test_the_noise_is_what_our_accountant_says_of_the_printed_setting(capsys):
    """The published features are 8 192 and ours 8 112: the noise differs by half a percent."""
    chosen = parser_of("sliced.faces").parse_args(["--plan"])
    chosen.run(chosen)
    assert "printed 2.392 (bernstein), 0.37 (clt)" in capsys.readouterr().out
    settings = faces.settings_for(faces.PEOPLE)
    assert settings.steps == 63_281
    assert faces.noise_of(faces.PEOPLE, settings) == pytest.approx(0.311, rel=0.02)


def test_a_small_run_leaves_a_model_a_picture_and_a_row(photographs, tmp_path, monkeypatch):
    small = {"hidden": (8, 8, 6, 4), "latent_dim": 3, "batch_size": 5, "num_projections": 3}
    small |= {"low_pass": 4, "generated": 6}
    monkeypatch.setattr(faces, "PAPER", replace(faces.PAPER, **small))
    words = [str(photographs), "--steps", "3", "--epsilon", "500", "-o", str(tmp_path / "out")]
    chosen = parser_of("sliced.faces").parse_args(words)
    chosen.command = "python -m studies sliced.faces"
    chosen.run(chosen)
    model = load(tmp_path / "out" / "model")
    drawn = tensor_values(model.sample(3, seed=0).column("face"))
    assert drawn.shape == (3, 64, 64, 3)
    assert model.guarantee.unit == "photograph"
    assert (tmp_path / "out" / "faces.png").stat().st_size > 5000
