"""Payloads have one length, and one form for one report."""

import random
from itertools import combinations

import numpy as np
import pytest

from conformance.campaigns import CAMPAIGNS
from conformance.records import grids_of, values_of
from conformance.vectors import is_refused
from privot.device import Device
from privot.device.device import JointPart, SplitPart
from privot.randomizer.reports.payloads import read_field
from privot.wire.report import CellSet, Numbers, SignedIntegers, WireError, number_bytes


@pytest.mark.parametrize(
    ("bound", "count"), [(1, 1), (256, 1), (257, 2), (2**16, 2), (2**16 + 1, 3)]
)
def test_numbers_take_as_many_bytes_as_they_need(bound, count):
    assert number_bytes(bound) == count


@pytest.mark.parametrize(("cells", "size"), [(9, 1), (9, 2), (10, 3), (300, 2)])
def test_sets_of_one_size_have_one_length_and_differ(cells, size):
    some = list(combinations(range(min(cells, 12)), size))
    layout = CellSet(cells, size)
    packed = {layout.pack(list(chosen)) for chosen in some}
    assert len(packed) == len(some)
    assert {len(data) for data in packed} == {layout.num_bytes}


LAYOUTS = [Numbers(3), Numbers(300, 2), Numbers(2**24, 3), CellSet(9, 2), CellSet(9, 3),
           CellSet(300, 1), CellSet(300, 40), CellSet(16, 7), SignedIntegers(2)]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_the_collector_reads_whole_columns_as_layouts_read_one_field(layout):
    """Bytes of which few are an answer: both readers refuse the same, and find the same numbers."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (3000, layout.num_bytes)).astype(np.uint8)
    data[::2] >>= rng.integers(0, 9, (1500, layout.num_bytes)).astype(np.uint8)
    answers, wrong = read_field(layout, data)
    for row, answer, bad in zip(data, answers.tolist(), wrong.tolist()):
        if bad:
            with pytest.raises(WireError):
                layout.unpack(row.tobytes())
        else:
            assert layout.unpack(row.tobytes()) == answer
            assert layout.pack(answer) == row.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_bytes_of_another_length_are_refused(layout):
    data = layout.pack([*range(layout.count)])
    assert layout.unpack(data) == [*range(layout.count)]
    for other in (data[:-1], data + b"\0", b""):
        with pytest.raises(WireError):
            layout.unpack(other)


class Reversed(Numbers):
    """A layout that the collector does not know."""

    def pack(self, answer):
        return super().pack(answer)[::-1]

    def unpack(self, data):
        return super().unpack(data[::-1])


def test_a_layout_of_ones_own_is_read_too():
    data = np.frombuffer(
        b"".join(map(Reversed(300).pack, ([1], [299], [0]))) + b"\xff\xff", np.uint8
    )
    answers, wrong = read_field(Reversed(300), data.reshape(-1, 2))
    assert answers[:3].tolist() == [[1], [299], [0]]
    assert wrong.tolist() == [False, False, False, True]
    assert read_field(Reversed(300), data[:0].reshape(0, 2))[0].shape == (0, 1)


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_the_length_of_a_payload_says_nothing(campaign):
    device = Device.from_json(campaign.randomizer().to_json())
    rng, takes, grids = random.Random(0), device.program["columns"], grids_of(device.program)
    records = [
        {n: v for name, take in takes.items() for n, v in values_of(take, grids[name], rng).items()}
        for _ in range(200)
    ]
    width = JointPart(device.program).num_bytes + SplitPart(device.program).num_bytes
    possible = (record for record in records if not is_refused(device, record))
    assert {len(device.report(record).payload) for record in possible} == {width}


def test_every_sheet_has_a_law():
    randomizer = next(c for c in CAMPAIGNS if c.name == "joint_triples").randomizer()
    joint = randomizer.program["joint"]
    assert {str(cells) for cells in randomizer.joint.design.num_cells.tolist()} == set(
        joint["sets"]
    )
