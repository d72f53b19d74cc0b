"""A kind of column of one's own goes from a CSV to the report; no line of the library is told of it."""

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.evaluation import evaluate
from privot.local import FitSettings, LocalModel, fit
from privot.randomizer import Randomizer, Release
from privot.report import write_report
from privot.schema import Schema
from privot.schema.columns.alphabet import Categories
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.raw_values import read_numbers
from privot.tables.files import read_table


class AngleColumn(CodedColumn):
    """A direction in degrees, coded in `cells` sectors, the first of which lies around 0 = 360."""

    kind: Literal["angle"]
    cells: int

    holds_numbers: ClassVar[bool] = True

    @cached_property
    def alphabet(self):
        centers = np.arange(self.cells) * 360 / self.cells
        return Categories(tuple(f"{center:g}°" for center in centers), None, self.nullable)

    def read(self, name, table):
        numbers, problems = read_numbers(table.column(name), name, self.nullable)
        absent = np.isnan(numbers)
        sectors = np.rint(np.where(absent, 0, numbers) * self.cells / 360).astype(np.int64)
        return np.where(absent, self.cells, sectors % self.cells), problems

    def decode_codes(self, name, codes, rng):
        angles = (codes + rng.random(len(codes)) - 0.5) * 360 / self.cells % 360
        return {name: pa.array(angles, mask=codes == self.cells)}


SCHEMA = Schema.from_toml("""
[columns.wind]
kind = "angle"
cells = 8
nullable = true
[columns.rain]
kind = "boolean"
""")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Wind from around the north, across 0, where it rains; from the south where it does not."""
    rng = np.random.default_rng(0)
    rain = rng.random(4000) < 0.6
    wind = (np.where(rain, 0, 180) + 15 * rng.standard_normal(4000)) % 360
    path = tmp_path_factory.mktemp("toy") / "people.csv"
    lines = [f"{w:.1f},{r}" if w < 340 else f",{r}" for w, r in zip(wind, rain, strict=True)]
    path.write_text("\n".join(["wind,rain", *lines]) + "\n")
    return read_table(path, SCHEMA)


def test_values_wrap_around_and_come_back():
    wind = SCHEMA.coded["wind"]
    table = pa.table({"wind": ["-10", "359", "44", "720.5", None]})
    codes = wind.encode_codes("wind", table)
    assert codes.tolist() == [0, 0, 1, 0, 8]
    again = pa.table(wind.decode_codes("wind", codes, np.random.default_rng(0)))
    assert wind.encode_codes("wind", again).tolist() == codes.tolist()
    with pytest.raises(PrivotError, match="row 1: column 'wind' has text, not a number"):
        wind.encode_codes("wind", pa.table({"wind": ["north"]}))


def test_a_schema_reads_the_kind_and_writes_it():
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    assert SCHEMA.to_dict()["columns"]["wind"] == {"kind": "angle", "cells": 8, "nullable": True}
    with pytest.raises(PrivotError, match="^cells of column 'wind' are missing"):
        Schema.from_toml('[columns.wind]\nkind = "angle"')
    with pytest.raises(PrivotError, match="say one of angle, array, boolean"):
        Schema.from_toml('[columns.wind]\nkind = "angel"')


def test_a_kind_that_is_taken_cannot_be_taken_over():
    with pytest.raises(PrivotError, match="column kind 'boolean' is privot"):

        class Impostor(CodedColumn):
            kind: Literal["boolean"]


@pytest.mark.parametrize("estimator", ["latent_classes", "generator"])
def test_from_csv_to_report(people, estimator, tmp_path):
    randomizer = Randomizer.calibrate(SCHEMA, epsilon=6.0)
    release = randomizer.privatize(people)
    release.save(tmp_path / "release.parquet")
    release = Release.load(tmp_path / "release.parquet")
    steps = {"steps": 60, "hidden": (16,)} if estimator == "generator" else {}
    model = fit(release, FitSettings(estimator=estimator, seed=0, **steps))
    model.save(tmp_path / "model")
    model = LocalModel.load(tmp_path / "model")
    sample = model.sample(2000, seed=0, where={"rain": True})
    north = SCHEMA.coded["wind"].encode_codes("wind", sample)
    sample = model.sample(2000, seed=0)
    found = evaluate(model, people, num_rows=2000)
    comparison = found.comparison
    write_report(found, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "wind" in page
    assert "315°" in page
    if estimator == "latent_classes":
        assert np.isin(north, [0, 1, 7, 8]).mean() > 0.9
        assert comparison.table.summary["one_way"].synthetic < 0.05
