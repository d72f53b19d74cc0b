"""The client in JavaScript, built from its sources, in Node and in a real browser."""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from device.hand_made import CHANGES, fields_of, hand_made, sealed

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "javascript"
ESBUILD = CLIENT / "node_modules" / ".bin" / "esbuild"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MOST_BYTES = 16_500  # gzipped

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
