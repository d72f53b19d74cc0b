"""Models that are made here are good enough to be evaluated, and quick to fit."""

import pytest

from few_settings import few_settings


@pytest.fixture(scope="module", autouse=True)
def _few():
    with few_settings():
        yield
