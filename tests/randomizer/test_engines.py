"""Engines run, repeat and lose tasks: everybody is in the release once. The engines are real ones."""

import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import privot
from numbered_people import RANDOMIZER, SCHEMA, each_once, people, who_reported, write_people
from privot import PrivotError, Randomizer, Release
from privot.randomizer import Counts, EngineRun, count, count_batches, merge_counts
from privot.randomizer.engines import COUNTS
from privot.randomizer.publishing import unfinished

NUM = 20_000
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "engines.md"
TESTS = str(Path(__file__).parents[1])
SEEN = os.pathsep.join(
    [str(Path(privot.__file__).parents[1]), TESTS, os.environ.get("PYTHONPATH", "")]
)


def needs(module):
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What a snippet of the page finds: records and a randomizer."""
    write_people(tmp_path / "people.parquet", NUM)
    RANDOMIZER.save(tmp_path / "randomizer.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SEEN)
    return tmp_path


def begin(folder, **options):
    return EngineRun.begin(RANDOMIZER, folder / "release", part_rows=4096, **options)


def snippet(engine):
    """The lines of the page for an engine, those for all before."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split(f"\n## {engine}\n")[1].split("\n## ")[0]
    lines = text.split("\n## ")[0] + section
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", lines, re.S | re.M))


def require_each_once_and_counted():
    """What the lines of the page leave behind: a release, and the counts of just this."""
    assert each_once("release", NUM)
    assert Path("people.counts").read_bytes() == count("release").to_bytes()


def parts(folder):
    return len([*unfinished(folder / "release").glob("part-*.arrow")])


def dying_once(run, marker):
    """Its function, but whose process is killed when it has written its first parts."""

    def privatize(batches):
        import os
        import signal

        receipts = list(run.privatize(batches))
        if not os.path.exists(marker):
            open(marker, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from receipts

    return privatize


# The function itself, called as engines do.


def test_only_what_one_execution_names_is_published(tmp_path):
    run = pickle.loads(pickle.dumps(begin(tmp_path, num_rows=NUM)))
    batches = people(0, NUM).to_batches(300)
    cut = [batches[:20], [], batches[20:]]
    first = [receipt for task in cut for receipt in run.privatize(task)]
    again = [receipt for task in reversed(cut) for receipt in run.privatize(task)]
    whole = [*run.privatize([people(0, NUM)], workers=2)]
    assert parts(tmp_path) == 2 * 6 + 5
    for wrong in (first + again, whole + again[:1], again[:1], first[1:2]):
        with pytest.raises(PrivotError, match="give all receipts of one execution"):
            run.publish(wrong)
    assert run.publish(first + first[:1]).num_rows == NUM
    assert each_once(tmp_path / "release", NUM)
    assert len(Release.load(tmp_path / "release")) == NUM
    assert os.listdir(tmp_path) == ["release"]


def test_equal_people_are_not_one(tmp_path):
    run = begin(tmp_path)
    alike = [people(7, 8)] * 3
    run.publish(receipt for batch in alike for receipt in run.privatize([batch]))
    assert who_reported(tmp_path / "release").tolist() == [7, 7, 7]


def test_what_runs_after_the_end_is_refused(tmp_path):
    run = begin(tmp_path)
    receipts = pa.Table.from_batches(run.privatize([people(0, 50)]))
    run.publish(receipts)
    for late in (lambda: [*run.privatize([people(0, 50)])], lambda: run.publish(receipts)):
        with pytest.raises(PrivotError, match="would spend their budget twice"):
            late()
    with pytest.raises(PrivotError, match="would spend their budget twice"):
        begin(tmp_path)
    assert each_once(tmp_path / "release", 50)


def test_the_first_list_stays(tmp_path):
    """A driver that was killed after its list is resumed with it, however often one is given."""
    run = begin(tmp_path, num_rows=50)
    first, second = (pa.Table.from_batches(run.privatize([people(0, 50)])) for _ in range(2))
    run.commit(first)
    run.commit(second)
    with pytest.raises(PrivotError, match="--resume"):
        begin(tmp_path, num_rows=50)
    named = run.parts.paths()
    resumed = begin(tmp_path, num_rows=50, leftover="resume")
    assert resumed.parts.paths() == named
    assert len(named) == 1
    assert resumed.publish().num_rows == 50
    assert each_once(tmp_path / "release", 50)


def test_nothing_is_published_without_receipts(tmp_path):
    run = begin(tmp_path)
    receipts = [*run.privatize([people(0, 50)])]
    with pytest.raises(PrivotError, match="lacks receipts"):
        run.publish()
    run.parts.path(run.parts.completed().pop()).unlink()
    with pytest.raises(PrivotError, match="lacks parts"):
        run.publish(receipts)
    assert not (tmp_path / "release").exists()


def test_a_refused_record_leaves_no_receipt(tmp_path):
    run = begin(tmp_path)
    with pytest.raises(PrivotError, match="row 51 of the batches"):
        [*run.privatize([people(0, 50), pa.table({"person": [np.nan]})])]
    with pytest.raises(PrivotError, match="0 records"):
        run.publish(run.privatize([]))


def bits(num):
    schema = privot.Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
    randomizer = Randomizer.calibrate(schema, epsilon=1.0)
    return randomizer, pa.table({"bit": np.arange(num) % 2 == 0})


def test_counts_of_a_run_are_those_of_its_named_parts(tmp_path):
    randomizer, table = bits(3000)
    output = tmp_path / "people.counts"
    run = EngineRun.begin(randomizer, output, num_rows=3000, part_rows=1024)
    receipts = [*run.privatize(table.to_batches(100))]
    again = [*run.privatize([table])]
    with pytest.raises(PrivotError, match="give all receipts of one execution"):
        run.publish(receipts + again)
    named = [run.parts.path(number) for number in sorted(run.parts.completed())]
    assert run.publish(again).num_rows == len(Counts.load(output)) == 3000
    assert len(named) == 6
    assert os.listdir(tmp_path) == ["people.counts"]
    with pytest.raises(PrivotError, match="would spend their budget twice"):
        EngineRun.begin(randomizer, output)


def test_counts_are_refused_before_the_first_record(tmp_path):
    columns = {"bit": {"kind": "boolean"}}
    promise = {"epsilon": 1, "where": "shuffled", "delta": 1e-5, "people": 300}
    shuffled = privot.Schema.from_dict({"columns": columns, "promise": promise})
    with pytest.raises(PrivotError, match="promises shuffled reports"):
        EngineRun.begin(Randomizer.calibrate(shuffled), tmp_path / "people.counts")
    numbers = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "ab"}
    schema = privot.Schema.from_dict({"columns": numbers})
    noisy = Randomizer.calibrate(schema, epsilon=1.0, report="split", mechanism="laplace")
    with pytest.raises(PrivotError, match="are not counted"):
        EngineRun.begin(noisy, tmp_path / "people.counts")
    assert not os.listdir(tmp_path)


