"""Programs that no proof is for: refused in one line, before anything is drawn by them."""

import json

import pytest

from device.hand_made import CHANGES, fields_of, hand_made, sealed
from device.tiny_programs import LETTER, box, split, subset, window
from privot.core.errors import PrivotError
from privot.device import Device
from privot.device.exact import check_randomizer, require_program


@pytest.mark.parametrize(
    "change", CHANGES, ids=lambda change: f"{change[0]}-{change[1][-1]}-{change[2]}"
)
def test_a_program_made_by_hand_is_refused_by_the_device_and_by_the_checker(change):
    text = hand_made(change)
    with pytest.raises(PrivotError, match="calibrate it again|no program") as refused:
        Device.from_json(text)
    assert "\n" not in str(refused.value)
    assert _is_unproved(text)


def _is_unproved(text):
    try:
        return not check_randomizer(text).holds
    except PrivotError:
        return True


def test_what_is_no_program_at_all_is_refused():
    for held in (None, [], "x", {"version": 2}, {"version": 2, "columns": {}, "joint": None}):
        with pytest.raises(PrivotError):
            require_program(held)


def test_a_missing_value_has_a_payload_as_long_as_others():
    """Of several blocks it would be one number, where a value is several."""
    maybe = box("x", "y", nullable=True)
    with pytest.raises(PrivotError, match="nullable True.* false in several blocks"):
        require_program(split((maybe, window(maybe, blocks=2))))


def test_a_cell_outside_the_domain_has_a_code_all_the_same():
    """The code of a program whose list has none is 0, and no number that a draw is not for."""
    cell = {
        "take": "cell", "columns": ["x", "y"], "side": 2, "codes": [-1, 0, 1, 2], "missing": None,
        "domain": box("x", "y")["domain"],
    }  # fmt: skip
    program = require_program(split((cell, subset(3, 1, 2**62))))
    device = Device(bytes(32), program, {})
    for record in ({"x": 0, "y": 0}, {"x": 4, "y": 4}):
        assert device.report(record, word=iter([0, 0, 2**63, 0, 0]).__next__).payload in (
            b"\0",
            b"\2",
        )


def test_sizes_may_be_larger_than_needed_but_not_smaller():
    require_program(split((LETTER, subset(5, 1, 2**62))))
    with pytest.raises(PrivotError, match="cells 3, which must be a whole number from 4"):
        require_program(split((LETTER, subset(3, 1, 2**62))))


def test_an_untouched_copy_passes():
    fields = fields_of("window_number")
    assert Device.from_json(sealed(fields)).program == json.loads(json.dumps(fields["device"]))
