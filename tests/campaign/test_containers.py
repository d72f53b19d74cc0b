"""The containers of a campaign run the commands of its processes, and little of them is public."""

import json
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import typer

from privot.aggregated import Encoder
from privot.campaign import CampaignFolder, create
from privot.cli.app import app
from privot.randomizer import Randomizer
from privot.schema import Schema

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

CONTAINERFILE = Path(__file__).parents[2] / "examples" / "containers" / "Containerfile"
HERE = {"leader": "http://127.0.0.1:8000", "helper": "http://127.0.0.1:8002"}


@pytest.fixture(scope="module", params=["local", "shuffled", "plain", "proofs"])
def campaign(request, tmp_path_factory):
    where = "aggregated" if request.param in ("plain", "proofs") else request.param
    promise = {"epsilon": 1, "where": where, "delta": 1e-6, "people": 300}
    fields = {"columns": {"bit": {"kind": "boolean"}}}
    schema = Schema.from_dict(fields | ({} if where == "local" else {"promise": promise}))
    if where == "aggregated":
        rule, at = Encoder.calibrate(schema, request.param == "proofs"), HERE
    else:
        epsilon = 1.0 if where == "local" else None
        rule, at = Randomizer.calibrate(schema, epsilon), {"collector": "http://127.0.0.1:9000"}
    return create(rule, tmp_path_factory.mktemp("made") / "campaign", title="?", **at)


def services(campaign):
    return yaml.safe_load((campaign.folder / "compose.yaml").read_text())["services"]


def servers(campaign):
    """The services that run a command of a server."""
    found = {name: each for name, each in services(campaign).items() if "command" in each}
    return {name: each for name, each in found.items() if each["command"][0] == "serve"}


def test_the_servers_are_those_that_run_as_processes(campaign):
    assert [*servers(campaign)] == [*campaign.servers()]
    for name, each in servers(campaign).items():
        command, words = typer.main.get_command(app), [*each["command"]]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        words = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", word) for word in words]
        given = command.make_context(name, words).params
        own = command.make_context(name, campaign.servers()[name][1:]).params
        assert given["role"] == own["role"] == name
        assert given["randomizers"][0].name == own["randomizers"][0].name
        assert (given["key"] is None) == (own["key"] is None)
        assert given["host"] == "0.0.0.0"  # of the container, on a network without a way out
        assert each["networks"] == ["inside"]
        assert "ports" not in each


def test_services_are_closed(campaign):
    made = yaml.safe_load((campaign.folder / "compose.yaml").read_text())
    assert made["networks"]["inside"] == {"internal": True}
    for name, each in made["services"].items():
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in each.get("ports", []))
        assert "healthcheck" in each or name == "dashboard"
        assert each["image"] == "privot" or re.fullmatch(
            r"docker\.io/\S+:v?\d[\w.-]+", each["image"]
        )
    ports = made["services"]["proxy"]["ports"]
    wanted = {"leader": "8000:8000", "helper": "8002:8002"}
    assert ports == [f"127.0.0.1:{wanted.get(role, '9000:8000')}" for role in servers(campaign)]
    published = {name for name, each in made["services"].items() if "ports" in each}
    assert published == {"page", "proxy", "grafana"}


def test_no_service_gets_a_key_that_signs_or_opens(campaign):
    """Only public files, a volume, a configuration, or a secret that its own service needs."""
    made = yaml.safe_load((campaign.folder / "compose.yaml").read_text())
    public = ("./web:/web:ro", "./containers/", "./campaign.json:", "./randomizer.json:")
    for each in made["services"].values():
        for volume in each.get("volumes", []):
            assert volume.startswith(public) or volume.partition(":")[0] in made["volumes"]
    used = {}
    for name, each in made["services"].items():
        for secret in each.get("secrets", []):
            source = secret if isinstance(secret, str) else secret["source"]
            used.setdefault(source, []).append(name)
    wanted = {"grafana": ["grafana"]}
    if "collector" in made["services"]:
        wanted["database"] = ["collector", "database"]
    elif isinstance(campaign.rule, Encoder) and campaign.rule.proofs:
        wanted["verify.key"] = ["leader", "helper"]
    assert used == wanted
    assert {*made["secrets"]} == {*wanted}
    folder = campaign.folder / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    values = {name: (folder / name).read_text().strip() for name in wanted}
    assert {path.name for path in folder.iterdir()} == {*wanted}
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in values.values())
    assert len({*values.values()}) == len(values)
    for name, text in values.items():
        for path in campaign.folder.rglob("*"):
            assert path == folder / name or path.is_dir() or text not in path.read_text()


def test_everything_that_is_mounted_is_there(campaign):
    made = yaml.safe_load((campaign.folder / "compose.yaml").read_text())
    text = (campaign.folder / "compose.yaml").read_text()
    for path in re.findall(r"\"?(\./[\w./-]+)[:\s]", text):
        assert (campaign.folder / path).exists(), path
    assert not re.findall(r"\b[A-Z]*(?:ROLE|COMMAND|PUBLISHED|FINGERPRINT|SECRETS)\b", text)
    for each in made["services"].values():
        assert {*each.get("networks", [])} <= {*made["networks"]}
    targets = yaml.safe_load((campaign.folder / "containers" / "prometheus.yml").read_text())
    (job,) = targets["scrape_configs"]
    names = [name for each in job["dns_sd_configs"] for name in each["names"]]
    assert names == [*servers(campaign)]
    json.loads((campaign.folder / "containers" / "grafana.json").read_text())


def test_servers_keep_apart_what_is_restored_and_what_refuses_it(campaign):
    stores = [volume for each in servers(campaign).values() for volume in each["volumes"][1:]]
    assert len({*stores}) == len(stores) == 2 * len(servers(campaign))
    text = CONTAINERFILE.read_text(encoding="utf-8")
    assert "PRIVOT_STATE_DIR=/state" in text
    assert "USER 10001" in text


def test_a_key_of_two_organizations_is_not_made_for_both(tmp_path):
    promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 300}
    schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}, "promise": promise})
    away = {"leader": "https://a.example", "helper": "https://b.example"}
    made = create(Encoder.calibrate(schema, True), tmp_path / "two", title="?", **away)
    assert not (made.folder / "secrets" / "verify.key").exists()
    assert services(made)["proxy"]["ports"] == ["127.0.0.1:8000:8000", "127.0.0.1:8002:8002"]
    assert CampaignFolder.load(made.folder).servers() == made.servers()
    assert made.ports == [None, None]


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_the_proxy_understands_its_configuration(campaign):
    path = campaign.folder / "containers" / "haproxy.cfg"
    subprocess.run(["haproxy", "-c", "-f", str(path)], check=True, capture_output=True)
