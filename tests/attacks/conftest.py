"""Models that are attacked need not be good: their fits try few settings."""

import pytest

from few_settings import few_settings


@pytest.fixture(scope="module", autouse=True)
def _few():
    with few_settings():
        yield
