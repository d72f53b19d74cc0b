"""No raw values bring two rows of a release further apart than the plan has paid for."""

import itertools

import numpy as np
import pytest
import torch

from central.declared_images import image_records
from privot.central import SliceSettings
from privot.central.records import TableRecords
from privot.central.slices import SlicingMechanism
from privot.core.errors import PrivotError
from privot.privacy.ledger import Ledger
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [0, 100]
[columns.sick]
kind = "boolean"
""")
WILD = (-1e300, -50.0, -1.0, 0.0, 0.5, 1.0, 50.0, 1e300)
MAPS = {
    "rows": lambda degree: TableRecords(SCHEMA, degree=degree),
    "pixels": lambda degree: image_records((1, 3), low_pass=None, degree=degree),
    "frequencies": lambda degree: image_records((1, 3), low_pass=1, degree=degree),
}


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("record_map", MAPS.values(), ids=MAPS)
def test_rows_are_no_further_apart_than_accounted(record_map, degree):
    records = record_map(degree)
    values = torch.tensor(list(itertools.product(WILD, repeat=3)), dtype=torch.float64)
    if records.schema.images:
        values = values[:, None]
    settings = SliceSettings(steps=2, batch_size=2, num_projections=records.width, method="rdp")
    plan = settings.plan(8, 1e-5, len(values), records)
    mechanism = SlicingMechanism(values, None, records, Ledger(plan))
    rows = mechanism._project(np.arange(len(values)), torch.eye(records.width))
    assert float(torch.cdist(rows, rows).max()) <= plan.accounting.sensitivity


def test_rows_of_another_table_are_refused():
    records = TableRecords(SCHEMA)
    plan = SliceSettings(steps=2, batch_size=2, method="rdp").plan(8, 1e-5, 9, records)
    with pytest.raises(PrivotError, match=r"rows have shape \(4,\): give \(3,\)"):
        SlicingMechanism(torch.rand(9, 4), None, records, Ledger(plan))
