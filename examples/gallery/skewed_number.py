"""
A skewed number
===============

Half of all people earn less than 20 000, one in a hundred more than 200 000. Ten equal bins up to a
million put nearly everybody into the first. **Leave bins out, and a number is asked at many scales
at once**: in eight public codings, some of equal bins and some of bins that grow. The ε is the
same.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import privot

plt.style.use("privot.report.paper")
warnings.filterwarnings("ignore", "column 'income'")  # of the ten bins: the fit sees it, too

# %%
# Made-up people: what they earn, and whether they own their home.

rng = np.random.default_rng(0)
income = rng.lognormal(np.log(20_000), 1.0, 40_000).clip(0, 1_000_000)
people = {"income": income, "owner": rng.random(40_000) < income / (income + 30_000)}

# %%
# Two schemas differ in one option. Both are public, and made without a look at the incomes.

number = {"kind": "numeric", "bounds": [0, 1_000_000]}
learned = {}
for told, column in (("ten equal bins", number | {"bins": 10}), ("no bins declared", number)):
    schema = privot.Schema.from_dict({"columns": {"income": column, "owner": {"kind": "boolean"}}})
    release = privot.Randomizer.calibrate(schema, epsilon=4.0).privatize(people)
    drawn = privot.fit(release, seed=0).sample(40_000, seed=1)
    learned[told] = drawn["income"].to_numpy()
    print(f"{told}: half of them earn less than {np.median(learned[told]):,.0f}")

# %%
# How many earn less than an amount. Equal steps along the axis are equal factors.

share = np.linspace(0, 100, len(income))
figure, axis = plt.subplots(layout="constrained")
axis.plot(np.sort(income), share, "--", color="C0", label="the truth")
for (told, sample), color in zip(learned.items(), ("C1", "C2"), strict=True):
    axis.plot(np.sort(sample), share, color=color, label=f"learned, {told}")
axis.set(xscale="log", xlim=(500, 1_000_000), xlabel="income", ylabel="% who earn less")
axis.set_title("Without bins, every scale is learned")
axis.legend(loc="upper left", fontsize=9)
plt.show()
