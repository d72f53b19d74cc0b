"""The containers of a campaign: their commands are the command line's, and no server gets a key."""

import re
from pathlib import Path

import pytest
import typer

from privot.cli.app import app

CONTAINERS = Path(__file__).parents[2] / "examples" / "containers"
COMPOSE = (CONTAINERS / "compose.yaml").read_text(encoding="utf-8")
SERVICES = dict(
    re.findall(r"^  (\w+):.*?\n((?:    .*\n|\n)+)", COMPOSE.partition("services:")[2], re.M)
)
COMMANDS = {
    name: [word.strip(' "') for word in re.search(r"command: \[(.*)\]", text)[1].split(",")]
    for name, text in SERVICES.items()
    if "command:" in text
}


def test_there_is_a_service_for_every_role():
    assert set(COMMANDS) == {"dashboard", "collector", "shuffler", "leader", "helper"}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_understood(name):
    command = typer.main.get_command(app)
    words = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", word) for word in COMMANDS[name]]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    context = command.make_context(name, words, resilient_parsing=False)
    if name != "dashboard":
        assert context.params["role"] == name
        assert context.params["host"] == "0.0.0.0"  # of the container, published on 127.0.0.1 alone


@pytest.mark.parametrize("name", ["leader", "helper"])
def test_a_copy_of_a_servers_store_is_none_of_what_would_refuse_it(name):
    store, state = re.findall(r'"([\w-]+):/(?:store|state)"', SERVICES[name])
    assert store != state
    assert "PRIVOT_STATE_DIR=/state" in (CONTAINERS / "Containerfile").read_text(encoding="utf-8")


def test_no_service_gets_a_private_key():
    mounted = re.findall(r"\$\{CAMPAIGN[^}]*\}(\S*?):", COMPOSE)
    assert set(mounted) == {"/web", "/campaign.json", "/randomizer.json"}
    assert all("127.0.0.1:" in port for port in re.findall(r"ports: \[(.*)\]", COMPOSE))
