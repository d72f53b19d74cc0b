"""The guide to tables works as it stands: its schema, its commands, the plan it shows."""

import re
import runpy
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest

from campaign_reports import CAMPAIGN, DEVICE, RANDOMIZER, rows
from commands import privot
from privot.aggregated import Server
from privot.aggregated.shares import ROLES
from privot.campaign import CampaignFolder, create, write_share_status
from privot.collector.analyst import seal_report
from privot.collector.arrivals import ShuffledCampaign
from privot.collector.folder import FolderStore
from privot.collector.sealing import FolderStorage, write_shuffled
from privot.device import Device, write_batch
from privot.schema import Schema

stays = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "hospital.py"))["stays"]

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "tables.md").read_text()


def fences(language):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def commands():
    lines = [line for fence in fences("") for line in fence.splitlines()]
    return [line for line in lines if line.startswith("privot ")]


def output(folder, command):
    done = privot(folder, *shlex.split(command)[1:])
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_schema_it_shows_is_the_one_that_its_line_writes(tmp_path):
    new = next(command for command in commands() if " schema new " in command)
    output(tmp_path, new)
    assert Schema.load(tmp_path / "schema.toml") == Schema.from_toml(fences("toml")[0])


def test_the_plan_it_shows_is_the_plan(tmp_path):
    (tmp_path / "schema.toml").write_text(fences("toml")[0])
    planned = next(command for command in commands() if " plan " in command)
    out = output(tmp_path, planned)
    assert fences("text")[0] in out
    calibrated = next(command for command in commands() if " calibrate " in command)
    assert out.splitlines()[-1] == f"next: {calibrated}"


@pytest.mark.slow
def test_the_commands_run(tmp_path):
    for name, people, seed in (("people", 4000, 0), ("holdout", 1000, 1)):
        pc.write_csv(stays(people, seed), tmp_path / f"{name}.csv")
    assert [command.split()[1] for command in commands()] == [
        "schema", "schema", "plan", "calibrate", "privatize", "fit", "sample", "sample", "evaluate",
    ]  # fmt: skip
    for command in commands():
        output(tmp_path, command)
    young = pc.read_csv(tmp_path / "young_women.csv")
    assert set(young["sex"].to_pylist()) == {"F"}
    assert set(young["age"].to_pylist()) <= set(range(18, 41))
    rows = pc.read_csv(tmp_path / "synthetic.csv")
    nights = np.array(rows["discharged"]) - np.array(rows["admitted"])
    assert (nights.astype(int) == np.array(rows["nights"])).all()
    assert len(set(rows["patient"].to_pylist())) == rows.num_rows
    assert "not private" in (tmp_path / "report.html").read_text()


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)", GUIDE)
    assert targets
    assert not [t for t in targets if "://" not in t and not (DOCS / "guides" / t).exists()]


def test_the_reports_that_the_guide_to_campaigns_deletes_are_deleted(tmp_path):
    lines = (DOCS / "guides" / "campaign.md").read_text().splitlines()
    one, every = (line for line in lines if line.startswith("privot campaign delete "))
    reports = [DEVICE.report({"age": 31, "sex": "F", "region": "c"}) for _ in range(3)]
    reports[1] = replace(reports[1], id=bytes.fromhex(one.split()[-1]))
    create(RANDOMIZER, tmp_path / "campaign", title="?", collector="http://127.0.0.1:8000")
    place = tmp_path / "campaign" / "store" / CAMPAIGN.fingerprint
    store = FolderStore(place, CAMPAIGN.format)
    store.append(*rows([each.to_bytes() for each in reports]))
    store.close()
    assert output(tmp_path, one).startswith("1 deleted, 2 left")
    assert output(tmp_path, every).startswith("2 deleted, 0 left")


def test_five_lines_of_the_sdv_tutorial_change():
    page = (DOCS / "guides" / "from_sdv.md").read_text()
    told = re.findall(r"^```python\n# (?:SDV|Privot)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    lines = [[line for line in text.splitlines() if line] for text in told]
    steps = [[line for line in each if "import " not in line] for each in lines]
    assert len(steps[0]) == len(steps[1])
    assert sum(ours != theirs for theirs, ours in zip(*steps)) <= 5
    assert len(lines[1]) <= len(lines[0])


def test_the_campaign_of_two_servers_goes_as_the_guide_shows(tmp_path, monkeypatch):
    text = (DOCS / "guides" / "promise.md").read_text()
    section = text.split("### A campaign of two servers")[1].split("\n### ")[0]
    new, *others = [line for line in section.splitlines() if line.startswith("privot ")]
    printed = output(tmp_path, new.replace("examples", str(DOCS.parent / "examples")))
    machines = [x.removeprefix("next: ") for x in printed.splitlines() if x.startswith("next: ")]
    assert machines == others[:2]
    campaign = CampaignFolder.load(tmp_path / "two")
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(16, 81, 5000),
        "travel": rng.choice(["on foot", "car"], 5000),
        "minutes": rng.uniform(0, 120, 5000),
    }
    shares = zip(*campaign.rule.encode_table(table), strict=True)
    for role, own in zip(ROLES, shares, strict=True):
        Server.create(tmp_path / "two" / role, campaign.rule, role).accept(*own)
    monkeypatch.chdir(tmp_path)
    printed = write_share_status(CampaignFolder.load(Path("two")))[1:]
    assert [line.removeprefix("next: ") for line in printed] == others[2:7]
    said = [output(tmp_path, command) for command in others[2:]]
    assert "learned from the sums of 5,000 reports, ε = 1, δ = 1e-06" in said[-2]
    assert "0 reports are held by both servers, 5,000 were opened" in said[-1]


def test_shuffled_waves_go_as_the_guide_shows(tmp_path):
    """All but the server and a device: their bytes are made here, three waves of them."""
    text = (DOCS / "guides" / "waves.md").read_text()
    section = text.split("## Shuffled waves")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("privot ")]
    calibrate, new, show, serve, report, collect, fit = lines
    (tmp_path / "schema.toml").write_text(
        '[columns.old]\nkind = "boolean"\n'
        '[promise]\nepsilon = 1\nwhere = "shuffled"\ndelta = 1e-5\npeople = 300\n'
    )
    output(tmp_path, calibrate)
    keys = [line.split()[-1] for line in output(tmp_path, new).splitlines()[:3]]
    assert " of 3 batches if the shuffler and " in output(tmp_path, show)
    assert "--role shuffler --store wave-0" in serve
    assert "--analyst-key KEY" in report
    text = (tmp_path / "randomizer.json").read_text()
    campaign, device = ShuffledCampaign(text.encode()), Device.from_json(text)
    for wave, public in enumerate(keys):
        drawn = [device.report({"old": i % 10 < 3 + wave}) for i in range(400)]
        sealed = [seal_report(each, public).to_bytes() for each in drawn]
        place = tmp_path / f"wave-{wave}" / campaign.fingerprint
        store = FolderStore(place, campaign.format)
        read = campaign.read(write_batch(sealed), as_json=False)
        store.append(read.records)
        write_shuffled(store, campaign, FolderStorage(place / "release"))
        store.close()
        opens = collect.replace("FINGERPRINT", campaign.fingerprint)
        assert "400 reports, ε = " in output(tmp_path, opens.replace("wave-0", f"wave-{wave}"))
    printed = output(tmp_path, fit)
    one, two = campaign.randomizer.batch_guarantee(400), campaign.randomizer.batch_guarantee(300, 2)
    assert f"1,200 reports, {one} for one wave" in printed
    assert f"all waves together: {two}" in printed
