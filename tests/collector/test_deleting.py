"""A deleted report is in no file, is not counted again, and is deleted or as before after any kill."""

import os
import shutil
import signal
import sqlite3

import pytest

from campaign_reports import CAMPAIGN, changed, ids_of, made, resealed, rows
from forked_commands import call
from privot import Release
from privot.collector.folder import FolderStore
from privot.collector.sealing import FolderStorage, delete_reports, ids_of_texts, seal, storage_at
from privot.collector.store import DELETED, DUPLICATE, NEW
from privot.core.errors import PrivotError
from privot.device import Report


def id_of(report):
    return Report.from_bytes(report).id


def held(folder):
    return set(Release.load(folder).table.column("report_id").to_pylist())


@pytest.mark.parametrize("sealed", [0, 60, 100])
def test_a_report_is_deleted_open_or_sealed_and_stays_refused(opened, tmp_path, sealed):
    store, reports, shelf = opened(), made(100), FolderStorage(tmp_path / "release")
    store.append(*rows(reports[:sealed] or reports[:1]))
    if sealed:
        seal(store, CAMPAIGN, shelf)
    store.append(*rows(reports))
    gone = [reports[3], reports[70]]
    assert delete_reports(store, shelf, [id_of(each) for each in gone]) == 2
    assert store.count == 98
    assert delete_reports(store, shelf, [id_of(gone[0])]) == 0
    assert not store.to_erase()
    for again in (False, True):
        if again:
            store.close()
            store = opened()
        assert store.append(*rows([*gone, changed(gone[1]), reports[0]])).tolist() == [
            *[DELETED] * 3,
            DUPLICATE,
        ]
        assert store.count == 98
    store.append(*rows(made(1)))
    seal(store, CAMPAIGN, shelf)
    assert len(held(tmp_path / "release")) == 99
    assert held(tmp_path / "release") >= ids_of(reports) - ids_of(gone)
    assert not held(tmp_path / "release") & ids_of(gone)
    store.close()


def test_all_reports_are_deleted_and_new_ones_taken(opened, tmp_path):
    store, reports, shelf = opened(), made(40), FolderStorage(tmp_path / "release")
    store.append(*rows(reports[:25]))
    seal(store, CAMPAIGN, shelf)
    store.append(*rows(reports))
    assert delete_reports(store, shelf) == 40
    assert store.count == 0
    with pytest.raises(PrivotError, match="0 rows"):
        Release.open(tmp_path / "release")
    assert (store.append(*rows(reports)) == DELETED).all()
    later = made(5)
    assert (store.append(*rows(later)) == NEW).all()
    seal(store, CAMPAIGN, shelf)
    assert held(tmp_path / "release") == ids_of(later)
    store.close()


@pytest.mark.parametrize("sealed", [False, True])
def test_forged_twins_are_deleted_with_their_id(opened, tmp_path, sealed):
    store, reports, shelf = opened(), made(5), FolderStorage(tmp_path / "release")
    twin, third = changed(reports[2]), resealed(reports[2][:-5] + b"\xff" + reports[2][-4:])
    store.append(*rows([twin, *reports]))
    if sealed:
        seal(store, CAMPAIGN, shelf)
    store.append(*rows([changed(reports[3])]))
    assert store.count == 7
    assert delete_reports(store, shelf, [id_of(twin), id_of(reports[3])] * 2) == 4
    sent = [twin, reports[2], third, reports[3], changed(reports[3]), reports[0]]
    for again in range(3):
        assert store.append(*rows(sent)).tolist() == [DELETED] * 5 + [DUPLICATE]
        assert store.count == 3
        if again == 1:
            seal(store, CAMPAIGN, shelf)
        store.close()
        store = opened()
    assert held(tmp_path / "release") == ids_of([reports[0], reports[1], reports[4]])
    assert len(Release.load(tmp_path / "release")) == 3
    store.close()


