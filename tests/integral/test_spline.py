"""Splines follow what is there, and no more."""

import math

import numpy as np
from scipy.stats import norm

from privot.integral.learners import fit_spline
from privot.integral.references import Normal

X = np.linspace(-6, 6, 6001)
STEP = X[1] - X[0]


def test_splines_follow_narrow_modes_and_not_noise():
    rng = np.random.default_rng(0)
    narrow = rng.normal(np.where(rng.random(10_000) < 0.5, -1.0, 1.0), 0.1)[:, None]
    ratio = fit_spline(narrow, Normal(), 0)
    p = norm.pdf(X[:, None], [-1.0, 1.0], 0.1).mean(axis=1)
    log = ratio(X[:, None]) + norm.logpdf(X)
    log -= math.log(np.exp(log - log.max()).sum() * STEP) + log.max()
    assert (p * (np.log(np.maximum(p, 1e-300)) - log))[p > 1e-12].sum() * STEP < 0.02
    plain = fit_spline(rng.normal(0.3, 0.9, (10_000, 1)), Normal(), 0)
    inside = X[np.abs(X) < 2.5]
    truth = norm.logpdf(inside, 0.3, 0.9) - norm.logpdf(inside)
    assert np.ptp(plain(inside[:, None]) - truth) < 0.25
