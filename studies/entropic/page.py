"""The page of the entropic-transport papers' figures, from the rows that lie beside it.

    python -m studies.entropic.page docs/results/eot

Writes `index.md` in that folder from its JSON rows; pictures are those that the recipes drew. Nothing is
computed that is not in the rows, verdicts included (`studies.entropic.claims`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privot.errors import PrivotError
from privot.files import replacing_file
from studies.common.run import read_rows
from studies.entropic.claims import (
    Claim,
    curve_claims,
    denoising_claims,
    noisy_claims,
    privacy_claims,
    size_claims,
    sweep_claims,
)
from studies.entropic.tables import (
    curves_section,
    denoising_section,
    higher_privacy_section,
    noise_sweep_section,
    noisy_section,
    size_sweep_section,
    table,
)

Row = dict[str, Any]

_INTRODUCTION = """\
# Figures of the entropic-transport papers

Every figure of Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic
optimal transport* (2024, and its version of 2023), run again on real data with the plain loss of the
papers **and** the self-corrected one. **All of it ran in the small setting only** (one core, an MLP
generator, seconds to minutes a fit): no GPU was at hand for the papers' own. What the same noise gives
with labels, a public mask of cosines, a ball, and two minutes a fit, is on [another page](../images.md).
This page is written by a command from the JSON rows beside it:

```console
python -m studies.entropic.page docs/results/eot
```

**ε.** The honest one takes the diameter of the domain for the sensitivity, and the exact curve for
Gaussian noise (δ = 1e-4). "Called" is what the text of 2023 calls the same noise: radius for diameter,
and the looser formula of Zhao et al.

**Numbers.** The judge is a small convolutional classifier that this project trains itself on the clean
training images; Fréchet distances are between its features of 10 000 generated and the 10 000 held-out
clean images. They compare rows of this page, and are no FID. *Floor*: clean training images in place
of generated ones. W₂ is exact, between 1 000 images of each, in pixels from −1 to 1.

**What is smaller than in the papers.** An MLP of 2 × 256 with a normal latent of 16 instead of DCGAN,
and a minute or so instead of 100 to 150 epochs; `--paper` asks each recipe for the papers' settings. A
verdict is about these runs: a claim that fails here may hold after a day on a GPU. Networks start at
the covariance of the reports less that of the noise (`studies.entropic.covariance_start`), for every
loss alike: from small random weights the stronger noises leave every loss at the mean image.
"""

_ENDING = """\
## Settings that the texts leave open

The formulas of the 2024 text that give ε and noise scales for Fashion-MNIST, and for the comparison
with the noisy Wasserstein loss, could not be recovered from our copy. Fashion-MNIST has the digits'
settings here, and the comparison Laplace noise of scale 1. Ellipse and rectangle are 2 × 1; the papers
do not say.
"""


def build_page(folder: Path) -> str:
    """The page as Markdown, of the rows in `folder`.

    Raises:
        PrivotError: if there are no rows.
    """
    sections = [
        (curves_section, "eot_manifolds", curve_claims),
        (denoising_section, "eot_denoising", denoising_claims),
        (noise_sweep_section, "eot_noise_sweep", lambda rows: sweep_claims(rows[0])),
        (size_sweep_section, "eot_size_sweep", lambda rows: size_claims(rows[0])),
        (higher_privacy_section, "eot_higher_privacy", privacy_claims),
        (noisy_section, "eot_noisy_wasserstein", noisy_claims),
    ]
    found = [(show, read_rows(folder, name), judge) for show, name, judge in sections]
    present = [part for part in found if part[1]]
    if not present:
        raise PrivotError(f"{folder} has no rows of the recipes: run them with -o {folder} first")
    claims = [claim for _, rows, judge in present for claim in judge(rows)]
    shown = [show(rows) for show, rows, _ in present]
    runs = [row for _, rows, _ in present for row in rows]
    parts = [_INTRODUCTION, _claims(claims), *shown, _ENDING, _made(runs)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _claims(claims: Sequence[Claim]) -> str:
    rows = [
        (claim.sentence, claim.found, f"**{claim.verdict}**" if not claim.holds else claim.verdict)
        for claim in claims
    ]
    confirmed = sum(claim.holds for claim in claims)
    return (
        f"## The papers' claims\n\n{confirmed} of {len(claims)} are confirmed as they stand; letters "
        "refer to the sections below.\n\n" + table(("claim", "found here", "verdict"), rows)
    )


def _made(rows: list[Row]) -> str:
    body = [
        (
            f"`{row['stem']}`",
            f"`{row['command']}`",
            str((row.get("plan") or row["settings"])["steps"]),
            str(row["seed"]),
            f"{row['seconds']:.0f}",
            f"{row['cores']}, {row['threads']} used",
            row["date"],
        )
        for row in rows
    ]
    return (
        "## How it was made\n\nSeeds are of weights, latents, batches and simulated noise; privacy "
        "noise has none, so reruns differ by it. Seconds are wall time on a machine busy with other "
        "work, two to five times what an idle one takes. Steps are of the self-corrected fits; "
        "`--steps` marks rows that ran shorter than a recipe does by itself. One run each.\n\n"
        + table(("row", "command", "steps", "seed", "seconds", "cores", "date"), body)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write the page of the papers' figures.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/results/eot"))
    folder = parser.parse_args(arguments).folder
    page = build_page(folder)
    with replacing_file(folder / "index.md") as draft:
        draft.write_text(page, encoding="utf-8")
    print(folder / "index.md")


if __name__ == "__main__":
    main()
