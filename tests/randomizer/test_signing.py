"""A signature is of one file and one key."""

import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from privot.core.errors import PrivotError
from privot.randomizer.integrity import (
    new_key,
    public_key,
    read_key,
    require_signature,
    sign,
    signature_path,
)


@pytest.fixture
def signed(tmp_path):
    path, key = tmp_path / "randomizer.json", tmp_path / "key.pem"
    path.write_text('{"format":2}\n')
    new_key(key)
    sign(path, read_key(key))
    return path, public_key(read_key(key))


def test_the_signed_file_is_accepted_and_a_changed_one_is_not(signed):
    path, pinned = signed
    require_signature(path, pinned)
    path.write_text('{"format":2} \n')
    with pytest.raises(PrivotError, match="is not what the holder"):
        require_signature(path, pinned)


def test_another_key_and_another_signature_are_refused(signed, tmp_path):
    path, pinned = signed
    new_key(tmp_path / "other.pem")
    with pytest.raises(PrivotError, match="is not what the holder"):
        require_signature(path, public_key(read_key(tmp_path / "other.pem")))
    for wrong in ("", "AAAA", "ü", pinned[:-4]):
        with pytest.raises(PrivotError, match="not 32 bytes"):
            require_signature(path, wrong)
    signature_path(path).write_text("nonsense")
    with pytest.raises(PrivotError, match="is not what the holder"):
        require_signature(path, pinned)
    signature_path(path).unlink()
    with pytest.raises(PrivotError, match=r"sign .* first"):
        require_signature(path, pinned)


def test_a_key_is_its_owners_alone_and_never_overwritten(tmp_path):
    key = tmp_path / "key.pem"
    new_key(key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    with pytest.raises(PrivotError, match="there already"):
        new_key(key)
    assert key.read_bytes() == before
    assert isinstance(read_key(key).public_key(), Ed25519PublicKey)


def test_what_is_no_key_is_refused(tmp_path):
    (tmp_path / "text.pem").write_text("text")
    for name, words in (("text.pem", "no private key"), ("nowhere.pem", "cannot be read")):
        with pytest.raises(PrivotError, match=words):
            read_key(tmp_path / name)
