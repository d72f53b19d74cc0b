"""Reports come from strangers: each counts once, and only if a device can have sent it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from commands import privot
from privot import Randomizer, Release, Schema, collect
from privot.collector.collecting import collect_files
from privot.core.errors import PrivotError
from privot.device import Device, Report, write_batch
from privot.mechanisms import Window
from privot.randomizer.integrity import seal
from privot.randomizer.reports.csv_reports import write_text
from privot.randomizer.reports.rows import REPORT_ID, ReportTable
from randomizer.strange_reports import answers, changed, homes


def test_copies_count_once_and_other_contents_of_an_id_too():
    release = homes(100)
    copied = Release(ReportTable.of(release.table, release.table.slice(0, 30)), release.randomizer)
    lying = changed(release, **{part: {5: release.table[part][6].as_py()} for part in ("x", "y")})
    lying = Release(ReportTable.of(lying.table.slice(5, 1)), release.randomizer)
    done = collect([copied, lying, release])
    assert (len(done.release), done.copies, done.quarantined.num_rows) == (101, 30 + 100, 0)
    held = done.release.table.to_pylist()
    assert all(row in held for row in [*release.table.to_pylist(), *lying.table.to_pylist()])
    again = collect([done.release, lying, done.release])
    assert again.release.table.equals(done.release.table)


def test_files_folders_bytes_and_releases_are_collected_together(tmp_path):
    release = write_inbox(tmp_path)
    found = collect(tmp_path / "inbox", release.randomizer)
    done = collect_files([tmp_path / "inbox"], tmp_path / "all.parquet", release.randomizer)
    assert found.release.table.equals(Release.load(tmp_path / "all.parquet").table)
    assert (found.copies, found.quarantined.num_rows) == (done.copies, done.quarantined)
    reasons = " ".join(map(str, found.quarantined["reason"].to_pylist()))
    assert "junk.parquet: the file cannot be read" in reasons
    assert "c.csv: a line of 2 fields instead of 3" in reasons
    whole = collect([release, str(tmp_path / "inbox" / "0*.parquet")])
    assert (len(whole.release), whole.copies) == (200, 50)
    first = collect(str(tmp_path / "inbox" / "000.parquet")).release
    assert first.table.num_rows == 1


def test_reports_in_binary_form_and_batches_of_them_are_collected():
    schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
    randomizer = Randomizer.calibrate(schema, epsilon=1.0)
    device = Device.from_json(randomizer.to_json())
    sent = [device.report({"bit": bit}).to_bytes() for bit in (True, False, True)]
    batch = write_batch([sent[1], sent[2]])
    found = collect([sent[0], batch, sent[1], b"cut short"], randomizer)
    assert (len(found.release), found.copies, found.quarantined.num_rows) == (3, 1, 1)
    assert len(collect(batch, randomizer).release) == 2
    assert len(collect(Report.from_bytes(sent[0]), randomizer).release) == 1


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ([], "sources are empty"),
        (b"1234", "give it as `randomizer`"),
        ([3], "give nothing else"),
        ("nowhere/*.parquet", "is not there"),
    ],
)
def test_what_is_no_source_is_refused(sources, words):
    with pytest.raises(PrivotError, match=re.escape(words)):
        collect(sources)


def test_a_release_of_another_randomizer_is_refused():
    release = homes(3)
    other = Randomizer.calibrate(release.schema, 3.0)
    with pytest.raises(PrivotError, match="made by another randomizer"):
        collect([release], other)


def test_answers_in_lists_are_compared_too():
    release = answers(50)
    twice = Release(ReportTable.of(release.table, release.table), release.randomizer)
    assert (len(collect([twice]).release), collect([twice]).copies) == (50, 50)
    table = release.table.set_column(
        release.table.column_names.index(REPORT_ID),
        REPORT_ID,
        pa.array([release.table[REPORT_ID][0].as_py()] * 50, pa.binary(16)),
    )
    one = Release(ReportTable.of(table), release.randomizer)
    found = {tuple(map(str, row.values())) for row in table.to_pylist()}
    assert len(collect([one]).release) == len(found)


def write_inbox(folder):
    """Files of one report, of many, CSV, in folders; what strangers add."""
    release = homes(200)
    rows, made_by = release.table, release.randomizer
    made_by.save(folder / "randomizer.json")
    inbox = folder / "inbox"
    (inbox / "deep" / "er").mkdir(parents=True)
    for k in range(50):
        Release(ReportTable.of(rows.slice(k, 1)), made_by).save(inbox / f"{k:03d}.parquet")
    Release(ReportTable.of(rows.slice(50, 100)), made_by).save(inbox / "deep" / "b.parquet")
    write_text(inbox / "deep" / "er" / "c.csv", [rows.slice(150)])
    # Strangers.
    (inbox / "junk.parquet").write_bytes(b"junk")
    (inbox / "notes.txt").write_text("not a report")
    (inbox / ".hidden.parquet").write_bytes(b"junk")
    other = Randomizer.calibrate(release.schema, 3.0)
    other.privatize({"x": [0.0], "y": [0.0]}).save(inbox / "other.parquet")
    Release(ReportTable.of(rows.slice(0, 3)), made_by).save(inbox / "again.parquet")
    far = changed(release, x={0: 1e9}, y={0: 1e9}, report_id={0: b"0" * 16})
    Release(ReportTable.of(far.table.slice(0, 1)), made_by).save(inbox / "far.parquet")
    with open(inbox / "deep" / "er" / "c.csv", "a") as file:
        file.write("0.5,abc," + "1" * 32 + "\n" + "0.5,0.5\n" + "0.5,0.5,short\n")
    return release


def test_an_inbox_of_files_by_strangers(tmp_path):
    release = write_inbox(tmp_path)
    done = privot(tmp_path, "collect", "inbox", "-r", "randomizer.json", "-o", "all.parquet")
    assert done.returncode == 0, done.stderr
    assert Release.load(tmp_path / "all.parquet").table.equals(release.table)
    assert "200 reports" in done.stdout
    assert "3 copies of reports were left out" in done.stderr
    assert "6 reports cannot be counted and are in all.parquet.quarantine.csv" in done.stderr
    lines = csv.read_csv(tmp_path / "all.parquet.quarantine.csv").to_pylist()
    found = {(os.path.basename(line["source"]), line["row"]): line["reason"] for line in lines}
    assert "cannot be read" in found[("junk.parquet", None)]
    assert "another randomizer" in found[("other.parquet", None)]
    assert found[("far.parquet", 1)] == "column 'home' holds what the randomizer does not report"
    assert "a line of 2 fields instead of 3" in found[("c.csv", None)]
    assert "half reported" in found[("c.csv", 51)]
    assert "no id" in found[("c.csv", 52)]
    assert sorted(os.listdir(tmp_path)) == [
        "all.parquet", "all.parquet.quarantine.csv", "inbox", "randomizer.json",
    ]  # fmt: skip


def test_strict_refuses_and_leaves_what_was_there(tmp_path):
    write_inbox(tmp_path)
    (tmp_path / "all.parquet").write_bytes(b"before")
    done = privot(
        tmp_path,
        "collect",
        "inbox",
        "-r",
        "randomizer.json",
        "-o",
        "all.parquet",
        "--strict",
        "--force",
    )
    assert done.returncode == 2
    assert "6 reports cannot be counted, the first is inbox/" in done.stderr
    assert (tmp_path / "all.parquet").read_bytes() == b"before"
    assert sorted(os.listdir(tmp_path)) == ["all.parquet", "inbox", "randomizer.json"]


def test_without_a_randomizer_others_reports_are_refused(tmp_path):
    write_inbox(tmp_path)
    with pytest.raises(PrivotError, match="without their randomizer|another randomizer"):
        collect_files([tmp_path / "inbox"], tmp_path / "all.parquet")
    pattern = tmp_path / "inbox" / "0*.parquet"
    assert collect_files([pattern], tmp_path / "all.parquet").num_reports == 50
    with pytest.raises(PrivotError, match="is not there"):
        collect_files([tmp_path / "nothing*"], tmp_path / "all.parquet")


def test_many_files_of_one_report(tmp_path):
    release = homes(200)
    for k in range(200):
        one = Release(ReportTable.of(release.table.slice(k, 1)), release.randomizer)
        one.save(tmp_path / f"{k}.parquet")
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_by_others = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_by_others + 60, limits[1]))
    try:
        done = collect_files([tmp_path], tmp_path / "all.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert done.num_reports == 200
    assert Release.load(tmp_path / "all.parquet").table.equals(release.table)


def test_a_release_with_strangers_is_fitted_without_them(tmp_path):
    """One of a hundred reports is far out, or a copy: the model is that of the others."""
    clean = answers(300)
    clean.save(tmp_path / "clean.parquet")
    cells = [[99_999]] * 3
    bad = changed(clean, **{"joint.cells": dict(enumerate(cells))}, report_id={0: b"a" * 16})
    rows = pa.concat_tables([clean.table, bad.table.slice(0, 3), clean.table.slice(0, 3)])
    Release(ReportTable.of(rows), clean.randomizer).save(tmp_path / "bad.parquet")
    with pytest.raises(PrivotError, match=r"report 301: .*altered"):
        Release.load(tmp_path / "bad.parquet")
    for name in ("clean", "bad"):
        done = privot(tmp_path, "fit", f"{name}.parquet", "-o", name, "--no-check")
        assert done.returncode == 0, done.stderr
    assert "3 reports cannot be counted and are in bad.quarantine.csv" in done.stderr
    assert "learned from 300 reports" in done.stdout
    sealed = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("clean", "bad")]
    assert sealed[0] == sealed[1]
    done = privot(tmp_path, "fit", "bad.parquet", "-o", "strict", "--strict")
    assert done.returncode == 2
    assert not (tmp_path / "strict").exists()


def test_copies_are_found_in_any_order_and_forged_ids_are_none(tmp_path):
    release = homes(100, keep_order=True)
    release.save(tmp_path / "all.parquet")
    assert len(Release.load(tmp_path / "all.parquet")) == 100
    row = release.table.slice(3, 1).to_pylist()[0]
    forged = changed(release, report_id={70: row[REPORT_ID]})
    forged.save(tmp_path / "forged.parquet")
    assert len(Release.load(tmp_path / "forged.parquet")) == 100
    twice = changed(forged, **{name: {71: value} for name, value in row.items()})
    twice.save(tmp_path / "twice.parquet")
    with pytest.raises(PrivotError, match="report 72: it is there twice"):
        Release.load(tmp_path / "twice.parquet")
    first = homes(1)
    twice = Release(ReportTable.of(first.table, first.table), first.randomizer)
    twice.save(tmp_path / "twice.parquet")
    with pytest.raises(PrivotError, match="report 2: it is there twice"):
        Release.load(tmp_path / "twice.parquet")


ABSURD = [10**400, -(10**400), 5e-324, 1e308, 2**70, True, None, "1", [], {}]


@pytest.mark.parametrize("absurd", ABSURD, ids=lambda v: f"{v!r:.10}")
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_absurd_numbers_in_a_randomizer_change_no_promise_and_end_in_words(mechanism, absurd):
    randomizer = homes(10, mechanism).randomizer
    text, promised, longest = randomizer.to_json(), str(randomizer.guarantee), 0
    for part in ("mechanism", "guarantee", "delta", "report_columns"):
        fields = json.loads(text)
        del fields["fingerprint"], fields["format"]
        if part == "mechanism":
            held = fields["mechanisms"]["home"]
            changed = [(held, name) for name in held if name != "kind"]
        elif part == "guarantee":
            changed = [(fields["guarantee"], "epsilon")]
        else:
            changed = [(fields, part)]
        for place, name in changed:
            before, place[name] = place[name], absurd
            stated = promised
            try:  # what is of no consequence may load: a δ that nothing spends
                stated = str(Randomizer.from_json(seal(**fields)).guarantee)
            except PrivotError as refused:
                longest = max(longest, len(str(refused)))
            assert stated == promised
            place[name] = before
    assert 0 < longest < 500


def test_the_decimal_context_changes_no_mechanism():
    """Neither where it is set before anything is imported, nor between."""
    code = (
        "import decimal; context = decimal.getcontext(); context.prec = 1\n"
        "from privot.mechanisms import Window\n"
        "for e, context.prec in ((0.1, 1), (1.0, 3), (4.0, 1)):\n"
        "    print(Window(e, 1, 1024, 60)._mixture.words)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = [str(Window(e, 1, 1024, 60)._mixture.words) for e in (0.1, 1.0, 4.0)]
    assert done.stdout.splitlines() == expected


def test_shuffled_batches_are_not_put_together():
    schema = Schema.from_dict(
        {
            "columns": {"works": {"kind": "boolean"}},
            "promise": {"epsilon": 1, "where": "shuffled", "delta": 1e-6, "people": 100},
        }
    )
    randomizer = Randomizer.calibrate(schema)
    batch, another = (randomizer.privatize({"works": [True] * 150}) for _ in range(2))
    assert collect(batch).release.guarantee == batch.guarantee
    with pytest.raises(PrivotError, match="2 sources of shuffled reports are not one batch"):
        collect([batch, another])
