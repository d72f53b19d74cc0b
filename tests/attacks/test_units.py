"""Who is protected is said by whoever declares the records, in every package, and never guessed.

The attack: 600 of 3 000 records are one person's visits. A run that promised ε = 1 "per person" told
which they were, at an ε of 4.18 at least. What such a run may promise is "per visit".
"""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

from central.declared_images import image_schema, image_table
from privot import integral
from privot.central import CentralModel, SliceSettings, adapt, fit
from privot.central.classifiers.adapted import AdaptationSettings, AdaptedClassifier
from privot.central.records import records_of
from privot.central.slices import SlicePlan, SlicingMechanism
from privot.cli.app import app
from privot.core.errors import PrivotError
from privot.integral import ClippedRatioSettings, PointSpace
from privot.integral.references import UniformBox
from privot.privacy.ledger import Ledger
from privot.privacy.slice_accounting import SlicedAccounting
from privot.randomizer import Randomizer, plan_reports
from privot.schema import Schema

TOML = """
unit = "visit"
[columns.age]
kind = "numeric"
bounds = [0, 100]
[columns.sick]
kind = "boolean"
"""
SCHEMA = Schema.from_toml(TOML)
VISITS = pa.table({"age": np.linspace(1, 99, 300), "sick": np.arange(300) % 3 == 0})
BUDGET = {"epsilon": 8.0, "delta": 1e-3}
QUICK = {"steps": 4, "batch_size": 20, "method": "rdp"}
TREES = ClippedRatioSettings(estimator="trees")
NETWORK = {"generated": 20, "hidden": (4,)}

run = CliRunner()


def units(value):
    """Every unit that a description states, however deep."""
    if isinstance(value, dict):
        own = {value["unit"]} if "unit" in value else set()
        return own.union(*map(units, value.values()))
    return set().union(*map(units, value)) if isinstance(value, list) else set()


def promises_visits(folder, model):
    """Whether guarantee, plan and description all say "visit", before and after the disk."""
    model.save(folder)
    text = (folder / "model.json").read_text()
    assert units(json.loads(text)) == {"visit"}
    assert "person" not in text
    for known in (model, type(model).load(folder)):
        assert known.guarantee.unit == "visit"
        assert str(known.guarantee).endswith("per visit")
        assert "one visit" in known.guarantee.describe() or known.guarantee.neighboring == "any"


def test_slices_of_a_table_promise_what_its_schema_says(tmp_path):
    settings = SliceSettings(**QUICK, **NETWORK)
    model = fit(VISITS, SCHEMA, **BUDGET, method=settings, checkpoint=tmp_path / "run")
    promises_visits(tmp_path / "model", model)
    assert isinstance(model, CentralModel)
    (ledger,) = tmp_path.glob("run*ledger*")
    assert "person" not in ledger.read_text()


def test_images_and_adaptations_state_whom_a_record_belongs_to(tmp_path):
    with pytest.raises(TypeError, match="unit"):
        AdaptationSettings(epsilon=1.0)
    x = torch.rand(200, 6, 6)
    settings = SliceSettings(**QUICK, **NETWORK, low_pass=2)
    schema = image_schema((6, 6), unit="visit")
    model = fit(image_table(x), schema, **BUDGET, method=settings)
    promises_visits(tmp_path / "images", model)
    small = {"rounds": 1, "training_steps": 2, "feature_dim": 4, "channels": (), "hidden": (4,)}
    settings = AdaptationSettings(epsilon=99.0, delta=1e-3, unit="visit", **small)
    adapted = adapt(x.numpy(), np.arange(200) % 2, x.numpy(), settings)
    assert isinstance(adapted, AdaptedClassifier)
    promises_visits(tmp_path / "adapted", adapted)


def test_integral_models_state_it_and_schemas_are_not_contradicted(tmp_path):
    points, box = np.linspace(1, 99, 60)[:, None], UniformBox([0], [100])
    price = {"epsilon": 1.0, "draws": 2}
    with pytest.raises(TypeError, match="unit"):
        PointSpace(box)
    array = integral.fit(points, PointSpace(box, "visit"), **price)
    promises_visits(tmp_path / "array", array)
    promises_visits(tmp_path / "table", integral.fit(VISITS, SCHEMA, **price, settings=TREES))


def test_a_plan_for_persons_releases_nothing_of_visits():
    records = records_of(SCHEMA)
    visits = SliceSettings(**QUICK).plan(8.0, 1e-3, 300, records)
    assert visits.guarantee.unit == "visit"

    def persons(grid):
        fields = visits.accounting
        return SlicedAccounting(
            fields.dim, fields.num_projections, 300, 20, non_negative=True, grid=grid
        )

    wrong = SlicePlan.calibrate(8.0, 1e-3, 4, persons)
    with pytest.raises(PrivotError, match="protects a person, but a record belongs to a visit"):
        SlicingMechanism(*records.encode(VISITS), records, Ledger(wrong))
    with pytest.raises(PrivotError, match="unit"):
        image_schema((4, 4), unit="")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "schema.toml").write_text(TOML)
    pa.csv.write_csv(VISITS, tmp_path / "visits.csv")
    image_schema((6, 6), unit="visit").save(tmp_path / "images.json")
    np.savez(tmp_path / "images.npz", image=np.full((200, 6, 6), 0.7))
    return tmp_path


FIT = "--method slices --epsilon 8 --delta 1e-3 --steps 4 --batch-size 20"


@pytest.mark.parametrize(
    "command",
    [
        f"central fit visits.csv --schema schema.toml {FIT} -o model",
        f"central fit images.npz --schema images.json --low-pass 2 {FIT} -o model",
        "integral fit visits.csv --schema schema.toml --epsilon 1 --draws 2 --estimator trees "
        "-o model",
        "plan schema.toml --epsilon 4 --people 5000",
        "calibrate schema.toml --epsilon 4 -o randomizer.json",
        "account noise laplace --epsilon 1 --sensitivity 1 --unit visit",
        "account noise gaussian --epsilon 1 --sensitivity 1 --delta 1e-6 --unit visit",
        "account noise randomized-response --epsilon 1 --categories 3 --unit visit",
        "account shuffle --epsilon 1 --people 5000 --delta 1e-6 --unit visit",
        "account slices --stddev 2 --delta 1e-6 --dim 50 --num-projections 20 --records 1000 "
        "--radius 1 --steps 4 --batch-size 20 --unit visit",
    ],
)
def test_every_command_prints_the_unit(folder, command):
    done = run.invoke(app, command.split())
    assert done.exit_code == 0, (done.output, done.exception)
    assert "visit" in done.stdout
    assert "person" not in done.output
    if command.startswith("central"):
        assert "make sure that no visit has two" in done.stderr


def test_a_schema_says_its_own_unit(folder):
    refused = run.invoke(
        app,
        f"central fit visits.csv --schema schema.toml --unit person {FIT} -o model".split(),
    )
    assert refused.exit_code == 2
    assert "--unit" in refused.output
    assert not list(folder.glob("model*"))


def test_plans_and_randomizers_say_it():
    assert plan_reports(SCHEMA, 4.0, 5000).unit == "visit"
    assert Randomizer.calibrate(SCHEMA, 4.0).guarantee.unit == "visit"
