"""Checksums are zlib's; digests tell any two contents apart; heads are compared but for id and time."""

import zlib
from dataclasses import replace

import numpy as np

from campaign_reports import CAMPAIGN, changed, later, made, resealed, rows
from privot.waves import Panel


def test_checksums_are_those_of_zlib():
    records = rows(made(500))[0].copy()
    records[:, 53 + 5 : -4] = np.random.default_rng(0).integers(0, 256, (500, 2))
    for row in records[::2]:
        row[-4:] = np.frombuffer(zlib.crc32(row[:-4].tobytes()).to_bytes(4, "big"), np.uint8)
    right, _ = CAMPAIGN.format.validate(records)
    assert right[::2].all()
    assert not right[1::2].any()


def test_entries_are_ids_and_a_digest_of_all_bytes_but_time_and_checksum():
    reports = made(200)
    _, entries = CAMPAIGN.format.validate(*rows(reports))
    held = entries[:, :2].astype(">u8").tobytes()
    assert [held[16 * i : 16 * i + 16] for i in range(200)] == [r[33:49] for r in reports]
    report = reports[0]
    others = [report[:i] + bytes([report[i] ^ 1]) + report[i + 1 :] for i in range(len(report))]
    _, entries = CAMPAIGN.format.validate(*rows([report, *others]))
    digests = entries[:, 2].tolist()
    same = [i for i, digest in enumerate(digests[1:]) if digest == digests[0]]
    assert same == [*range(49, 53), *range(len(report) - 4, len(report))]
    assert len(set(digests)) == len(report) + 1 - 8
    assert entries[:, 2].all()


def test_with_a_panel_a_report_is_of_its_wave():
    report = made(1)[0]
    hour = int.from_bytes(report[49:53], "big")
    panel = Panel("p", window=2, start=3600 * hour - 3600, length=7200, seed="s")
    records = rows([report, later(report), report])[0]
    _, entries = replace(CAMPAIGN.format, panel=panel).validate(records)
    assert entries[0].tolist() == entries[2].tolist() != entries[1].tolist()
    assert len({tuple(each) for each in CAMPAIGN.format.validate(records)[1].tolist()}) == 1


def test_heads_are_the_same_but_for_id_and_time():
    report = made(1)[0]
    others = [resealed(report[:i] + bytes([report[i] ^ 1]) + report[i + 1 :]) for i in range(58)]
    right, _ = CAMPAIGN.format.validate(rows([changed(report), *others])[0])
    assert right.tolist() == [True] + [33 <= i < 53 for i in range(58)]
