"""Pages are served with the collector's address, and no other file than theirs."""

from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from campaign.test_campaign import NUMBER, made
from privot.campaign import page_server
from privot.core.errors import PrivotError


def test_the_policy_of_a_page_has_the_origins_of_addresses_that_have_paths(tmp_path):
    campaign = made(tmp_path, NUMBER, collector="http://127.0.0.1:8000/at")
    moved = {"http://127.0.0.1:8000/at": "http://127.0.0.1:9"}
    with page_server(campaign.web, moved, "127.0.0.1", 0) as page:
        text = urlopen(page).read().decode()
    assert "connect-src 'self' http://127.0.0.1:9;" in text
    assert '"collector": "http://127.0.0.1:9"' in text


def test_the_page_has_the_address_and_its_file_stays(tmp_path):
    campaign = made(tmp_path, NUMBER, collector="http://127.0.0.1:8000")
    before = (campaign.web / "index.html").read_bytes()
    assert campaign.addresses == {"collector": "http://127.0.0.1:8000"}
    moved = {"http://127.0.0.1:8000": "http://127.0.0.1:9"}
    with page_server(campaign.web, moved, "127.0.0.1", 0) as page:
        text = urlopen(page).read()
        assert text == before.replace(b"http://127.0.0.1:8000", b"http://127.0.0.1:9") != before
        assert (
            urlopen(f"{page}/randomizer.json").read()
            == (campaign.folder / "randomizer.json").read_bytes()
        )
        with pytest.raises(HTTPError):
            urlopen(f"{page}/../signing.pem")
        with (
            pytest.raises(PrivotError, match="cannot be listened on"),
            page_server(campaign.web, moved, "127.0.0.1", int(page.rpartition(":")[2])),
        ):
            pass
    assert (campaign.web / "index.html").read_bytes() == before
