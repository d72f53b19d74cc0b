"""Addresses choose engines, and what they cannot be is said in one line."""

import pytest

from campaign_reports import CAMPAIGN, made, rows
from privot.collector.folder import FolderStore
from privot.collector.postgres import PostgresStore
from privot.collector.sealing import open_store, release_address
from privot.core.errors import PrivotError


def test_a_path_is_a_folder_of_campaigns(tmp_path):
    store = open_store(str(tmp_path), CAMPAIGN)
    assert isinstance(store, FolderStore)
    store.append(*rows(made(3)))
    assert (tmp_path / CAMPAIGN.fingerprint / "reports.db").exists()
    assert release_address("a", None, "f") == "a/f/release"
    assert release_address("a", "s3://b/", "f") == "s3://b/f"
    store.close()


def test_a_database_has_an_address_of_its_own(database):
    store = open_store(database, CAMPAIGN)
    assert isinstance(store, PostgresStore)
    store.close()
    assert release_address(database, "sealed", "f") == "sealed/f"
    with pytest.raises(PrivotError, match="--release is missing"):
        release_address(database, None, "f")


def test_other_addresses_are_refused(tmp_path):
    with pytest.raises(PrivotError, match="not known"):
        open_store("redis://localhost", CAMPAIGN)
    with pytest.raises(PrivotError, match="cannot be used"):
        open_store(f"postgresql://nobody@/nothing?host={tmp_path}", CAMPAIGN)
    (tmp_path / "file").touch()
    with pytest.raises(PrivotError, match="cannot be written"):
        open_store(str(tmp_path / "file"), CAMPAIGN)
