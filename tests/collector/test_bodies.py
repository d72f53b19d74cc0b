"""Bodies are bounded in type, length and time."""

import asyncio

import pytest

from privot.collector.arrivals import (
    BATCH_TYPE,
    RefusedRequest,
    is_json,
    read_body,
    refusal_response,
    require_length,
)


def body(pieces, pause=0.0):
    """What receives a body in pieces."""
    left = list(pieces)

    async def receive():
        await asyncio.sleep(pause)
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return receive


def head(**headers):
    return {k.replace("_", "-").encode(): v.encode() for k, v in headers.items()}


def status(call):
    with pytest.raises(RefusedRequest) as caught:
        call()
    return caught.value.status


def test_types():
    assert is_json(head(content_type="application/JSON; charset=utf-8"))
    assert not is_json(head(content_type=BATCH_TYPE, content_encoding="identity"))
    assert status(lambda: is_json(head())) == 415
    assert status(lambda: is_json(head(content_type=BATCH_TYPE, content_encoding="gzip"))) == 415


@pytest.mark.parametrize("length", ["-1", "1e3", "²", " ", "0x10"])
def test_lengths_are_numbers(length):
    assert status(lambda: require_length(head(content_length=length), 100)) == 400


def test_a_body_that_says_that_it_is_too_long_is_refused_unread():
    require_length(head(content_length="100"), 100)
    require_length(head(), 100)
    for length in ("101", "1000000000", "9" * 5000):
        assert status(lambda length=length: require_length(head(content_length=length), 100)) == 413


def test_a_body_is_read_whole_or_not_at_all():
    claimed = []

    def read(most, seconds, pause=0.0):
        return asyncio.run(read_body(body([b"abc"] * 5, pause), most, seconds, claimed.append))

    assert read(15, 60.0) == b"abc" * 5
    assert [count for count in claimed if count] == [3] * 5  # as it comes
    assert status(lambda: read(14, 60.0)) == 413
    assert status(lambda: read(15, 0.05, pause=0.03)) == 408


def test_who_may_come_again_is_told_when():
    later = refusal_response(RefusedRequest(429, "busy", "busy: later", close=True))
    assert (later.headers["retry-after"], later.headers["connection"]) == ("2", "close")
    assert (
        "retry-after"
        not in refusal_response(RefusedRequest(400, "format", "none: send it")).headers
    )
