"""Executors are killed (SIGKILL) with what they had finished: everybody is noised and counted once.

`test_engines` kills workers that run a task. Here finished tasks are lost too: an executor of Spark with
the output of its tasks, a node of Ray with its objects, a worker of Beam with the whole pipeline.
"""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from numbered_people import RANDOMIZER, each_once, people, write_people
from privot import PrivotError
from privot.randomizer import Counts, EngineRun, count, count_batches, merge_counts
from privot.randomizer.publishing import unfinished
from randomizer.test_engines import SEEN, needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
NUM, TASKS = 6_000, 6


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_people(tmp_path / "people.parquet", NUM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SEEN)
    return tmp_path


def lines(path):
    """What tasks have noted in a file, each by one write."""
    return Path(path).read_text().split()


def require_each_once(output):
    """Everybody is in the release once; or as many were counted as there are."""
    assert len(Counts.load(output)) == NUM if output.suffix else each_once(output, NUM)


def noting(function, log):
    """A function of batches, whose calls leave a line in a file once they have finished."""

    def call(batches):
        found = list(function(batches))
        with open(log, "a") as file:
            file.write("finished\n")
        yield from found

    return call


@pytest.fixture(scope="module")
def executors():
    """Spark with two executors, which are processes of their own."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", SEEN)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        built = SparkSession.builder.master("local-cluster[2,1,1024]")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",  # its stages would be computed one query at a time
        }.items():
            built = built.config(name, value)
        session = built.getOrCreate()
        yield session
        session.stop()


def killing_its_executor(marker):
    """A function that kills the executor that runs it, the first time it is called.

    A worker of Python is a child of a daemon, which is a child of the executor's virtual machine.
    """

    def call(batches):
        rows = list(batches)
        if not os.path.exists(marker):
            open(marker, "x").close()
            with open(f"/proc/{os.getppid()}/stat") as file:
                os.kill(int(file.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        yield from rows

    return call


@needs("pyspark")
@pytest.mark.parametrize("suffix", ["", ".counts"], ids=["release", "counts"])
def test_spark_loses_an_executor_with_finished_tasks(folder, executors, suffix):
    """Its shuffled receipts are lost, so that tasks which had finished run again elsewhere.

    All are gathered by one task: if another one had delivered its result, Spark would give up, as the
    tasks that run again do not return the same receipts.
    """
    run = EngineRun.begin(RANDOMIZER, folder / f"release{suffix}", num_rows=NUM)
    done, died = str(folder / "done"), str(folder / "died")
    table = executors.read.parquet(str(folder / "people.parquet")).repartition(TASKS)
    receipts = table.mapInArrow(noting(run.privatize, done), "receipt string").repartition(1)
    found = receipts.mapInArrow(killing_its_executor(died), "receipt string").toArrow()
    assert os.path.exists(died)
    assert len(lines(done)) > TASKS
    assert len([*unfinished(run.output).glob("part-*.arrow")]) > TASKS
    run.publish(found)
    require_each_once(run.output)


@needs("pyspark")
def test_spark_loses_an_executor_that_has_counted(folder, executors):
    release = RANDOMIZER.privatize(people(0, NUM))
    release.save(folder / "reports.parquet")
    done, died = str(folder / "done"), str(folder / "died")

    def count_structs(structs):
        batches = (pa.RecordBatch.from_struct_array(batch.column(0)) for batch in structs)
        return count_batches(batches, RANDOMIZER)

    reports = executors.read.parquet(f"{folder}/reports.parquet").selectExpr("struct(*) as report")
    counts = reports.repartition(TASKS).mapInArrow(noting(count_structs, done), "counts binary")
    counts = counts.repartition(1).mapInArrow(killing_its_executor(died), "counts binary")
    assert merge_counts(counts.toArrow()).to_bytes() == count(release).to_bytes()
    assert len(lines(done)) > TASKS


@needs("ray")
@pytest.mark.parametrize("suffix", ["", ".counts"], ids=["release", "counts"])
def test_ray_loses_a_node_with_finished_tasks(folder, suffix):
    """Its objects, the receipts, are lost once all tasks have finished, and are computed again."""
    command = [sys.executable, "-c", RAY, str(folder), suffix]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > TASKS  # parts
    require_each_once(folder / f"release{suffix}")


RAY = f"""
import sys
from pathlib import Path
import pyarrow as pa
import ray
from ray.cluster_utils import Cluster
from numbered_people import RANDOMIZER
from privot.randomizer import EngineRun
from privot.randomizer.publishing import unfinished

folder, suffix = Path(sys.argv[1]), sys.argv[2]
NUM, TASKS = {NUM}, {TASKS}
size = {{"object_store_memory": 100 * 2**20}}
cluster = Cluster(True, head_node_args={{"num_cpus": 0, "include_dashboard": False, **size}})
lost = cluster.add_node(num_cpus=1, **size)
ray.init(address=cluster.address, log_to_driver=False)
run = EngineRun.begin(RANDOMIZER, folder / f"release{{suffix}}", num_rows=NUM)

@ray.remote(num_cpus=1, max_retries=-1)
def task(first):
    import numpy as np
    people = pa.table({{"person": np.arange(first, first + NUM // TASKS, dtype=float)}})
    # Large enough that it is an object of the node's store, not sent to the driver within the answer.
    receipts = pa.Table.from_batches(run.privatize([people]))
    return receipts.append_column("more", [[bytes(2**18)]])

receipts = [task.remote(first) for first in range(0, NUM, NUM // TASKS)]
ray.wait(receipts, num_returns=TASKS, fetch_local=False)
cluster.remove_node(lost, allow_graceful=False)
cluster.add_node(num_cpus=1, **size)
found = ray.get(receipts)
parts = len([*unfinished(run.output).glob("part-*.arrow")])
run.publish(found)
print(parts)
ray.shutdown()
cluster.shutdown()
"""


@needs("apache_beam")
def test_beam_loses_a_worker_and_the_pipeline_runs_again(folder):
    """Its runner of one machine gives up; the same run takes the receipts of the second execution."""
    run = EngineRun.begin(RANDOMIZER, folder / "release", num_rows=NUM)
    (folder / "run.pickle").write_bytes(pickle.dumps(run))
    command = [sys.executable, "-c", BEAM, str(folder)]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode != 0
    assert (folder / "died").exists()
    with pytest.raises(PrivotError, match="lacks receipts"):
        run.publish()
    before = len([*unfinished(run.output).glob("part-*.arrow")])
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr[-3000:]
    assert before > 0
    assert each_once("release", NUM)


BEAM = """
import os, pickle, signal, sys
from pathlib import Path
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

os.chdir(sys.argv[1])
run = pickle.loads(Path("run.pickle").read_bytes())

def privatize(table):
    receipts = list(run.privatize([table]))
    if not os.path.exists("died"):
        open("died", "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return receipts

options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
with beam.Pipeline("FnApiRunner", options=options) as pipeline:
    (
        pipeline
        | beam.io.ReadFromParquetBatched("people.parquet")
        | beam.FlatMap(privatize)
        | beam.CombineGlobally(beam.combiners.ToListCombineFn())
        | beam.Map(run.commit)
    )
run.publish()
"""
