"""Tokens and tickets admit who shows them, and nobody else, whatever the clock does."""

import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.collector.admission import NotAdmitted, everybody, sign_ticket, tickets, tokens
from privot.core.errors import PrivotError

FINGERPRINT, OTHER = "ab" * 32, "cd" * 32


def test_a_token_of_the_file_admits(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# ours\n0123456789abcdef\n\nfedcba9876543210\n")
    admit = tokens(path)
    admit("Bearer 0123456789abcdef", FINGERPRINT)
    admit("bearer fedcba9876543210", FINGERPRINT)
    for wrong in (
        "",
        "Bearer",
        "Bearer 0123",
        "Basic 0123456789abcdef",
        "Bearer # ours",
        "Bearer é",
    ):
        with pytest.raises(NotAdmitted, match="send Authorization"):
            admit(wrong, FINGERPRINT)
    everybody("", FINGERPRINT)


@pytest.mark.parametrize("text", ["", "short\n", "# only words\n"])
def test_a_file_without_tokens_is_refused(tmp_path, text):
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(PrivotError, match="openssl"):
        tokens(tmp_path / "tokens")
    with pytest.raises(PrivotError, match="cannot be read"):
        tokens(tmp_path / "nothing")


def test_a_ticket_admits_until_it_ends_or_is_used_up(tmp_path):
    key, now = Ed25519PrivateKey.generate(), [1000.0]
    admit = tickets(key.public_key(), tmp_path / "used", uses=2, clock=lambda: now[0])
    ticket = sign_ticket(key, FINGERPRINT, 2000)
    taken(admit(ticket, FINGERPRINT), b"one")
    taken(admit(ticket, FINGERPRINT), b"two")
    with pytest.raises(NotAdmitted, match="used up"):
        admit(ticket, FINGERPRINT)
    late = sign_ticket(key, FINGERPRINT, 2000)
    now[0] = 2000.0
    with pytest.raises(NotAdmitted, match="ended"):
        admit(late, FINGERPRINT)
    now[0] = 500.0  # a clock that runs backwards revives nothing
    with pytest.raises(NotAdmitted, match="ended"):
        admit(late, FINGERPRINT)


def taken(sender, content):
    sender.use(content)
    sender.acknowledge(content)


def test_a_ticket_is_used_up_by_what_is_stored_and_by_nothing_else(tmp_path):
    """Whatever order requests come and fail in, one report's content is let through, and no other's."""
    key = Ed25519PrivateKey.generate()
    admit = tickets(key.public_key(), tmp_path / "used", clock=lambda: 1000.0)
    ticket = sign_ticket(key, FINGERPRINT, 2000)
    early, late = admit(ticket, FINGERPRINT), admit(ticket, FINGERPRINT)
    admit(ticket, FINGERPRINT)  # a request that ended before anything was stored
    early.use(b"mine")
    with pytest.raises(NotAdmitted, match="used up"):
        late.use(b"another")
    again = admit(ticket, FINGERPRINT)  # not acknowledged: the same may come again, and only that
    again.use(b"mine")
    with pytest.raises(NotAdmitted, match="used up"):
        admit(ticket, FINGERPRINT).use(b"another")
    again.acknowledge(b"mine")
    for sender in (early, late, again):
        with pytest.raises(NotAdmitted, match="used up"):
            sender.use(b"mine")
    with pytest.raises(NotAdmitted, match="used up"):
        admit(ticket, FINGERPRINT)
    assert (tmp_path / "used").stat().st_size == 2 * 24  # the head, and one use


def test_a_ticket_that_ends_while_a_body_comes_admits_nothing(tmp_path):
    key, now = Ed25519PrivateKey.generate(), [1000.0]
    admit = tickets(key.public_key(), tmp_path / "used", clock=lambda: now[0])
    sender = admit(sign_ticket(key, FINGERPRINT, 2000), FINGERPRINT)
    now[0] = 2000.0
    with pytest.raises(NotAdmitted, match="ended"):
        sender.use(b"mine")


def test_what_was_not_acknowledged_before_a_restart_is_used_up(tmp_path):
    """A report may be stored whose sender was not answered: no second one is let in."""
    key = Ed25519PrivateKey.generate()
    admit = tickets(key.public_key(), tmp_path / "used", clock=lambda: 1000.0)
    ticket = sign_ticket(key, FINGERPRINT, 2000)
    admit(ticket, FINGERPRINT).use(b"mine")
    shutil.copy(tmp_path / "used", tmp_path / "after")  # what a kill leaves
    restarted = tickets(key.public_key(), tmp_path / "after", clock=lambda: 1000.0)
    with pytest.raises(NotAdmitted, match="used up"):
        restarted(ticket, FINGERPRINT)


def test_two_lists_of_used_tickets_admit_a_ticket_twice(tmp_path):
    """Two collectors that share a database have a list each: one person's two reports are both taken."""
    key = Ed25519PrivateKey.generate()
    ticket = sign_ticket(key, FINGERPRINT, 2000)
    for name in ("first", "second"):
        admit = tickets(key.public_key(), tmp_path / name, clock=lambda: 1000.0)
        sender = admit(ticket, FINGERPRINT)
        sender.use(name.encode())
        sender.acknowledge(name.encode())
        with pytest.raises(NotAdmitted, match="used up"):
            admit(ticket, FINGERPRINT)


def test_a_ticket_of_another_key_or_campaign_is_none(tmp_path):
    key = Ed25519PrivateKey.generate()
    admit = tickets(key.public_key(), tmp_path / "used")
    ticket = sign_ticket(key, FINGERPRINT, 2**32 - 1)
    strange = sign_ticket(Ed25519PrivateKey.generate(), FINGERPRINT, 2**32 - 1)
    for wrong, campaign in (
        (ticket, OTHER),
        (strange, FINGERPRINT),
        ("Ticket", FINGERPRINT),
        ("Ticket é", FINGERPRINT),
        (ticket[:-4] + "AAA=", FINGERPRINT),
        (ticket.replace("Ticket", "Bearer"), FINGERPRINT),
    ):
        with pytest.raises(NotAdmitted):
            admit(wrong, campaign)
    admit(ticket, FINGERPRINT)
