"""Words: uniform 64-bit integers, and what is drawn from them exactly.

A device takes one word after another from its operating system; a conformance test hands it words that
are written down. Everything drawn is a function of them, in a fixed order: that is what two
implementations can be compared by.
"""

from __future__ import annotations

import os
from collections.abc import Callable

WORDS = 2**64

NextWord = Callable[[], int]


def system_word() -> int:
    """One word of the operating system's generator; safe in forks, and nothing is kept."""
    return int.from_bytes(os.urandom(8), "little")


def below(bound: int, word: NextWord) -> int:
    """A uniform integer 0 … bound−1, exactly: words beyond the last full multiple are drawn again."""
    limit = WORDS - WORDS % bound
    while (drawn := word()) >= limit:
        pass
    return drawn % bound
