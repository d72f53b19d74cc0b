"""What the page says of a mechanism that devices draw, done: on the wire, from calibration to a fit."""

import json
import math
import re
import shutil
import subprocess
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import privot
import privot.wire.draws
from conformance.vectors import digest, expected
from every_word import law_of
from privot.audit.statistics import uniformity
from privot.collector.collecting import collect
from privot.core.errors import PrivotError
from privot.device import Device
from privot.device.exact import check_randomizer
from privot.local import FitSettings
from privot.randomizer.integrity import seal, unseal
from round_table import SCHEMA, made_up_people
from round_table import RoundTable as OfCurators

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "javascript"
ESBUILD = CLIENT / "node_modules" / ".bin" / "esbuild"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## A mechanism that devices draw") : PAGE.index("## A domain")]
(DRAW, METHODS), (OBJECT,) = (
    re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    for language in ("python", "ts")
)


def run(code, names, module):
    """The names that code of the page defines, as in a module."""
    names = {**names, "__name__": module}
    exec(compile(code, "extending.md", "exec", dont_inherit=True), names)
    return names


drawn = run(DRAW, vars(privot.wire.draws), "privot.wire.draws")["RoundTable"]
privot.wire.draws.RoundTable = drawn  # as the file has it, once it is edited
methods = run(METHODS, {}, "round_table")


class RoundTable(OfCurators, kind="round_table_of_devices"):
    program, of_device = methods["program"], methods["of_device"]


RANDOMIZER = privot.Randomizer.calibrate(SCHEMA, 6.0, mechanism=RoundTable.kind)


def test_a_draw_has_its_law_and_the_bound_is_what_all_words_show():
    draw = drawn(seats=5, own=8, beside=3, far=1)
    laws = [law_of(partial(draw.draw, [code])) for code in range(5)]
    assert laws[1] == {(s,): Fraction(w, 16) for s, w in enumerate((3, 8, 3, 1, 1))}
    ratios = [one[seat] / other[seat] for one in laws for other in laws for seat in one]
    assert (max(ratios), 0) == draw.worst_ratio(None)


def test_a_device_draws_what_a_collector_reads_and_a_fit_learns_from():
    """By ten runs of 36 000 reports the share is .0005 ± .0054 off: 5.6 deviations within the limit.

    The share among reports, that of a fit by no law, is .25 off.
    """
    law = check_randomizer(RANDOMIZER.to_json())
    assert law.holds
    assert math.log(law.total.factor) == pytest.approx(6.0, rel=1e-6)
    device = Device.from_json(RANDOMIZER.to_json())
    people = made_up_people().to_pylist() * 3
    reports = [device.report(person).to_bytes() for person in people]
    found = collect(reports, RANDOMIZER)
    assert len(found.release) == len(people)
    hours = np.array([int(person["hour"][0]) for person in people])
    model = privot.fit(found.release, FitSettings(estimator="latent_classes", seed=0))
    share = np.mean(np.array(model.sample(40_000, seed=1)["hour"].to_pylist()) == "4h")
    assert share == pytest.approx((hours == 4).mean(), abs=0.03)


def test_each_report_of_one_record_has_the_law_of_its_mechanism():
    """The false-alarm rate is 1e-6; of the record beside it the p-value is far less."""
    device = Device.from_json(RANDOMIZER.to_json())
    sent = [device.report({"hour": "2h", "night": True}) for _ in range(4000)]
    seats = collect(sent, RANDOMIZER).release.reports("hour")[0]
    mechanism, rng = RANDOMIZER.mechanisms["hour"], np.random.default_rng(0)
    for code, honest in ((2, True), (3, False)):
        low, high = mechanism.probability_cells(seats, np.full(len(seats), code), rng)
        assert (uniformity(low + rng.random(low.shape) * (high - low)) > 1e-6) == honest


WRONG = [("seats", 3), ("seats", 5), ("own", 0), ("own", "1"), ("far", 2**60), ("far", 1)]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_program_that_no_proof_covers_is_refused(field, value):
    fields = unseal(RANDOMIZER.to_json())
    (draw,) = (r["draw"] for r in fields["device"]["split"]["reports"] if r["column"] == "hour")
    draw[field] = value
    with pytest.raises(PrivotError, match="calibrate it again"):
        Device.from_json(seal(**fields))


@pytest.mark.skipif(
    not shutil.which("node") or not ESBUILD.exists(), reason="Node and `make client` are needed"
)
def test_the_client_draws_the_same(tmp_path):
    """One file of TypeScript is edited; its types hold, and it makes of vectors the bytes of Python."""
    shutil.copytree(CLIENT / "src", tmp_path / "src")
    shutil.copy(CLIENT / "tsconfig.json", tmp_path)
    (tmp_path / "node_modules").symlink_to(CLIENT / "node_modules")
    draws = tmp_path / "src" / "draws.ts"
    text = draws.read_text(encoding="utf-8")
    for start, added, end in (
        ("const KINDS = {", ", round_table", " };"),
        ("export type Draw =", " | RoundTableDraw", ";"),
        ("", OBJECT + "\n", "/** A kind of draw is here"),
    ):
        at = text.index(end, text.index(start))
        text = text[:at] + added + text[at:]
    draws.write_text(text, encoding="utf-8")
    subprocess.run([ESBUILD.parent / "tsc", "--noEmit", "--project", tmp_path], check=True)
    device = Device.from_json(RANDOMIZER.to_json())
    vectors = []
    for seed in range(300):
        record = {"hour": f"{seed % 6}h", "night": seed % 4 < 2}
        vectors.append({"words": [], "seed": seed, "now": seed, "record": record})
    vectors = [vector | {"digest": digest(expected(device, vector))} for vector in vectors]
    suite = {"randomizer": RANDOMIZER.to_json(), "vectors": vectors, "refused": [{"hour": "6h"}]}
    (tmp_path / "suite.json").write_text(json.dumps(suite), encoding="utf-8")
    built = tmp_path / "client.mjs"
    entry = tmp_path / "src" / "index.ts"
    options = ["--bundle", "--format=esm", "--log-level=error", f"--outfile={built}"]
    subprocess.run([ESBUILD, entry, *options], check=True)
    code = f"""
    import {{ readFileSync }} from "node:fs";
    import * as client from "{built}";
    import {{ check }} from "{CLIENT}/test/vectors.mjs";
    console.log(JSON.stringify(await check(client, JSON.parse(readFileSync("{tmp_path}/suite.json")))));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", code], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"met": 301, "total": 301, "missed": []}