def test_a_report_is_counted_once(tmp_path):
    randomizer, table = bits(3000)
    release = randomizer.privatize(table)
    tasks = [release.table[:1000], release.table[:0], release.table[1000:]]
    counted = [
        pa.Table.from_batches(count_batches(task.to_batches(90), randomizer)) for task in tasks
    ]
    assert merge_counts([*counted, counted[0]]).to_bytes() == count(release).to_bytes()
    other = [*count_batches([release.table[2990:]], randomizer)]
    with pytest.raises(PrivotError, match="share 10 reports"):
        merge_counts([*counted, *other])
    with pytest.raises(PrivotError, match="no reports"):
        merge_counts(counted[1:2])


def test_shuffled_reports_are_not_counted_by_tasks():
    promise = {"epsilon": 1, "where": "shuffled", "delta": 1e-5, "people": 300}
    columns = {"bit": {"kind": "boolean"}}
    schema = privot.Schema.from_dict({"columns": columns, "promise": promise})
    randomizer = Randomizer.calibrate(schema)
    release = randomizer.privatize({"bit": np.arange(400) % 2 == 0})
    with pytest.raises(PrivotError, match="tables do not say which reports were shuffled"):
        list(count_batches([release.table], randomizer))
    again = randomizer.privatize({"bit": np.arange(400) % 2 == 0})
    with pytest.raises(PrivotError, match="count each batch by itself"):
        merge_counts(pa.table({COUNTS: [count(release).to_bytes(), count(again).to_bytes()]}))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_types_that_an_engine_changed_are_restored(kind):
    randomizer, table = bits(500)
    release = randomizer.privatize(table)
    changed = release.table.drop_columns("report_id")
    changed = changed.append_column("report_id", release.table["report_id"].cast(kind))
    counts = merge_counts(count_batches([changed], randomizer))
    assert counts.to_bytes() == count(release).to_bytes()


# Engines, by what the page shows, and killed.


@pytest.mark.parametrize(
    "engine",
    [pytest.param("DuckDB", marks=needs("duckdb")), pytest.param("Polars", marks=needs("polars"))],
)
def test_queries(folder, engine):
    exec(snippet(engine), {})
    require_each_once_and_counted()


@needs("polars")
def test_a_function_inside_of_a_lazy_frame_may_run_twice(folder):
    import polars as pl

    run = begin(folder, num_rows=NUM)
    receipts = pl.scan_parquet("people.parquet").map_batches(
        lambda frame: pl.from_arrow(pa.Table.from_batches(run.privatize([frame.to_arrow()]))),
        schema={"receipt": pl.String},
    )
    receipts.collect()
    run.publish(receipts.collect())
    assert each_once("release", NUM)
    with pytest.raises(Exception, match="budget twice"):
        receipts.collect()


