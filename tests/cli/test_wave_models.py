"""Models of waves by `privot fit`, their trends, their samples: times in words, one-line refusals."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from commands import typed
from moving_people import USES, uses_only, waves
from privot import Randomizer, Release, check, fit, load
from privot.collector.waves import wave_metadata
from privot.randomizer.reports.rows import shard_name, write_manifest, write_reports
from privot.schema.schema import Promise
from privot.waves import Panel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five waves of releases."""
    made = tmp_path_factory.mktemp("waves")
    for number, wave in enumerate(
        waves(np.linspace(0.1, 0.6, 5), 1500, drawn=uses_only, schema=USES)
    ):
        wave.save(made / f"wave-{number}.parquet")
    return made


@pytest.fixture
def run(folder):
    """Run `privot …` there; return (exit code, standard output, error)."""
    return typed(folder)


FOUR = " ".join(f"wave-{i}.parquet" for i in range(4))


def test_waves_are_fitted_followed_sampled_and_added_to(run, folder):
    code, out, err = run(f"fit {FOUR} --start 2026-01-05 --every 7 -o model --force")
    assert code == 0, err
    assert "4 waves, 2026-01-05 to 2026-01-26, 6,000 reports" in out
    assert (folder / "model" / "report.html").exists()
    told = json.loads(run("waves show model --column uses --value true --json")[1])
    assert told["times"][1] == "2026-01-12"
    assert told["estimate"][0] < 0.3 < told["estimate"][3] + 0.1
    assert all(low <= high for low, high in zip(told["low"], told["high"], strict=True))
    code, out, err = run("sample model --time 2026-01-12 -n 50 -o drawn.csv --force")
    four = load(folder / "model").guarantee
    assert (code, f"50 synthetic records, {four}" in out) == (0, True), err
    assert four.epsilon == 4 * load(folder / "model").wave_guarantee.epsilon
    code, out, err = run("fit wave-4.parquet --onto model --times 2026-02-02 -o more --force")
    assert code == 0, err
    assert "5 waves, 2026-01-05 to 2026-02-02, 7,500 reports" in out
    assert "a sudden change" in run("waves show more --column uses --value true")[1]
    Panel("uses", 2, 1_767_571_200, 604_800, "2026").save(folder / "slots.json")
    refusals = {
        "fit wave-4.parquet --onto model --times 2026-02-02 --panel slots.json -o other": "fit anew",
        "sample model --time 2027-01-01 -o later.csv": "outside of the waves",
        "waves show model --column height": "'height' is not in the schema",
        "fit wave-4.parquet --onto model -o other": "--onto needs the times",
        "fit wave-4.parquet --onto model --times 2026-01-01 -o other": "not after the last",
    }
    for arguments, words in refusals.items():
        code, _, err = run(arguments)
        assert (code, len(err.splitlines()), words in err) == (2, 1, True), (arguments, err)


def test_shuffled_waves_state_the_smallest_batch_and_all_together(folder, run):
    promise = Promise(1.0, "shuffled", delta=1e-4, people=700)
    randomizer = Randomizer.calibrate(USES.model_copy(update={"promise": promise}))
    for number, count in enumerate((900, 800, 850, 600)):
        wave = randomizer.privatize(uses_only(0.3 + 0.1 * number, count, number))
        wave.save(folder / f"batch-{number}.parquet")
    Panel("uses", 2, 1_767_571_200, 604_800, "2026").save(folder / "panel.json")
    # By default these would be waves 1 and 2, whatever they are, and people would report in one.
    code, _, err = run("fit batch-0.parquet batch-1.parquet --panel panel.json -o mixed --force")
    assert (code, "times are missing" in err) == (2, True), err
    two = "batch-0.parquet batch-1.parquet --start 2026-01-05 --every 7"
    code, out, err = run(f"fit {two} --panel panel.json -o mixed --force")
    assert code == 0, err
    one, both = randomizer.batch_guarantee(800), randomizer.batch_guarantee(700, 2)
    assert f"2 waves, 2026-01-05 to 2026-01-12, 1,700 reports, {one} for one wave" in out
    assert f"all waves together: {one}" in out
    page = (folder / "mixed" / "report.html").read_text()
    assert page.count(str(one)) == 2
    code, out, err = run("fit batch-2.parquet --onto mixed --times 2026-01-19 -o mixed")
    assert code == 0, err
    assert f"all waves together: {both}" in out  # waves 0 and 2 are of one slot
    assert f"all waves together: {both}" in run(f"fit {two} -o every --force")[1]
    before = {path: path.read_bytes() for path in (folder / "mixed").iterdir()}
    for arguments in (f"fit {two.replace('-1', '-3')} -o few", "fit batch-3.parquet --onto mixed "
                      "--times 2026-01-26 -o few"):  # fmt: skip
        code, _, err = run(arguments)
        assert (code, len(err.splitlines())) == (2, 1)
        assert "600 reports were accepted, and the promise is of a batch of 700" in err
        assert not (folder / "few").exists()
    assert before == {path: path.read_bytes() for path in (folder / "mixed").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (f"fit {FOUR} --times 1,2,x,4", "'x' is no time"),
        (f"fit {FOUR} --times 1,2", "times has 2 for 4 waves"),
        (f"fit {FOUR} --start 1 --every 0", "--every 0 is not above 0"),
        (f"fit {FOUR} --start 2026-01-01 --every 0.5", "no whole number of days"),
        (f"fit {FOUR} --start 1 --times 1,2,3,4", "exclude each other"),
        ("fit wave-0.parquet --waves", "give two waves or more"),
        ("waves show wave-0.parquet --column uses", "wave-0.parquet"),
    ],
)
def test_what_cannot_be_used_is_one_line(run, arguments, words):
    code, _, err = run(f"{arguments}" + (" -o refused" if arguments.startswith("fit") else ""))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert words in err


