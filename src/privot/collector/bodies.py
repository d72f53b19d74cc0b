"""Bodies of requests: of a type that is taken, no longer than a batch can be, and in good time.

**Privacy review.** A refusal says what was wrong, and nothing that was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

BATCH_TYPE = "application/vnd.privot.batch"
_LATER = {"retry-after": "2"}


class Refusal(Exception):  # noqa: N818 (an answer, not a fault)
    """A request that is refused as a whole.

    Arguments:
        status: Of HTTP.
        reason: In a word, for counters.
        message: In a line, with a remedy.
        close: Whether the connection is closed, for what follows on it is not read.
    """

    def __init__(self, status: int, reason: str, message: str, *, close: bool = False) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.close = status, reason, message, close


def refusal_answer(refusal: Refusal) -> Response:
    """What its sender is told."""
    told = {"error": {"reason": refusal.reason, "message": refusal.message}}
    headers = dict(_LATER) if refusal.status in (429, 503, 507) else {}
    if refusal.close:
        headers["connection"] = "close"
    return JSONResponse(told, status_code=refusal.status, headers=headers)


def is_json(request: Request) -> bool:
    """Whether a body is JSON rather than binary; refused if it says that it is something else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    coded = request.headers.get("content-encoding", "identity").strip().lower()
    if kind not in (BATCH_TYPE, "application/json") or coded != "identity":
        words = (
            f"the body's type is not taken: send {BATCH_TYPE} or application/json, not compressed"
        )
        raise Refusal(415, "type", words, close=True)
    return kind == "application/json"


def require_length(request: Request, most: int) -> None:
    """Refuse a body that says that it is longer, or says no number."""
    told = request.headers.get("content-length")
    if told is None:
        return
    if not told.isdecimal() or not told.isascii():
        raise Refusal(400, "format", "the length of the body is no number: send it", close=True)
    if len(told) > 12 or int(told) > most:
        raise _too_large(most)


def _too_large(most: int) -> Refusal:
    words = f"the body is larger than {most:,} bytes: send fewer reports at once"
    return Refusal(413, "large", words, close=True)


async def body_of(
    request: Request, most: int, seconds: float, claim: Callable[[int], None]
) -> bytes:
    """All of a body.

    Arguments:
        request: Whose.
        most: Bytes that it may have.
        seconds: That it may take.
        claim: Claims room for so many more bytes, or raises.

    Raises:
        Refusal: if it is longer than `most`, or takes longer than `seconds`.
    """
    held = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                claim(len(piece))
                held += piece
                if len(held) > most:
                    raise _too_large(most)
    except TimeoutError:
        words = f"the body took longer than {seconds:g} seconds: send smaller batches"
        raise Refusal(408, "slow", words, close=True) from None
    return bytes(held)