@needs("pyspark")
@pytest.mark.parametrize("remote", [False, True], ids=["classic", "connect"])
def test_spark(folder, remote):
    environment = os.environ | ({"SPARK_REMOTE": "local[2]"} if remote else {"MASTER": "local[2]"})
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", snippet("Spark")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    require_each_once_and_counted()


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", SEEN)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        built = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        session = built.config("spark.log.level", "OFF").getOrCreate()
        yield session
        session.stop()


@needs("pyspark")
def test_spark_counts_columns_whose_names_have_dots(folder, spark):
    """Its `mapInArrow` takes a dot for a field of a struct, so the page wraps reports into one."""
    columns = {name: {"kind": "boolean"} for name in "ab"}
    schema = privot.Schema.from_dict({"columns": columns})
    randomizer = Randomizer.calibrate(schema, epsilon=1.0, report="joint")
    release = randomizer.privatize({name: np.arange(3000) % 2 == 0 for name in "ab"})
    assert any("." in name for name in release.table.column_names)
    Path("release").mkdir()
    release.save("release/joint.parquet")
    lines = snippet("Spark")
    given = {"pa": pa, "spark": spark, "randomizer": randomizer, "count_batches": count_batches}
    lines = lines[lines.index("def count_structs") :].replace("release/", f"{folder}/release/")
    exec(lines, given | {"merge_counts": merge_counts})
    assert Path("people.counts").read_bytes() == count(release).to_bytes()


@needs("pyspark")
def test_spark_repeats_tasks_and_actions(folder, spark):
    table = spark.read.parquet(str(folder / "people.parquet")).repartition(5)
    run = begin(folder, num_rows=NUM)
    receipts = table.mapInArrow(dying_once(run, str(folder / "died")), "receipt string")
    assert receipts.count() == 5
    assert (folder / "died").exists()
    assert parts(folder) >= 6
    run.publish(receipts.toArrow())
    assert each_once("release", NUM)
    with pytest.raises(Exception, match="budget twice"):
        receipts.count()


@needs("apache_beam")
@pytest.mark.parametrize("repeats", [0, 2])
def test_beam_replays_bundles(folder, repeats, monkeypatch):
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    options = PipelineOptions([f"--direct_runner_bundle_repeat={repeats}"])
    monkeypatch.setattr(beam, "Pipeline", lambda make=beam.Pipeline: make(options=options))
    written, publish = [], EngineRun.publish
    monkeypatch.setattr(
        EngineRun, "publish", lambda run: written.append(parts(folder)) or publish(run)
    )
    exec(snippet("Beam"), {})
    assert written[0] >= (1 + repeats) * NUM // 1000
    require_each_once_and_counted()


@pytest.fixture(scope="module")
def cluster():
    import ray

    place = tempfile.mkdtemp(
        prefix="privot-ray-"
    )  # Unix sockets' paths are short: not pytest's folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20,
            runtime_env={"env_vars": {"PYTHONPATH": SEEN}}, _temp_dir=place,
        )  # fmt: skip
        yield ray
        ray.shutdown()
    shutil.rmtree(place, ignore_errors=True)


@needs("ray")
def test_ray(folder, cluster):
    exec(snippet("Ray"), {})
    require_each_once_and_counted()


@needs("ray")
def test_ray_repeats_tasks_and_executions(folder, cluster):
    run = begin(folder, num_rows=NUM)
    privatize = dying_once(run, str(folder / "died"))
    table = cluster.data.read_parquet(str(folder / "people.parquet"))
    receipts = table.map_batches(
        lambda table: pa.Table.from_batches(privatize([table])),
        batch_format="pyarrow",
        batch_size=4096,
    )
    tasks = receipts.count()  # which depends on Ray's version
    assert (folder / "died").exists()
    assert parts(folder) > tasks >= 5
    run.publish(receipts.iter_batches(batch_format="pyarrow"))
    assert each_once("release", NUM)


@needs("ray")
def test_workers_draw_noise_of_their_own(cluster):
    """The same record everywhere: were a generator's state sent along, the reports would be equal."""
    randomizer = Randomizer.calibrate(SCHEMA, 0.1, report="split")
    randomizer.privatize({"person": [1.0]})

    class Worker:
        def noise(self, randomizer):
            import os

            release = randomizer.privatize({"person": np.full(500, 5e5)}, keep_order=True)
            return os.getpid(), release.table["person"].to_numpy()

    workers = [cluster.remote(num_cpus=0)(Worker).remote() for _ in range(3)]
    drawn = cluster.get([worker.noise.remote(randomizer) for worker in workers * 2])
    assert len({process for process, _ in drawn}) == 3
    starts = {tuple(noise[:4]) for _, noise in drawn}  # of 2^20 values each: never equal by chance
    assert len(starts) == 6
