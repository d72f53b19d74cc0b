"""
Planning, before anybody is asked
=================================

How many people does a map take? The answer depends on the schema, ε and the mechanism alone, so it
can be had **before there is a single report, and costs no privacy**. Each line is the error to
expect of the learned map; ten times the people do not mean a tenth of the error.
"""

import matplotlib.pyplot as plt

import privot
from privot.randomizer import plan_reports

plt.style.use("privot.report.paper")

# %%
# A place in a square of a hundred kilometers.

schema = privot.Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["east", "north"]
bounds = [[0, 100], [0, 100]]
""")

# %%
# A plan compares ways to report; the first is the one that calibration takes. Errors are of a
# square whose side is 2, as 2-Wasserstein distance: times 50, they are kilometers that people would
# have to move.

people = [10**n for n in range(3, 8)]
figure, axis = plt.subplots(layout="constrained")
for epsilon, color in ((1.0, "C1"), (2.0, "C0"), (4.0, "C2"), (8.0, "C3")):
    plans = [plan_reports(schema, epsilon, n) for n in people]
    kilometers = [50 * plan.columns[0].options[0].error for plan in plans]
    axis.plot(people, kilometers, "o-", color=color)
    axis.text(1.5e7, kilometers[-1], f"ε = {epsilon:g}", color=color, va="center")
    print(f"ε = {epsilon:g}: {people[2]:,} people are {kilometers[2]:.1f} km off")
axis.set(xscale="log", yscale="log", xlabel="people", ylabel="expected error in km")
axis.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
axis.set_title("More people, or a larger ε")
plt.show()
