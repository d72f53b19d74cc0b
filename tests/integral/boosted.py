"""A truth on a line, the reference, and what tilts of it gain, by quadrature."""

import numpy as np
from scipy.stats import norm

from privot.integral.learners import BOUND
from studies.integral.published_gains import Edges, paper_coefficients

X = np.linspace(-8, 8, 16_001)
CELL = X[1] - X[0]
P = 0.6 * norm.pdf(X) + 0.4 * norm.pdf(X, 2.5, 0.2)
Q0 = norm.pdf(X)
P, Q0 = P / (P.sum() * CELL), Q0 / (Q0.sum() * CELL)


def mean(density, values):
    return float((density * values).sum() * CELL)


def edges_of(q, c):
    return Edges(mean(P, c) / BOUND, -mean(q, c) / BOUND)


def tilted(q, exponent):
    return q * np.exp(exponent) / mean(q, np.exp(exponent))


def gained(q, after):
    """KL(P‖q) − KL(P‖after)."""
    return mean(P, np.log(after) - np.log(q))


def good(q, steep=1.0):
    """A classifier within ±log 2 that knows both densities."""
    return BOUND * np.tanh(steep * (np.log(P) - np.log(q)))


def rounds_of(epsilon, kind, steep=1.0, rounds=3):
    thetas, q, edges = paper_coefficients(epsilon, rounds, kind), Q0, []
    for theta in thetas:
        c = good(q, steep)
        edges.append(edges_of(q, c))
        q = tilted(q, theta * c)
    return q, thetas, edges


def least_of(edges):
    return Edges(min(e.gamma_p for e in edges), min(e.gamma_q for e in edges))
