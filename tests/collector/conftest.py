"""Engines to test, and a database server where there is one."""

import uuid

import psycopg
import pytest

import postgres_server
from campaign_reports import CAMPAIGN
from privot.collector.folder import FolderStore
from privot.collector.postgres import PostgresStore


@pytest.fixture(scope="session")
def postgres_address():
    if postgres_server.programs() is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    with postgres_server.server() as address:
        yield address


@pytest.fixture
def database(postgres_address):
    """The address of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return postgres_address.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["folder", "postgresql"])
def opened(request, tmp_path):
    """Opens the same store, again and again."""
    if request.param == "folder":
        return lambda: FolderStore(tmp_path / "store", CAMPAIGN.format)
    address = request.getfixturevalue("database")
    return lambda: PostgresStore(address, CAMPAIGN.format)
