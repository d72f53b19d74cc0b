"""A state folder of each test's own, and a plan that says nothing of what is counted."""

from dataclasses import asdict, dataclass
from typing import ClassVar

import pytest

from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP


@dataclass(frozen=True)
class Uses:
    """A plan of so many uses."""

    uses: int
    stddev: float = 1.0
    epsilon: float = 1.0
    neighboring: str = "replace_one"

    noun: ClassVar[str] = "releases"

    @property
    def guarantee(self):
        return ApproximateDP(self.epsilon, 1e-6, self.neighboring)

    def to_dict(self):
        return asdict(self)


def spend_all(ledger):
    """How many uses it still gives."""
    made = 0
    try:
        while True:
            ledger.spend()
            made += 1
    except PrivotError:
        return made


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(folder))
    return folder
