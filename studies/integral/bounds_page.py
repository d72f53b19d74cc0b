"""Tables of what boosting is proven to gain, from the rows of `integral.bounds`; means over seeds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from studies.common.pages import spread, table
from studies.common.rows import Rows, select
from studies.integral.targets import TARGETS

_ROUND_KEYS = ("theta", "gamma_p", "seen_p", "gamma_q", "seen_q", "gain", "proven", "published")


def divergences_table(rows: Rows, titles: dict[str, str]) -> str:
    """KL of the truth from each model, between what is proven."""
    body = []
    for name, epsilon, found in _cells(rows):
        least = max(0.0, float(np.mean([row["kl_at_least"] for row in found])))
        body.append(
            [
                titles[name],
                f"{epsilon:g}",
                f"{np.mean([row['kl_reference'] for row in found]):.3f}",
                f"**{spread([row['kl'] for row in found])}**",
                *(_mean_where(found, k) for k in ("kl_at_most", "kl_published", "kl_high_regime")),
                f"{least:.3f}",
            ]
        )
    head = ["target", "ε", "KL(P‖Q₀)", "**measured**", "≤, edges", "≤, (8, 9)", "≤, (11)"]
    return table([*head, "≥, (10)"], body)


def rounds_table(rows: Rows, target: str) -> str:
    """Each round of one target: edges by the truth and as the curator sees them, gains."""
    body = []
    for _, epsilon, found in _cells(select(rows, target=target)):
        for t in range(len(found[0]["rounds"])):
            mean = {}
            for key in _ROUND_KEYS:
                values = [row["rounds"][t][key] for row in found]
                known = [value for value in values if value is not None]
                mean[key] = f"{np.mean(known):.3f}" if len(known) == len(values) else ""
            body.append(
                [
                    f"{epsilon:g}",
                    str(t + 1),
                    mean["theta"],
                    f"{mean['gamma_p']} ({mean['seen_p']})",
                    f"{mean['gamma_q']} ({mean['seen_q']})",
                    mean["gain"],
                    mean["proven"],
                    mean["published"],
                ]
            )
    head = ["ε", "round", "θ", "γ_P (seen)", "γ_Q (seen)", "gain", "≥, edges", "≥, (9)"]
    return table(head, body)


def modes_table(rows: Rows, titles: dict[str, str]) -> str:
    """The share of the truth's mass that the model keeps, measured and proven: a mode, and all."""
    body = []
    for name, epsilon, found in _cells(rows):
        worst = [min(row["modes"][:-1], key=_share) for row in found]
        whole = [row["modes"][-1] for row in found]
        promised = sum(
            mode["fat"] is not None and mode["mass"] >= mode["fat"]
            for row in found
            for mode in row["modes"]
        )
        cells = [titles[name], f"{epsilon:g}"]
        for modes in (worst, whole):
            cells.append(f"{np.mean([mode['mass'] for mode in modes]):.3f}")
            cells.append(f"**{np.mean([_share(mode) for mode in modes]):.2f}**")
            proven = np.mean([mode["proven"] / mode["mass"] for mode in modes])
            cells.append(f"{proven:.2f}" if proven >= 0.005 else "< 0.01")
        body.append([*cells, f"{promised} of {sum(len(row['modes']) for row in found)}"])
    head = ["target", "ε", "worst mode: P(B)", "**Q(B)/P(B)**", "≥", "all modes: P(B)"]
    return table([*head, "**Q(B)/P(B)**", "≥", "(13) promises half"], body)


def _cells(rows: Rows) -> Iterator[tuple[str, float, Rows]]:
    """Target, ε and their rows."""
    for name in (name for name in TARGETS if select(rows, target=name)):
        for epsilon in sorted({row["epsilon"] for row in select(rows, target=name)}):
            yield name, epsilon, select(rows, target=name, epsilon=epsilon)


def _share(mode: dict[str, float]) -> float:
    return mode["captured"] / mode["mass"]


def _mean_where(rows: Rows, key: str) -> str:
    """The mean where it is known, and of how many rows; no mean of some where truths differ."""
    known = [row[key] for row in rows if row[key] is not None]
    if not known:
        return ""
    if len(known) == len(rows):
        return f"{np.mean(known):.3f}"
    of = f"({len(known)} of {len(rows)})"
    alike = len({row["kl_reference"] for row in rows}) == 1
    return f"{np.mean(known):.3f} {of}" if alike else of
