"""Payloads have one length, and one form for one report."""

import random
from itertools import combinations

import pytest

from conformance.campaigns import CAMPAIGNS
from conformance.records import grids_of, values_of
from privot.device import Device
from privot.wire.payload import number_bytes, pack_set, payload_bytes, set_bytes


@pytest.mark.parametrize(
    ("bound", "count"), [(1, 1), (256, 1), (257, 2), (2**16, 2), (2**16 + 1, 3)]
)
def test_numbers_take_as_many_bytes_as_they_need(bound, count):
    assert number_bytes(bound) == count


@pytest.mark.parametrize(("cells", "size"), [(9, 1), (9, 2), (10, 3), (300, 2)])
def test_sets_of_one_size_have_one_length_and_differ(cells, size):
    some = list(combinations(range(min(cells, 12)), size))
    packed = {pack_set(list(chosen), cells) for chosen in some}
    assert len(packed) == len(some)
    assert {len(data) for data in packed} == {set_bytes(cells, size)}


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_the_length_of_a_payload_says_nothing(campaign):
    device = Device.from_json(campaign.randomizer().to_json())
    rng, takes, grids = random.Random(0), device.program["columns"], grids_of(device.program)
    records = [
        {n: v for name, take in takes.items() for n, v in values_of(take, grids[name], rng).items()}
        for _ in range(40)
    ]
    assert {len(device.report(record).payload) for record in records} == {
        payload_bytes(device.program)
    }


def test_every_sheet_has_a_law():
    randomizer = next(c for c in CAMPAIGNS if c.name == "joint_triples").randomizer()
    joint = randomizer.program["joint"]
    assert {str(cells) for cells in randomizer.joint.design.num_cells.tolist()} == set(
        joint["sets"]
    )
