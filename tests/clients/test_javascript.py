"""The client in JavaScript, built from its sources, in Node and in a real browser."""

import json
import os
import random
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from aggregated.people import VERIFY_KEY, proving
from device.hand_made import CHANGES, fields_of, hand_made, sealed
from forked_commands import start
from privot.aggregated import Encoder, Server, open_sums, server
from privot.aggregated.fields import Field
from privot.aggregated.prio3 import Histogram, Prio3
from privot.aggregated.shares import ROLES
from privot.core.errors import PrivotError
from privot.schema import Schema

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "javascript"
ESBUILD = CLIENT / "node_modules" / ".bin" / "esbuild"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MOST_BYTES = 18_900  # gzipped

needs_node = pytest.mark.skipif(
    not shutil.which("node") or not ESBUILD.exists(), reason="Node and `make client` are needed"
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is needed")


def node(*command, **environment):
    """What a script of the client prints; fails where it fails."""
    done = subprocess.run(
        ["node", *map(str, command)],
        capture_output=True,
        text=True,
        cwd=CLIENT,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def browser(run, dist):
    """What a page finds in headless Chromium."""
    return json.loads(node("test/browser.mjs", run, dist, CHROMIUM=str(CHROMIUM)))


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """The client as its sources are now, whatever lies in dist."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "package.json").write_text('{"type": "module"}')
    for source, target in (("index", "privot"), ("folder", "node")):
        command = [ESBUILD, CLIENT / "src" / f"{source}.ts", "--bundle", "--format=esm", "--minify"]
        more = ["--target=es2022", "--external:node:*", f"--outfile={folder / target}.js"]
        subprocess.run([*command, *more], check=True, capture_output=True)
    return folder


@needs_node
def test_types_hold():
    subprocess.run([ESBUILD.parent / "tsc", "--noEmit"], check=True, cwd=CLIENT)


@needs_node
def test_node_meets_every_vector(dist):
    met, total = node("test/conformance.mjs", dist / "privot.js").split()[0:3:2]
    assert met == total
    assert int(total) >= 10_000


@needs_node
@needs_chromium
def test_chromium_meets_every_vector(dist):
    found = browser("conformance", dist)
    assert not found["missed"]
    assert found["met"] == found["total"] >= 10_000


@needs_node
def test_outboxes_and_refusals_in_node(dist):
    node("--test", "test/client.test.mjs", PRIVOT_CLIENT=str(dist))


@needs_node
def test_programs_made_by_hand_are_refused(dist, tmp_path):
    """The same that the Python device refuses; and those of the suite are not."""
    (tmp_path / "texts.json").write_text(json.dumps([hand_made(change) for change in CHANGES]))
    assert json.loads(node("test/refusals.mjs", tmp_path / "texts.json", dist / "privot.js")) == []
    (tmp_path / "texts.json").write_text(json.dumps([sealed(fields_of("window_number"))]))
    assert (
        len(json.loads(node("test/refusals.mjs", tmp_path / "texts.json", dist / "privot.js"))) == 1
    )


@needs_node
def test_shares_and_their_outboxes_in_node(dist):
    node("--test", "test/shares.test.mjs", PRIVOT_CLIENT=str(dist))


@needs_node
def test_proofs_are_the_draft_s_and_another_library_s():
    node("--test", "test/prio3.test.mjs")


@needs_node
def test_elements_are_drawn_by_rejection():
    """Over a field that half of all draws are no elements of: here in Python, there in JavaScript."""
    order = 2**61 - 23
    field = Field(order * 2**66 + 1, pow(5, order, order * 2**66 + 1), 66, 16)
    circuit = Histogram(50)
    circuit.field = field
    public, inputs = Prio3(circuit).shard(circuit.encode(7), bytes(range(16)), bytes(range(80)))
    found = json.loads(node("test/half_field.mjs"))
    assert found == [(public + share).hex() for share in inputs]


@needs_node
@pytest.mark.parametrize("kind", ["table", "place"])
def test_servers_leave_out_what_lying_devices_prove(dist, tmp_path, kind):
    """The best proofs that liars can make, in JavaScript; a miss has a probability below 2^−100 each."""
    rule = proving(kind)
    record = {"old": True, "color": "g"} if kind == "table" else {"x": 0.25, "y": 0.75}
    rule.save(tmp_path / "encoder.json")
    (tmp_path / "record.json").write_text(json.dumps(record))
    given = (tmp_path / "encoder.json", tmp_path / "record.json", dist / "privot.js")
    shares = {
        name: [*map(bytes.fromhex, pair)]
        for name, pair in json.loads(node("test/lying_device.mjs", *given)).items()
    }
    both = [Server.create(tmp_path / role, rule, role, VERIFY_KEY) for role in ROLES]
    assert {"count 2 in a cell", "another length", "without a proof"} < {*shares}
    for name in ("another length", "without a proof"):
        with pytest.raises(PrivotError, match=r"a share has .* bytes, not"):
            both[0].accept(shares.pop(name)[0])
    for each, mine in zip(both, zip(*shares.values(), strict=True), strict=True):
        assert each.accept(*mine) == len(shares) >= 6
    for each, other in zip(both, reversed(both), strict=True):
        assert each.verify(other.prepare()) == 1
        assert each.ids() == {shares["honest"][0][33:49]}


def share_server(folder, role, port):
    """`privot serve` of one of two servers, and its port."""
    given = ("serve", "encoder.json", "--role", role, "--store", role, "--port", str(port))
    process = start(folder, *given)
    line = process.stdout.readline().decode().strip()
    assert line, process.said()
    return process, int(line.rpartition(":")[2])


@needs_node
@pytest.mark.parametrize(
    ("kills", "people"), [(6, 300), pytest.param(60, 1500, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(1800)
def test_kills_of_servers_and_devices_lose_no_share_and_double_none(
    dist, tmp_path, monkeypatch, kills, people
):
    """Either server, or the devices, are killed while they send; sums without noise are exact."""
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    columns = {
        "old": {"kind": "boolean"},
        "color": {"kind": "categorical", "categories": ["r", "g"]},
    }
    promise = {"epsilon": 4.0, "where": "aggregated", "delta": 1e-6, "people": people}
    encoder = Encoder.calibrate(Schema.from_dict({"columns": columns, "promise": promise}))
    encoder.save(tmp_path / "encoder.json")
    rng = random.Random(kills)
    records = [{"old": rng.random() < 0.3, "color": rng.choice("rg")} for _ in range(people)]
    (tmp_path / "records.json").write_text(json.dumps(records))
    running = {role: share_server(tmp_path, role, 0) for role in ROLES}
    urls = [f"http://127.0.0.1:{port}" for _, port in running.values()]
    given = [
        tmp_path / "encoder.json",
        tmp_path / "devices",
        *urls,
        tmp_path / "records.json",
        dist,
    ]
    command = ["node", "test/share_device.mjs", *map(str, given)]
    said = tmp_path / "said"
    with said.open("a") as printed:
        devices = subprocess.Popen(command, cwd=CLIENT, stdout=printed)
        try:
            for _ in range(kills):
                wait_for(said, rng.randrange(60, 1200), devices)
                victim = rng.choice([*ROLES, "devices"])
                if victim == "devices":
                    devices.kill()
                    devices.wait()
                    devices = subprocess.Popen(command, cwd=CLIENT, stdout=printed)
                    continue
                process, port = running[victim]
                process.kill()
                process.stdout.close()
                stored = Server(tmp_path / victim)
                assert delivered(said) <= stored.ids(), "an acknowledged share was lost"
                if len(stored.ids()) < people:
                    with pytest.raises(PrivotError, match="wait for more; fewer are not opened"):
                        stored.release(stored.ids())
                running[victim] = share_server(tmp_path, victim, port)
            assert devices.wait(600) == 0
        finally:
            devices.kill()
            for process, _ in running.values():
                process.kill()
                process.stdout.close()
    leader, helper = (Server(tmp_path / role) for role in ROLES)
    assert len(leader.ids()) == people, "a share was lost or doubled"
    assert delivered(said) <= leader.ids() == helper.ids()
    monkeypatch.setattr(server, "sample_rounded_gaussian", lambda n, s: np.zeros(n, np.int64))
    batch = leader.ids()
    found = open_sums(leader.release(batch), helper.release(batch)).sums
    table = {name: [record[name] for record in records] for name in columns}
    exact = sum(chunk.sum(axis=0) for chunk in encoder.contributions(table))
    assert (found == exact.view(np.int64)).all()


def wait_for(said, more, process):
    """Until a file has grown by so many bytes, or the process that writes it has ended."""
    before = said.stat().st_size
    while said.stat().st_size < before + more and process.poll() is None:
        time.sleep(0.001)


def delivered(said):
    """Ids of the shares that devices have written down as delivered, in whole lines."""
    lines = said.read_text().split("\n")[:-1]
    return {bytes.fromhex(json.loads(line)["id"]) for line in lines if line.endswith("}")}


@needs_node
def test_ledgers_in_node(dist):
    node("--test", "test/ledger.test.mjs", PRIVOT_CLIENT=str(dist))


@needs_node
@needs_chromium
def test_ledgers_of_many_tabs_in_chromium_draw_once(dist):
    assert browser("ledger", dist) == {"wave": 1, "campaigns": 1, "again": True}


@pytest.mark.slow
@needs_node
def test_ledgers_in_node_killed_a_hundred_times(dist):
    node("--test", "test/ledger.test.mjs", PRIVOT_CLIENT=str(dist), PRIVOT_KILLS="100")


@needs_node
@needs_chromium
def test_outboxes_in_chromium_keep_reports_and_signatures_are_verified(dist):
    assert browser("outbox", dist) == {"broken": []}


@pytest.mark.slow
@needs_node
def test_every_client_that_is_wrong_in_one_place_is_caught():
    found = json.loads(node("test/mutants.mjs"))
    assert found["mutants"] >= 10
    assert not found["escaped"]


@needs_node
def test_the_client_is_small_and_needs_nothing(dist):
    packed = subprocess.run(["gzip", "-9c", dist / "privot.js"], capture_output=True, check=True)
    assert len(packed.stdout) <= MOST_BYTES
    assert "import" not in (dist / "privot.js").read_text().replace("importKey", "")
    assert "dependencies" not in json.loads((CLIENT / "package.json").read_text())


@needs_node
def test_pages_of_campaigns_have_this_client(dist):
    copy = ROOT / "src" / "privot" / "campaign" / "web" / "privot.js"
    assert copy.read_bytes() == (dist / "privot.js").read_bytes(), "run `make client`"


def test_clients_are_no_part_of_the_wheel():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert built["targets"]["wheel"]["packages"] == ["src/privot"]
    assert "clients" not in built.get("dev-mode-dirs", [])
