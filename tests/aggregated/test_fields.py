"""Fields and their transforms against plain arithmetic; TurboSHAKE128 against published outputs."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.aggregated import fields
from privot.aggregated.fields import FIELD64, FIELD128, Field, InvalidReportError, turboshake128

BOTH = pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=["64", "128"])


def pattern(length):
    """Bytes 00 … FA, again and again, as in RFC 9861."""
    return bytes(i % 251 for i in range(length))


@pytest.mark.parametrize(
    ("message", "domain", "output"),
    [
        (b"", 0x1F, "1e415f1c5983aff2169217277d17bb538cd945a397ddec541f1ce41af2c1b74c"),
        (pattern(1), 0x1F, "55cedd6f60af7bb29a4042ae832ef3f58db7299f893ebb9247247d856958daa9"),
        (pattern(17), 0x1F, "9c97d036a3bac819db70ede0ca554ec6e4c2a1a4ffbfd9ec269ca6a111161233"),
        (b"\xff", 0x06, "8ec9c66465ed0d4a6c35d13506718d687a25cb05c74cca1e42501abd83874a67"),
    ],
)
def test_turboshake128_has_the_outputs_of_rfc_9861(message, domain, output):
    assert turboshake128(message, 32, domain).hex() == output


@pytest.mark.parametrize("length", [0, 1, 166, 167, 168, 169, 335, 336, 5000])
def test_with_24_rounds_the_sponge_is_shake128(length):
    message = pattern(length)
    for wanted in (0, 1, 167, 168, 169, 3000):
        expected = hashlib.shake_128(message).digest(wanted)
        assert fields._sponge(message, wanted, 0x1F, 24) == expected


@BOTH
def test_moduli_are_prime_and_generators_have_their_order(field):
    p = field.modulus
    order = 1 << field.log_order
    assert (p - 1) % order == 0
    assert pow(field.generator, order // 2, p) == p - 1
    # Proth's theorem: with order² > p this proves that p is prime.
    assert order**2 > p
    assert pow(7, (p - 1) // 2, p) == p - 1


@BOTH
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_transforms_evaluate_and_interpolate(field, data):
    size = data.draw(st.sampled_from([1, 2, 8, 32]))
    number = st.integers(0, field.modulus - 1)
    rows = data.draw(st.lists(st.tuples(number, number), min_size=size, max_size=size))
    coefficients = np.array(rows, object)
    values = field.transform(coefficients, field.root(size))
    for k in (0, size // 2, size - 1):
        x = pow(field.root(size), k, field.modulus)
        plain = [
            sum(c * pow(x, i, field.modulus) for i, c in enumerate(each)) for each in zip(*rows)
        ]
        assert [value % field.modulus for value in plain] == [*values[k]]
    assert (field.interpolate(values) == coefficients).all()


@BOTH
def test_numbers_are_read_as_they_were_written(field):
    numbers = np.array([0, 1, 2**33 + 5, field.modulus - 1], object)
    encoded = field.encode(numbers)
    assert encoded[: 2 * field.size] == bytes(field.size) + b"\x01" + bytes(field.size - 1)
    assert (field.decode(encoded) == numbers).all()
    with pytest.raises(InvalidReportError, match="beyond its field"):
        field.decode(encoded + field.modulus.to_bytes(field.size, "little"))


def test_elements_are_the_numbers_of_the_stream_that_are_in_the_field():
    """Half of all words are in this field."""
    half = Field(2**63 + 29, 1, 1, 8)
    stream = turboshake128(b"\x03tag" + bytes(16) + b"binder", 8 * 400)
    words = [int.from_bytes(stream[k : k + 8], "little") for k in range(0, 3200, 8)]
    expected = [word for word in words if word < half.modulus]
    assert 150 < len(expected) < 250
    assert [*half.expand(bytes(16), b"tag", b"binder", 150)] == expected[:150]
