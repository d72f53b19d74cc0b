"""Records in a file, for tests of what streams."""

import pytest

from numbered_people import write_people


@pytest.fixture
def raw(tmp_path):
    """Ten thousand numbered people."""
    write_people(tmp_path / "raw.parquet", 10_000)
    return tmp_path / "raw.parquet"