def test_an_id_of_no_report_deletes_nothing(opened, tmp_path):
    store, reports = opened(), made(3)
    store.append(*rows(reports))
    with pytest.raises(PrivotError, match="no report has the id 0+: nothing was deleted"):
        delete_reports(store, FolderStorage(tmp_path / "r"), [id_of(reports[0]), bytes(16)])
    assert store.count == 3
    assert (store.append(*rows(reports)) == DUPLICATE).all()
    for text in ("12", "x" * 32, " " + "0" * 31):
        with pytest.raises(PrivotError, match="32 hexadecimal digits"):
            ids_of_texts([text])
    assert ids_of_texts(["ab" * 16, "AB" * 16]) == [b"\xab" * 16]
    store.close()


@pytest.mark.parametrize("damaged", ["", '{"format": 1}', '{"shards": 3}'])
def test_a_damaged_manifest_stops_a_deletion_that_goes_on_once_it_is_restored(
    opened, tmp_path, damaged
):
    store, reports, shelf = opened(), made(20), FolderStorage(tmp_path / "release")
    store.append(*rows(reports))
    seal(store, CAMPAIGN, shelf)
    manifest = tmp_path / "release" / "manifest.json"
    whole = manifest.read_text()
    manifest.write_text(damaged)
    with pytest.raises(PrivotError, match=r"manifest\.json of the release is damaged: restore it"):
        delete_reports(store, shelf, [id_of(reports[3])])
    assert manifest.read_text() == damaged
    assert store.to_erase()
    manifest.write_text(whole)
    delete_reports(store, shelf, [id_of(reports[3])])
    assert not store.to_erase()
    assert held(tmp_path / "release") == ids_of(reports) - ids_of([reports[3]])
    store.close()


