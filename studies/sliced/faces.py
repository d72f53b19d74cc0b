"""Faces of 64 × 64 × 3 pixels through DP-SWD's slices, as in its Figure 6: for a GPU.

CelebA cannot be shipped: give the folder of its aligned photographs (`img_align_celeba`, 162 770 of them
for training), or any folder of photographs. Each is cut to its middle square of at most 148 pixels, and
scaled to 64 × 64.

The generator is the paper's (Table 5): five transposed convolutions from a code of 32. The published
run compares distributions "in a latent space of dimension 8192", as Nguyen et al. do; how that space is
learned, and whether its learning is in the ε, the paper does not say. Here the lowest 52 × 52
frequencies of each color are sliced, 8 112 numbers, by the public cosine transform. Noise is our
accountant's for the plan. `--plan` tells it, and spends nothing.

Usage:
    python -m studies sliced.faces --plan
    python -m studies sliced.faces img_align_celeba --checkpoint faces.checkpoint -o faces
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, UnidentifiedImageError

from privot.central import SliceSettings, fit
from privot.central.records import records_of
from privot.core.errors import PrivotError
from privot.privacy.rounding import at_most
from privot.report.panels import save_png, unit_images
from privot.schema import Schema
from privot.schema.columns.array import tensor_array
from studies.common.image_grids import Tile, draw_tiles
from studies.common.rows import write_row

SIDE, _CUT = 64, 148
PEOPLE, EPSILON, DELTA, EPOCHS = 162_000, 10.0, 1e-6, 100
PRINTED = {"bernstein": 2.392, "clt": 0.37}  # Table 4; published features, k and batches as below
SCHEMA = Schema.from_dict(
    {
        "unit": "photograph",
        "columns": {"face": {"kind": "array", "shape": [SIDE, SIDE, 3], "bounds": [0, 255]}},
    }
)
PAPER = SliceSettings(
    batch_size=256,
    num_projections=2000,
    degree=1,
    low_pass=52,
    scale=64.0,  # pixels of ½ have a norm of 55
    loss="sliced",
    architecture="dcgan",
    hidden=(512, 256, 128, 64),
    latent_dim=32,
    learning_rate=5e-4,
)
_SHOWN = 64


def settings_for(people: int, steps: int | None = None) -> SliceSettings:
    """The paper's settings for that many photographs: a hundred epochs, if not so many steps."""
    return replace(PAPER, steps=steps or EPOCHS * people // PAPER.batch_size)


def noise_of(people: int, settings: SliceSettings, epsilon: float = EPSILON) -> float:
    """Deviation of the noise on a slice that keeps (ε, 10⁻⁶), in the diameter of the records' ball.

    That is the paper's unit, whose records have norm ½; here they have norm 1.
    """
    records = records_of(SCHEMA, **settings.record_options)
    return settings.plan(epsilon, DELTA, people, records).stddev / 2


def read_faces(folder: Path, most: int = PEOPLE) -> pa.Table:
    """The first photographs of a folder by name, cut and scaled.

    Raises:
        PrivotError: for a folder without photographs, or a file that is none.
    """
    files = sorted(f for f in folder.glob("*") if f.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not files:
        raise PrivotError(f"folder {folder} holds no .jpg or .png: give that of the photographs")
    faces = np.empty((min(most, len(files)), SIDE, SIDE, 3), np.uint8)
    for face, file in zip(faces, files, strict=False):
        try:
            with Image.open(file) as photograph:
                face[:] = _cut(photograph.convert("RGB"))
        except (UnidentifiedImageError, OSError) as error:
            raise PrivotError(f"{file.name} is no photograph: remove it, or mend it") from error
    return pa.table({"face": tensor_array(faces)})


def _cut(photograph: Image.Image) -> np.ndarray:
    """The middle square of at most 148 pixels, scaled."""
    side = min(*photograph.size, _CUT)
    left, top = ((length - side) // 2 for length in photograph.size)
    square = photograph.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("folder", type=Path, nargs="?", help="of photographs")
    parser.add_argument("--plan", action="store_true", help="tell the noise, and stop")
    parser.add_argument("--people", type=int, default=PEOPLE, help="photographs at most")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--steps", type=int, help="releases, instead of a hundred epochs")
    parser.add_argument("--checkpoint", type=Path, help="of the run; continues it if it is there")
    parser.add_argument("-o", "--output", type=Path, default=Path("faces"))


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    if chosen.plan or chosen.folder is None:
        settings = settings_for(chosen.people, chosen.steps)
        stddev = noise_of(chosen.people, settings, chosen.epsilon)
        printed = ", ".join(f"{value} ({name})" for name, value in PRINTED.items())
        told = f"noise {stddev:.3f} of the ball's diameter at ε = {at_most(chosen.epsilon)}"
        print(f"{told}; printed {printed}")
        return
    table = read_faces(chosen.folder, chosen.people)
    settings = settings_for(table.num_rows, chosen.steps)
    resume = chosen.checkpoint is not None and chosen.checkpoint.exists()
    model = fit(
        table, SCHEMA, epsilon=chosen.epsilon, delta=DELTA, method=settings,
        checkpoint=chosen.checkpoint, resume=resume,
    )  # fmt: skip
    chosen.output.mkdir(parents=True, exist_ok=True)
    model.save(chosen.output / "model")
    drawn, real = (
        unit_images(SCHEMA.images["face"], "face", each, _SHOWN)
        for each in (model.sample(_SHOWN, seed=0), table)
    )
    tiles = [Tile("Photographs", "", real), Tile("Learned", str(model.guarantee), drawn)]
    save_png(draw_tiles(tiles, across=2, num_rows=8, num_columns=8), chosen.output / "faces.png")
    row = {"command": chosen.command, "photographs": table.num_rows, "steps": settings.steps}
    write_row(chosen.output / "faces.json", row | {"guarantee": str(model.guarantee)})
