"""Categories: each comes back as it was, and what is not listed is another."""

import numpy as np

from mixed_columns import SCHEMA, TABLE


def test_every_integer_and_every_category_comes_back_as_it_was():
    for name in ("age", "smokes", "sex"):
        codes = SCHEMA.coded[name].encode_codes(name, TABLE)
        again = SCHEMA.coded[name].decode_codes(name, codes, np.random.default_rng(0))[name]
        assert again.to_pylist() == TABLE.column(name).to_pylist()
    codes = SCHEMA.coded["work"].encode_codes("work", TABLE)
    assert codes.tolist() == [1, 2, 3, 2]  # an unlisted pilot is "other"
