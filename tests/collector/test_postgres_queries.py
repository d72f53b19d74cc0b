"""The tables are made once, however many servers ask for them, and hold no report twice."""

import uuid

import psycopg
import pytest

from privot.collector.postgres import TABLES


def test_tables_are_made_once_and_hold_a_report_once(database):
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(2):
            connection.execute(TABLES)
        connection.execute(
            "INSERT INTO privot_campaigns (fingerprint, record_bytes) VALUES ('x', 1)"
        )
        values = (1, uuid.uuid4(), 1, b"r")
        insert = "INSERT INTO privot_reports (campaign, id, digest, report) VALUES (%s, %s, %s, %s)"
        connection.execute(insert, values)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(insert, values)
        connection.execute(insert, (*values[:2], 2, b"another"))
