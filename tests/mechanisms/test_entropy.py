"""Words are uniform, never repeated: not in threads, not after a fork, not after a new key."""

import os
import threading

import numpy as np
import pytest

from privot.mechanisms import entropy
from privot.mechanisms.entropy import random_bits, random_word, random_words


def test_every_bit_is_fair_and_neighboring_bits_are_independent():
    words = random_words(200_000)
    bits = np.unpackbits(words.view(np.uint8)).astype(float) - 0.5
    by_position = bits.reshape(-1, 64)
    limit = 6 * 0.5 / np.sqrt(len(by_position))
    assert np.abs(by_position.mean(axis=0)).max() < limit
    assert abs((bits[1:] * bits[:-1]).mean()) < 6 * 0.25 / np.sqrt(bits.size)


def test_single_words_are_fair():
    bits = np.array([[word >> i & 1 for i in range(64)] for word in map(_word, range(20_000))])
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(len(bits))


def _word(_):
    return random_word()


def test_no_word_repeats_across_threads():
    drawn = []

    def draw():
        drawn.append(random_words(50_000))
        drawn.append(np.array([random_word() for _ in range(1000)], np.uint64))

    threads = [threading.Thread(target=draw) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(drawn)
    assert len(np.unique(words)) == len(words) == 6 * 51_000


def test_output_buffer_is_filled_to_the_end():
    out = np.zeros(40_003, np.uint64)
    assert random_words(out.size, out) is out
    assert (out != 0).all()
    assert random_words(0).shape == (0,)


def test_a_new_key_is_taken_when_the_old_one_is_used_up(monkeypatch):
    monkeypatch.setattr(entropy, "_REKEY_BYTES", 2**17)
    entropy._stream.rekey()
    random_words(2**14)
    first = entropy._stream._encryptor
    random_words(1)
    assert entropy._stream._encryptor is not first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forgets_words_drawn_ahead():
    random_word()
    ahead = np.array(entropy._stream.pool, np.uint64)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, np.array([random_word() for _ in range(200)], np.uint64).tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 2**16), np.uint64)
    os.close(reader)
    os.close(writer)
    assert len(ahead) > 0
    assert len(theirs) == 200
    assert not np.isin(theirs, ahead).any()


def test_random_bits_have_their_length():
    assert all(random_bits(k) < 2**k for k in (1, 7, 8, 64, 65) for _ in range(50))
    assert random_bits(1000).bit_length() > 900
