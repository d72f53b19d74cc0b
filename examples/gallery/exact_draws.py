"""
Exact draws that protect the whole data set
===========================================

A curator publishes a few draws, and no model. The density that they come from may stray from a
public one by a factor of e^ε at most, whatever the records are, so **a draw protects a person, a
family and the whole data set alike**. The larger the ε of one draw, the more the records show.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from privot.integral import PointSpace, fit
from privot.integral.references import UniformBox

plt.style.use("privot.report.paper")

# %%
# The public density is uniform within the declared bounds.

rng = np.random.default_rng()
space = PointSpace(UniformBox([18], [98]), unit="person")

# %%
# Made-up ages: the young and the old of a club, a new one for each ε, since a second model of the
# same records would be a second budget. Each model may give 2 000 draws, so that a histogram shows
# their law; whoever publishes declares a few.

figure, axes = plt.subplots(3, 1, figsize=(5, 4.8), sharex=True, layout="constrained")
for axis, epsilon in zip(axes, (0.5, 2.0, 6.0), strict=True):
    ages = rng.normal(rng.choice([28.0, 66.0], 5_000), 5.0).clip(18, 98)[:, None]
    model = fit(ages, space, epsilon_per_draw=epsilon, draws=2_000)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "secret")  # its ledger counts what is drawn
        drawn = model.sample(2_000)
        print(f"{epsilon:g} a draw: {model.draws_left} draws are left")
    bins = np.linspace(18, 98, 41)
    axis.hist(ages[:, 0], bins, density=True, color="C0", alpha=0.35, label="the records")
    axis.hist(
        drawn[:, 0], bins, density=True, histtype="step", linewidth=1.8, color="C2", label="draws"
    )
    axis.set_title(f"ε = {epsilon:g} a draw", fontsize=11)
    axis.set_yticks([])
figure.legend(*axes[0].get_legend_handles_labels(), ncols=2, loc="outside lower center")
axes[-1].set_xlabel("age")
figure.suptitle("The larger the ε of a draw, the more it shows", x=0.01, ha="left")
plt.show()