def test_a_release_of_a_panel_says_its_waves_itself(folder, run):
    day, now = 86_400, int(time.time())
    start = now - now % day - 55 * day  # so that the sixth wave is half over, whatever the hour
    panel = Panel("uses", window=1, start=start, length=10 * day, seed="public", waves=10)
    sealed, counts = folder / "sealed", []
    sealed.mkdir()
    for number, wave in enumerate(
        waves(np.linspace(0.1, 0.6, 6), 300, drawn=uses_only, schema=USES)
    ):
        more = wave_metadata(panel, number)
        made = wave.randomizer.to_json()
        counts.append(write_reports(sealed / shard_name(number), [wave.table], made, more))
        if number == 3:
            write_manifest(sealed, counts)
            code, out, err = run("fit sealed --waves -o known --force")
            assert code == 0, err
            assert "4 waves, " in out
    write_manifest(sealed, counts)
    code, out, err = run("fit sealed --onto known -o longer --force")
    assert code == 0, err
    assert "wave 5 has not ended" in err
    first = np.datetime64(start, "s").astype("datetime64[D]")
    days = [str(first + 10 * each) for each in range(5)]
    told = json.loads(run("waves show longer --column uses --value true --json")[1])
    assert told["times"] == days
    # A window of one wave: everybody may be in all six, with or without --waves, and in every sample.
    six = str(wave.randomizer.batch_guarantee(batches=6))
    assert f"1,800 reports, {six}" in run("collect sealed -o all.parquet --force")[1]
    assert f"counted, {six}" in run("collect sealed --count -o all.counts --force")[1]
    for source in ("sealed", "all.parquet", "all.counts"):
        code, out, err = run(f"fit {source} -o still --no-check --force")
        assert (code, six in out) == (0, True), (source, err)
    code, out, err = run("fit sealed -o still --estimator generator --steps 2 --no-check --force")
    assert (code, six in out) == (0, True), err
    assert run("fit all.counts -o still --no-check --force")[0] == 0
    assert six in run("check still all.counts")[1]
    alone = wave.randomizer.privatize(uses_only(0.5, 300, 9))
    alone.save(folder / "alone.parquet")
    assert run("fit alone.parquet -o alone --no-check --force")[0] == 0
    assert six in run("check alone sealed")[1]  # the weaker guarantee of model and reports
    assert six in run("sample still -n 5 -o still.csv --force")[1]
    one, other = folder / "one.parquet", replace(panel, window=6)
    made, more = wave.randomizer.to_json(), wave_metadata(panel, 0)
    write_reports(one, [wave.table], made, more)
    other.save(folder / "other.json")
    two = folder / "two.parquet"
    write_reports(two, [alone.table], made, wave_metadata(panel, 1))
    apart = [wave.randomizer.privatize(uses_only(0.5, 300, seed)) for seed in (10, 11)]
    both = [Release.load(path) for path in (one, two)]  # of one person, too
    promised = check(fit(apart), both, held_out=True).guarantee
    assert promised == str(wave.randomizer.batch_guarantee(batches=2))
    # Waves 0 and 6 are of one slot of six, and a person in both has spent 2 ε, whatever the times are.
    write_reports(folder / "zero.parquet", [wave.table], made, wave_metadata(other, 0))
    write_reports(folder / "six.parquet", [alone.table], made, wave_metadata(other, 6))
    for given, words in {
        "zero.parquet six.parquet --times 0,1 --panel other.json": "or not of the wave of its time",
        f"zero.parquet six.parquet --start {days[0]} --every 10 --panel other.json": "or not of",
        "all.parquet alone.parquet --times 0,1": "has the reports of several",
        "one.parquet alone.parquet --times 0,1 --panel other.json": "is not of panel 'uses'",
    }.items():
        code, _, err = run(f"fit {given} -o refused")
        assert (code, words in err) == (2, True), (given, err)
    for arguments, words in {
        "fit sealed --onto longer -o other": "no wave after the model's last",
        "fit sealed --start 2026-01-05 -o other": "leave out --times, --start and --panel",
    }.items():
        code, _, err = run(arguments)
        assert (code, words in err) == (2, True), err
