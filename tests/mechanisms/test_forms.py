"""Forms: a mechanism's likelihood is the one that its form says, but for a factor of each report."""

import numpy as np
import pytest

from mechanisms.test_frequency_oracle import SIZE, column, each_oracle
from privot.mechanisms import Window
from privot.mechanisms.forms import TableForm
from privot.schema import NumericColumn


def factors(form, reports, likelihood):
    """c(y) of each report and code: f(y | v) / (1 + (r−1) A); one number for a report if it is so."""
    shares = form.shares(form.answers(reports))
    dense = shares if isinstance(shares, np.ndarray) else shares.toarray()
    assert ((dense >= 0) & (dense <= 1)).all()
    return likelihood / (1 + (form.ratio - 1) * dense)


@each_oracle
def test_supports_say_the_likelihood(oracle, reports):
    likelihood = np.stack(
        [np.exp(oracle.log_likelihood(reports, code)) for code in range(SIZE)], axis=1
    )
    found = factors(oracle.form(column(SIZE)), oracle.support(reports), likelihood)
    np.testing.assert_allclose(found, np.broadcast_to(found[:, :1], found.shape), rtol=1e-9)


def test_tables_say_the_likelihood_and_read_reports_by_their_place():
    likelihood = np.array([[0.5, 0.1, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.6]])
    form = TableForm(likelihood, first=-1.0, step=0.5)
    reports = np.array([[0.0], [-1.0], [-0.5], [-1.0]])
    assert form.rows(reports).tolist() == [2, 0, 1, 0]
    assert form.ratio == pytest.approx(5.0)
    found = factors(form, reports, likelihood[[2, 0, 1, 0]])
    np.testing.assert_allclose(found, np.broadcast_to(found[:, :1], found.shape), rtol=1e-12)
    flat = TableForm(np.full((3, 2), 1 / 3))
    assert not flat.shares(flat.answers(np.array([[0.0], [2.0]]))).any()


def test_a_bin_s_likelihood_is_the_mean_over_what_it_decodes_to():
    ages = NumericColumn(kind="numeric", bounds=(0, 99), integer=True, bins=(0, 10, 60, 99))
    window = Window.for_column(ages, 2.0)
    form = window.form(ages)
    np.testing.assert_allclose(form.likelihood.sum(axis=0), 1.0, rtol=1e-12)
    reports = np.arange(-window.radius, window.steps + window.radius + 1)[:, None, None]
    reports = reports * 2 / window.steps - 1.0
    for code, numbers in enumerate((range(10), range(10, 60), range(60, 100))):
        places = (np.array(numbers) - 49.5) / 49.5
        mean = np.exp(window.log_likelihood(reports, places[:, None])).mean(axis=1)
        np.testing.assert_allclose(form.likelihood[:, code], mean, rtol=1e-9)