def test_quarantine_and_a_shelf_at_an_address_forget_it_too(opened, tmp_path):
    store, reports, shelf = (
        opened(),
        made(10),
        storage_at(f"memory://{tmp_path.name}/{id(tmp_path)}"),
    )
    strange = resealed(reports[3][:58] + b"\xff" * (len(reports[3]) - 62) + reports[3][-4:])
    store.append(*rows([strange, *reports[4:]]))
    seal(store, CAMPAIGN, shelf)
    delete_reports(store, shelf, [id_of(strange), id_of(reports[5])])
    shelf.fetch("quarantine-000000.csv", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_text().split() == ["reason,report"]
    for name in ("manifest.json", "shard-000000.parquet"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        shelf.fetch(name, tmp_path / "copy" / name)
    assert held(tmp_path / "copy") == ids_of([reports[4], *reports[6:]])
    store.close()


def test_a_release_that_is_elsewhere_is_not_called_erased(opened, tmp_path):
    store, reports = opened(), made(10)
    store.append(*rows(reports))
    seal(store, CAMPAIGN, FolderStorage(tmp_path / "here"))
    with pytest.raises(PrivotError, match="give --release"):
        delete_reports(store, FolderStorage(tmp_path / "there"), [id_of(reports[0])])
    assert store.to_erase() == {id_of(reports[0])}
    seal(store, CAMPAIGN, FolderStorage(tmp_path / "here"))  # goes on where that broke off
    assert held(tmp_path / "here") == ids_of(reports[1:])
    assert not store.to_erase()
    store.close()


@pytest.mark.parametrize("each", [1, 7, 300])
def test_no_file_of_the_folder_holds_the_content(tmp_path, each):
    """Not even its digest, by which a content of few possible ones would be found."""
    store, reports = FolderStore(tmp_path / "s", CAMPAIGN.format), made(600)
    for start in range(0, 300, each):
        store.append(*rows(reports[start : start + each]))
    seal(store, CAMPAIGN, FolderStorage(tmp_path / "s" / "release"))
    for start in range(300, 600, each):
        store.append(*rows(reports[start : start + each]))
    gone = [*reports[2:300:40], *reports[302:600:40]]
    delete_reports(store, FolderStorage(tmp_path / "s" / "release"), [id_of(each) for each in gone])
    for closed in (False, True):
        if closed:
            store.close()
        files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        for report in gone:
            digest = CAMPAIGN.format.validate(*rows([report]))[1][0, 2].tobytes()
            traces = (report, digest, digest[::-1], id_of(report) + report[49:-4])
            assert not [path for path, data in files.items() if any(t in data for t in traces)]
            named = [path.name for path, data in files.items() if id_of(report) in data]
            assert not closed or named == ["reports.db"]


def test_bytes_that_no_rebuilding_removed_are_told_and_removed_at_the_next_start(tmp_path):
    store, reports = FolderStore(tmp_path / "s", CAMPAIGN.format), made(600)
    store.append(*rows(reports))
    connection = store._connection

    class Full:
        def __getattr__(self, name):
            return getattr(connection, name)

        def execute(self, query, *given):
            if query == "VACUUM":
                raise sqlite3.OperationalError("database or disk is full")
            return connection.execute(query, *given)

    store._connection = Full()
    for _ in range(2):
        with pytest.raises(PrivotError, match="may hold bytes of deleted reports.*make room"):
            store.delete([id_of(reports[5])])
    with pytest.raises(PrivotError, match="make room"):
        store.finish_erasing([])
    store.close()
    store = FolderStore(tmp_path / "s", CAMPAIGN.format)
    assert (store.count, store.to_erase()) == (599, {id_of(reports[5])})
    store.close()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and reports[5] in p.read_bytes()]


def events(kill_at, done):
    """Count statements and replaced files, and end the process before one of them."""
    left, replace, connect = [kill_at], os.replace, sqlite3.connect

    def count(*_):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def replaced(*paths):
        count()
        replace(*paths)

    def connected(*given, **more):
        connection = connect(*given, **more)
        connection.set_trace_callback(count)
        return connection

    os.replace, sqlite3.connect = replaced, connected
    done()
    os._exit(0)


def test_a_kill_at_any_step_leaves_the_old_or_the_new(tmp_path):
    call(delete_with_a_kill_at_every_step, tmp_path)


def delete_with_a_kill_at_every_step(folder):
    reports, shelf = made(60), FolderStorage(folder / "s" / "release")
    store = FolderStore(folder / "s", CAMPAIGN.format)
    store.append(*rows(reports[:40]))
    seal(store, CAMPAIGN, shelf)
    store.append(*rows(reports[40:]))
    store.close()
    gone = [reports[5], reports[50]]
    names = [id_of(each) for each in gone]
    deletions = []
    for step in range(200):
        copy = shutil.copytree(folder / "s", folder / str(step))
        shelf = FolderStorage(copy / "release")
        if not (child := os.fork()):
            events(
                step,
                lambda copy=copy, shelf=shelf: delete_reports(
                    FolderStore(copy, CAMPAIGN.format), shelf, names
                ),
            )
        whole = not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert held(copy / "release") in (ids_of(reports[:40]), ids_of(reports[:40]) - ids_of(gone))
        store = FolderStore(copy, CAMPAIGN.format)
        deletions.append(store.count == 58)
        assert store.count == (58 if deletions[-1] else 60)
        expected = DELETED if deletions[-1] else DUPLICATE
        assert (store.append(*rows(gone)) == expected).all()
        seal(store, CAMPAIGN, shelf)
        assert held(copy / "release") == ids_of(reports) - (
            ids_of(gone) if deletions[-1] else set()
        )
        store.close()
        if deletions[-1]:
            files = [path for path in copy.rglob("*") if path.is_file() and path.name[0] != "."]
            assert not [path for path in files if any(r in path.read_bytes() for r in gone)]
        shutil.rmtree(copy)
        if whole:
            break
    assert whole
    assert deletions == sorted(deletions)
    assert 10 < deletions.index(True) < len(deletions) - 10
