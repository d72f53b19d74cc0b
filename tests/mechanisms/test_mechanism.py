"""The registry refuses what it does not know."""

import pytest

from privot.core.errors import PrivotError
from privot.mechanisms import Laplace
from privot.mechanisms.mechanism import mechanism_from_dict


@pytest.mark.parametrize("kind", ["Laplace", "", None, 3, ["laplace"]])
def test_unknown_kinds_are_refused(kind):
    with pytest.raises(PrivotError, match=r"unknown: use one of .*laplace"):
        mechanism_from_dict({"kind": kind, "scale": 1.0, "grid": 0.5})


def test_fields_are_validated_when_read():
    with pytest.raises(PrivotError, match="scale"):
        mechanism_from_dict(Laplace(1.0, 2.0**-10).to_dict() | {"scale": "1.0"})


def test_a_kind_that_is_taken_cannot_be_taken_over():
    with pytest.raises(PrivotError, match="mechanism kind 'laplace' is privot"):

        class Impostor(Laplace, kind="laplace"):
            """Noise that a stored randomizer does not mean."""

    assert type(mechanism_from_dict(Laplace(1.0, 2.0**-10).to_dict())) is Laplace
