"""Report ids: fresh, in the order of their bytes, and the same through text."""

import numpy as np
import pyarrow as pa

from privot.randomizer.reports.rows import (
    ID_BYTES,
    ID_TYPE,
    REPORT_ID,
    draw_ids,
    from_hex,
    id_words,
    order_of,
    sorted_by_id,
    to_hex,
)


def test_words_are_in_the_order_of_the_bytes_also_of_a_slice():
    ids = draw_ids(500)
    for part in (ids, ids.slice(100, 300)):
        order = order_of(id_words(part))
        assert [part[int(i)].as_py() for i in order] == sorted(part.to_pylist())


def test_equal_first_words_are_ordered_by_the_second():
    words = np.array([[5, 9], [3, 1], [5, 2], [3, 0]], np.uint64)
    assert order_of(words).tolist() == [3, 1, 2, 0]


def test_words_that_agree_in_their_first_44_bits_are_in_order_too():
    words = np.array([[(7 << 20) + last, 0] for last in (5, 3, 4, 0)], np.uint64)
    assert order_of(words).tolist() == [3, 1, 2, 0]


def test_rows_move_with_their_ids():
    ids = pa.chunked_array([draw_ids(40), draw_ids(60)])
    table = pa.table({"n": range(100), REPORT_ID: ids})
    ordered = sorted_by_id(table)
    assert ordered[REPORT_ID].to_pylist() == sorted(ids.to_pylist())
    assert [ids[n] for n in ordered["n"].to_pylist()] == list(ordered[REPORT_ID])


def test_text_gives_back_ids_and_nulls_what_is_none():
    ids = draw_ids(9)
    with_gap = pa.array([None, *ids.to_pylist()], ID_TYPE)
    for some in (ids, ids.slice(2, 5), with_gap):
        assert from_hex(to_hex(some)).equals(some)
    odd = pa.array(["0g" * ID_BYTES, "00" * 15, "", None, "AB" * ID_BYTES])
    assert from_hex(odd).to_pylist() == [None] * 4 + [b"\xab" * ID_BYTES]


def test_every_bit_of_an_id_is_a_fair_coin():
    """4 000 ids: a bit's share has a standard deviation of 0.8 %, and 6 of them are allowed."""
    bits = np.unpackbits(id_words(draw_ids(4000)).view(np.uint8).reshape(4000, -1), axis=1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(4000)
