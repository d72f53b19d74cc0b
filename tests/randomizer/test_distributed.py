"""A real Ray cluster of several processes, started and stopped here: nobody lost, nobody twice."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privot
from campaign_reports import CAMPAIGN, ids_of, made, rows
from numbered_people import RANDOMIZER, SCHEMA, each_once, people, write_people
from privot import Randomizer, Release
from privot.collector.folder import FolderStore
from privot.collector.sealing import seal, storage_at
from privot.core.errors import PrivotError
from privot.randomizer.publishing import unfinished

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytest.importorskip("ray.data", reason="the extra `ray` is not installed")

from privot.randomizer.distributed import _noise_batch, privatize, privatize_files  # noqa: E402

NUM = 40_000
# Where workers find this module, and the library that is tested.
SEEN = [str(Path(__file__).parents[1]), str(Path(privot.__file__).parents[1])]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # Unix sockets' paths are short, so not under pytest's folders.
    folder = tempfile.mkdtemp(prefix="privot-ray-")
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(SEEN)}},
        _temp_dir=folder,
    )
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def worker_processes():
    """Processes under this one that noise a part."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue
        pid, rest = int(text.split(" ", 1)[0]), text.rsplit(")", 1)[1].split()
        parents[pid] = int(rest[1])
    found = []
    for pid in parents:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        try:
            line = (Path("/proc") / str(pid) / "cmdline").read_text()
        except OSError:
            continue
        if above == os.getpid() and line.startswith("ray::_make_part"):
            found.append(pid)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to find the workers")
def test_a_killed_worker_loses_and_doubles_nobody(tmp_path):
    """All 20 parts of the source, one worker killed when some are there."""
    write_people(tmp_path / "people.parquet", NUM)
    killed = []

    def kill_one(doing, rows, expected):
        if doing == "noise" and not killed:
            for pid in worker_processes()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    done = privatize_files(
        RANDOMIZER,
        tmp_path / "people.parquet",
        tmp_path / "release",
        part_rows=2000,
        progress=kill_one,
    )
    assert killed
    assert done.num_rows == NUM
    assert each_once(tmp_path / "release", NUM)
    assert len(Release.load(tmp_path / "release")) == NUM
    assert not unfinished(tmp_path / "release").exists()


@pytest.mark.slow
def test_parts_of_a_killed_run_are_kept(tmp_path):
    write_people(tmp_path / "people.parquet", NUM)

    class Killed(BaseException):
        pass

    def kill_all(doing, rows, expected):
        raise Killed

    source, output = tmp_path / "people.parquet", tmp_path / "release.parquet"
    with pytest.raises(Killed):
        privatize_files(RANDOMIZER, source, output, part_rows=10_000, progress=kill_all)
    before = {path.name: path.stat().st_ino for path in unfinished(output).glob("part-*.arrow")}
    assert before
    done = privatize_files(RANDOMIZER, source, output, part_rows=10_000, left="resume")
    assert done.resumed_rows >= 10_000 * len(before)
    assert each_once(output, NUM)


@pytest.mark.slow
def test_a_refusal_in_a_worker_leaves_nothing(tmp_path):
    values = np.arange(NUM, dtype=float)
    values[NUM - 5] = np.nan
    pq.write_table(pa.table({"person": values}), tmp_path / "people.parquet")
    with pytest.raises(PrivotError, match="has no value: declare nullable"):
        privatize_files(
            RANDOMIZER, tmp_path / "people.parquet", tmp_path / "release", part_rows=10_000
        )
    assert os.listdir(tmp_path) == ["people.parquet"]


class DiesOnce:
    """A stage that kills its worker the first time that it is reached."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, batch):
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch


@pytest.mark.slow
def test_a_data_set_survives_a_killed_worker(tmp_path):
    write_people(tmp_path / "people.parquet", NUM)
    dataset = ray.data.read_parquet(str(tmp_path / "people.parquet"), override_num_blocks=8)
    reports = privatize(dataset, RANDOMIZER).map_batches(
        DiesOnce(tmp_path / "died"), batch_format="pyarrow"
    )
    seen = [batch["person"] for batch in reports.iter_batches(batch_format="numpy")]
    assert (tmp_path / "died").exists()
    assert np.array_equal(np.sort(np.rint(np.concatenate(seen))), np.arange(NUM))


class Worker:
    """A process of its own that noises as a task of `privatize` does."""

    def noise(self, text):
        reports = _noise_batch(pa.table({"person": np.full(500, 5e5)}), text)
        return os.getpid(), reports["person"].to_numpy()


def test_workers_draw_noise_of_their_own():
    """The same record everywhere: were a generator's state sent along, the reports would be equal."""
    text = Randomizer.calibrate(SCHEMA, 0.1, report="split").to_json()
    workers = [ray.remote(num_cpus=0)(Worker).remote() for _ in range(3)]
    drawn = ray.get([worker.noise.remote(text) for worker in workers * 2])
    assert len({process for process, _ in drawn}) == 3
    starts = {tuple(noise[:4]) for _, noise in drawn}  # of 2^20 values each: never equal by chance
    assert len(starts) == 6


def test_only_counted_sources_are_cut(tmp_path):
    (tmp_path / "people.csv").write_text("person\n1\n")
    with pytest.raises(PrivotError, match="cannot be cut"):
        privatize_files(RANDOMIZER, tmp_path / "people.csv", tmp_path / "release")
    pq.write_table(people(0, 0), tmp_path / "none.parquet")
    with pytest.raises(PrivotError, match="cannot be cut"):
        privatize_files(RANDOMIZER, tmp_path / "none.parquet", tmp_path / "release")


def test_shards_of_a_collector_are_read_by_ray_data(tmp_path):
    reports = made(2000)
    store = FolderStore(tmp_path / "store", CAMPAIGN.format)
    for start in range(0, 2000, 500):
        store.append(*rows(reports[start : start + 500]))
        seal(store, CAMPAIGN, storage_at((tmp_path / "release").as_uri()))
    store.close()
    dataset = ray.data.read_parquet(str(tmp_path / "release"), file_extensions=["parquet"])
    seen = {row["report_id"] for row in dataset.take_all()}
    assert seen == ids_of(reports)
    assert dataset.count() == len(Release.load(tmp_path / "release"))
