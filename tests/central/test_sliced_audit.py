"""An audit of the mechanism as it stands: a worst-case pair, its own noise, its own directions."""

from functools import cache

import numpy as np
import pytest
import torch

from privot.audit.statistics import audit
from privot.central.slices import SlicePlan, SlicingMechanism, accounted_grid
from privot.privacy.ledger import Ledger
from privot.privacy.slice_accounting import SlicedAccounting

# A large δ: events that reach ε are then frequent enough to be counted.
RADIUS, DELTA, GRID, SLICES = 1.0, 0.05, 2.0**-18, 4
AT_ONCE = 250


class Identity:
    """Records of two coordinates as they are."""

    num_labels, width, non_negative, unit = 1, 2, False, "person"

    def prepare(self, values):
        return values

    def features(self, prepared):
        return prepared

    def to_dict(self):
        return {"kind": "identity"}


def setting(slices):
    return SlicedAccounting(
        dim=2, num_projections=slices, records=1, batch_size=1, sampling="none",
        neighboring="replace_one", radius=RADIUS, grid=accounted_grid(GRID, 1),
    )  # fmt: skip


def releases(record, num, stddev):
    """Rows of (U, XU + V): directions (2·k) and noisy projections (k).

    Slices of one record are independent, so a release of 250·k is 250 releases of k.
    """
    plan = SlicePlan(setting(AT_ONCE * SLICES), stddev, num // AT_ONCE, DELTA, GRID)
    private = SlicingMechanism(torch.tensor([record]), None, Identity(), Ledger(plan))
    rows = []
    for _ in range(plan.steps):
        slices = private.release()
        directions = slices.directions.numpy().reshape(2, AT_ONCE, SLICES)
        values = slices.values.numpy().reshape(AT_ONCE, SLICES)
        rows.append(np.hstack([directions.swapaxes(0, 1).reshape(AT_ONCE, -1), values]))
    return np.concatenate(rows).astype(float)


def log_likelihood_ratio(outputs, record, other):
    """Up to a positive factor: Σ_j (y_j − ⟨u_j, (r + r′)/2⟩) ⟨u_j, r − r′⟩."""
    directions = outputs[:, : 2 * SLICES].reshape(-1, 2, SLICES)
    mine, theirs = (np.einsum("i,nik->nk", np.array(r), directions) for r in (record, other))
    return ((outputs[:, 2 * SLICES :] - (mine + theirs) / 2) * (mine - theirs)).sum(axis=1)


@cache
def honest_stddev(epsilon):
    return setting(SLICES).calibrate(epsilon, DELTA, 1, "pld")


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("weakened", [False, True])
def test_opposite_records_reach_the_claim_and_do_not_pass_it(epsilon, weakened):
    stddev = honest_stddev(epsilon)
    result = audit(
        # Noise of a third less must be caught: otherwise the audit says nothing.
        lambda record, num: releases(record, num, stddev * (0.67 if weakened else 1)),
        [((RADIUS, 0.0), (-RADIUS, 0.0))],
        num_draws=20_000, delta=DELTA, score=log_likelihood_ratio, confidence=1 - 1e-6,
    )  # fmt: skip
    if weakened:
        assert result.refutes(epsilon)
    else:
        # .69 ± .04 of ε = 1, .74 ± .03 of 3; beyond ε once in a million audits.
        assert 0.4 * epsilon < result.epsilon_lower <= epsilon
