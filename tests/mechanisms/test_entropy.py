"""Words are uniform, never repeated: not in threads, not after a fork, not after a new key."""

import os
import threading

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.mechanisms import samplers
from privot.mechanisms.laplace import sample_discrete_laplace
from privot.mechanisms.samplers import (
    WORDS,
    random_bits,
    random_word,
    random_words,
    take_buffered,
    uniform_below,
    uniforms_below,
)


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
    monkeypatch.setattr(samplers, "_REKEY_BYTES", 2**17)
    samplers._stream().rekey()
    random_words(2**14)
    first = samplers._stream()._encryptor
    random_words(1)
    assert samplers._stream()._encryptor is not first


WIDE = 2.0**38  # noise that does not repeat by chance


def test_no_noise_repeats_across_threads_or_calls():
    drawn = []

    def draw():
        drawn.extend(take_buffered(1, sample_discrete_laplace, WIDE)[0] for _ in range(50))
        drawn.extend(take_buffered(300, sample_discrete_laplace, WIDE))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == len(drawn) == 4 * 350


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forgets_words_and_noise_drawn_ahead():
    random_word()
    take_buffered(1, sample_discrete_laplace, WIDE)
    buffers = samplers._stream().buffers
    ahead = buffers[random_words, ()] + buffers[sample_discrete_laplace, (WIDE,)]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            theirs = [random_word() for _ in range(200)]
            theirs += take_buffered(200, sample_discrete_laplace, WIDE)
            os.write(writer, b"".join(n.to_bytes(16, "big", signed=True) for n in theirs))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    received = os.read(reader, 2**16)
    os.close(reader)
    os.close(writer)
    theirs = {
        int.from_bytes(received[i : i + 16], "big", signed=True)
        for i in range(0, len(received), 16)
    }
    assert len(ahead) == 2 * 127
    assert len(theirs) == 400
    assert not theirs & set(ahead)


def test_a_buffer_is_used_up_before_it_is_refilled():
    drawn = []

    def draw(count, step):
        numbers = np.arange(count) * step + len(drawn)
        drawn.extend(numbers.tolist())
        return numbers

    taken = [number for _ in range(30) for number in take_buffered(10, draw, 1000)]
    assert len(drawn) == 3 * 128
    assert len(set(taken)) == len(taken) == 300
    assert set(taken) < set(drawn)


def test_buffers_do_not_grow_without_bound():
    for ratio in range(1, 3 * samplers._MAX_BUFFERS):
        take_buffered(1, lambda count, _: np.zeros(count, np.int64), ratio)
        assert len(samplers._stream().buffers) <= samplers._MAX_BUFFERS + 1


def test_a_refused_draw_leaves_no_buffer():
    with pytest.raises(PrivotError):
        take_buffered(1, sample_discrete_laplace, -3.0)
    assert not samplers._stream().buffers[sample_discrete_laplace, (-3.0,)]


def test_random_bits_have_their_length():
    assert all(random_bits(k) < 2**k for k in (1, 7, 8, 64, 65) for _ in range(50))
    assert random_bits(1000).bit_length() > 900


@pytest.mark.parametrize("bound", [3, 10, 2**62 + 1])
def test_words_beyond_the_last_full_multiple_are_drawn_again(bound, monkeypatch):
    """Or small integers would be likelier by 1 in 2^64/bound, which no sample of tests can show."""
    limit = WORDS - WORDS % bound
    drawn = [[limit, 4, WORDS - 1], [limit - 1, limit], [5]]
    words, one_by_one = iter(drawn), iter([WORDS - 1, limit, limit - 1])
    monkeypatch.setattr(samplers, "random_words", lambda count: np.array(next(words), np.uint64))
    monkeypatch.setattr(samplers, "random_word", lambda: next(one_by_one))
    expected = [(limit - 1) % bound, 4 % bound, 5 % bound]
    assert uniforms_below(bound, 3).tolist() == expected
    assert uniform_below(bound) == (limit - 1) % bound
    assert [*words, *one_by_one] == []
