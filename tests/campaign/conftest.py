"""A browser, started once; each test has an empty profile of its own."""

import pytest

from campaign.browser import Browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def page(chromium):
    with chromium.new_profile() as page:
        yield page
