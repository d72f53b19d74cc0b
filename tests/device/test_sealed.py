"""Sealed texts: what is behind a fitting fingerprint is read only if it is an object."""

import hashlib

import pytest

from device.hand_made import sealed
from privot.core.errors import PrivotError
from privot.device.exact import read_sealed


def test_fields_are_read_and_an_altered_text_is_refused():
    text = sealed({"format": 3, "ä": [1]})
    fingerprint, fields = read_sealed(f" {text}\n")
    assert fields == {"format": 3, "ä": [1]}
    assert text.endswith(fingerprint.hex() + '"}')
    with pytest.raises(PrivotError, match="altered"):
        read_sealed(text.replace("3", "4", 1))


@pytest.mark.parametrize("body", ["{{", '{"a":', "[" * 100_000, "[1"])
def test_a_fitting_fingerprint_of_no_json_is_refused(body):
    digest = hashlib.sha256((body + "}").encode()).hexdigest()
    with pytest.raises(PrivotError, match="not readable"):
        read_sealed(f'{body},"fingerprint":"{digest}"}}')
