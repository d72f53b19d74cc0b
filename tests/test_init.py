"""What the root of the library offers loads on first use, names and submodules alike."""

import re
import subprocess
import sys

import pytest

import privot


def test_submodules_load_when_they_are_named():
    code = """
import sys, privot
assert not {m for m in sys.modules if m.startswith("privot.")}
assert privot.schema.Schema is privot.Schema
assert "torch" not in sys.modules
assert privot.local.fit is privot.fit
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


ALONE = """
import sys
class StandardLibraryAlone:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] not in {*sys.stdlib_module_names, 'privot'}:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, StandardLibraryAlone())
import privot
"""


def alone(code, *arguments):
    """Run code in a process that can import nothing but Python's own modules and ours."""
    command = [sys.executable, "-c", ALONE + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_device_draws_keeps_its_ledger_and_packs_a_batch_by_python_alone(tmp_path):
    schema = privot.Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
    (tmp_path / "randomizer.json").write_text(privot.Randomizer.calibrate(schema, 1.5).to_json())
    code = """
from pathlib import Path
from privot.device import Device, Report, read_batch, write_batch
from privot.waves import DeviceLedger, Limit, Panel
folder = Path(sys.argv[1])
device = Device.from_json((folder / "randomizer.json").read_text())
panel = Panel("ages", window=1, start=0, length=3600, seed="public", waves=2)
ledger = DeviceLedger(folder / "ledger", "me", limit=Limit(2.0), wait=False)
sent = [ledger.report(device, {"age": age}, panel, now=10) for age in (30, 70)]
assert sent[0] == sent[1] != device.report({"age": 30}, now=10)
assert [Report.from_bytes(each) for each in read_batch(write_batch(sent))] == sent
print(ledger.spent(now=10))
"""
    done = alone(code, tmp_path)
    assert done.stdout == "ε = 1.5, δ = 0, local, per person\n", done.stderr


@pytest.mark.parametrize(
    ("name", "extra"),
    [("Schema", "release"), ("collector", "release"), ("fit", "learn"), ("plot", "learn")],
)
def test_what_is_not_installed_is_named_with_its_remedy(name, extra):
    done = alone(f"privot.{name}")
    words = f"privot.{name} needs [a-z]+: pip install 'privot\\[{extra}\\]'"
    assert re.search(words, done.stderr.splitlines()[-1]), done.stderr


def test_the_command_line_without_its_extra_is_one_line():
    done = alone("from privot.cli import main; sys.argv[:] = ['privot', '--help']; main()")
    assert done.returncode == 2
    assert done.stderr == "privot: this command needs typer: pip install 'privot[release]'\n"


def test_every_name_is_there_and_others_are_not():
    for name in privot.__all__:
        assert getattr(privot, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'synthesise'"):
        _ = privot.synthesise
