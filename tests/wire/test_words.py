"""Words and what is drawn from them."""

from collections import Counter

import pytest

from privot.wire.draws import WORDS, draw_below, system_word


def test_words_beyond_the_last_full_multiple_are_drawn_again():
    limit = WORDS - WORDS % 10
    words = iter([WORDS - 1, limit, limit - 1])
    assert draw_below(10, words.__next__) == (limit - 1) % 10
    assert next(words, None) is None


@pytest.mark.parametrize("bound", [1, 2, 3, 2**63 + 1])
def test_every_number_below_has_equally_many_words(bound):
    limit = WORDS - WORDS % bound
    assert limit % bound == 0
    assert {draw_below(bound, iter([word]).__next__) for word in (0, limit - 1)} == {0, bound - 1}


def test_system_words_have_sixty_four_free_bits():
    drawn = [system_word() for _ in range(2000)]
    ones = Counter(bit for word in drawn for bit in range(64) if word >> bit & 1)
    assert len(set(drawn)) == 2000
    assert all(abs(ones[bit] - 1000) < 6.5 * 500**0.5 for bit in range(64))
