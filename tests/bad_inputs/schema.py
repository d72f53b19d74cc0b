# ruff: noqa: E501 (a case is a row)
"""Schemas that are none, and metadata that are none."""

from bad_inputs.cases import Case, cases


def declared(text, says):
    """A schema of this text."""
    return Case("schema check bad.toml", says, {"bad.toml": text})


def column(text, says):
    """A schema of one column."""
    return declared(f"[columns.x]\n{text}\n", says)


CASES = [
    *cases(
        ("schema check nowhere.toml", "schema nowhere.toml cannot be read"),
        ("schema check .", "cannot be read"),
        ("schema check people.csv", "not TOML"),
        ("schema check randomizer.json", "format"),
        ("schema check release.parquet", "cannot be read"),
        ("schema check schema.toml --json --against people.csv", "give one of them"),
        ("schema check schema.toml --separator ;", "--against"),
        ("schema check schema.toml --ignore x", "--against"),
        ("schema check schema.toml --against nowhere.csv", "is not there"),
        ("schema check schema.toml --against schema.toml", "unknown format"),
        ("schema check schema.toml --against release.parquet", "is a release"),
        ("schema check schema.toml --against people.csv --ignore height", "schema declares it"),
        ("schema check schema.toml --against people.csv --ignore size", "no such column"),
        ("schema check schema.toml --against people.csv --separator ab", "one character"),
        ("schema check schema.toml --against ages.csv", "none of the columns"),
        ("schema new a:bool --from nowhere.json -o out.toml", "three ways to a schema"),
        ("schema new --from nowhere.json --pilot model -o out.toml", "three ways to a schema"),
        ("schema new a:bool --table b -o out.toml", "--from"),
        ("schema check schema.toml --json --metadata out.json", "leave out --json"),
        ("schema check schema.toml --metadata schema.toml", "schema.toml"),
        ("schema new --from nowhere.json -o out.toml", "cannot be read"),
        ("schema new --from people.csv -o out.toml", "JSON"),
        ("schema new --from people.csv -o people.csv", "unknown format"),
        ("schema new --from meta.json -o out.toml", "", {"meta.json": "[]"}),
        ("schema new --from meta.json -o out.toml", "", {"meta.json": "{}"}),
        ("schema new --from meta.json -o out.toml", "", {"meta.json": '{"tables": {}}'}),
        ("schema new --from meta.json -o out.toml", "", {"meta.json": '{"columns": 3}'}),
        ("schema new --from meta.json -o out.toml", "", {"meta.json": '{"columns": {"a": 3}}'}),
        ("schema new --from meta.json -o out.toml", "", {"meta.json": b"\xff\xfe\x00"}),
        (
            "schema new --from meta.json -o schema.toml",
            "schema.toml exists",
            {"meta.json": '{"columns": {"a": {"sdtype": "boolean"}}}'},
        ),
        (
            "schema new --from meta.json -o nowhere/s.toml",
            "nowhere",
            {"meta.json": '{"columns": {"a": {"sdtype": "boolean"}}}'},
        ),
        (
            "schema new --from meta.json --table b -o out.toml",
            "metadata",
            {"meta.json": '{"tables": {"a": {"columns": {"a": {"sdtype": "boolean"}}}}}'},
        ),
    ),
    declared("", "columns are missing"),
    declared("columns = 3", "columns"),
    declared("columns = {}", "columns"),
    declared("unit = ''\n[columns.x]\nkind='boolean'", "unit"),
    declared("units = 'person'\n[columns.x]\nkind='boolean'", "units"),
    declared("[columns.x\nkind=3", "not TOML"),
    declared(b"\xff\xfe[\x00", "cannot be read"),
    declared("[columns.x]\nkind='boolean'\n[columns.x]\nkind='boolean'", "not TOML"),
    declared(
        "[columns.v]\nkind='vector'\ncolumns=['x','x']\nradius=1", "declared twice"
    ),
    declared(
        "[columns.v]\nkind='vector'\ncolumns=['x','y']\nradius=1\n[columns.x]\nkind='boolean'",
        "declared twice",
    ),
    column("", "kind of column 'x' is missing"),
    column("kind = 'number'", "kind 'number'"),
    column("kind = 3", "kind"),
    column("kind = 'numeric'", "bounds of column 'x' are missing"),
    column("kind = 'numeric'\nbounds = 3", "bounds"),
    column("kind = 'numeric'\nbounds = [3]", "bounds"),
    column("kind = 'numeric'\nbounds = [3, 1]", "smaller first"),
    column("kind = 'numeric'\nbounds = [1, 1]", "not an interval"),
    column("kind = 'numeric'\nbounds = [nan, 1]", "bounds"),
    column("kind = 'numeric'\nbounds = [-inf, inf]", "bounds"),
    column("kind = 'numeric'\nbounds = ['a', 'b']", "bounds"),
    column("kind = 'numeric'\nbounds = [0, 1e300]", "too far out"),
    column("kind = 'numeric'\nbounds = [0, 1e-300]", "too far out"),
    column("kind = 'numeric'\nbounds = [0, 1]\nboundz = 3", "boundz"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = 0", "bins 0"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = -5", "bins -5"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = 1000000000", "bins 1000000000"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = 1000000000000000000000", "bins"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = 2.5", "bins"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = 'many'", "bins"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = []", "bins"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = [0, 2]", "bins"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = [0, 0.9, 0.5, 1]", "do not increase"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = [0, nan, 1]", "bins"),
    column("kind = 'numeric'\nbounds = [0, 1]\nbins = 'integers'", "integer = true"),
    column(
        "kind = 'numeric'\nbounds = [0, 1000000000]\ninteger = true\nbins = 'integers'", "bins"
    ),
    column("kind = 'numeric'\nbounds = [0, 9]\ninteger = true\nbins = 50", "bins 50"),
    column("kind = 'numeric'\nbounds = [0.5, 9]\ninteger = true", "integers"),
    column("kind = 'numeric'\nbounds = [0, 9]\nspikes = [10]", "spikes"),
    column("kind = 'numeric'\nbounds = [0, 9]\nspikes = [nan]", "spikes"),
    column("kind = 'categorical'", "categories of column 'x' are missing"),
    column("kind = 'categorical'\ncategories = []", "at least two"),
    column("kind = 'categorical'\ncategories = ['a']", "at least two"),
    column("kind = 'categorical'\ncategories = ['a', 'a']", "declared twice"),
    column("kind = 'categorical'\ncategories = [1, 2]", "categories"),
    column("kind = 'categorical'\ncategories = 'ab'", "categories"),
    column("kind = 'boolean'\ncategories = ['a', 'b']", "categories"),
    column("kind = 'datetime'\nbounds = ['soon', 'later']", "'soon' is not a date"),
    column("kind = 'datetime'\nbounds = [2001-01-01, 2000-01-01]", "smaller first"),
    column("kind = 'datetime'\nbounds = ['01.02.2001', '01.02.2002']", "2024-05-31"),
    column("kind = 'datetime'\nbounds = [2000-01-01, 2001-01-01]\nbins = 1000", "bins 1000"),
    column("kind = 'datetime'\nbounds = [2000-01-01, 2001-01-01]\nresolution = 'week'", "resolution"),
    column("kind = 'vector'\nradius = 1", "columns of column 'x' are missing"),
    column("kind = 'vector'\ncolumns = ['a', 'b']", "bounds are missing"),
    column("kind = 'vector'\ncolumns = ['a', 'b']\nradius = -1", "radius"),
    column("kind = 'vector'\ncolumns = ['a', 'b']\nradius = nan", "radius"),
    column("kind = 'vector'\ncolumns = ['a', 'b']\nradius = 0", "radius"),
    column("kind = 'vector'\ncolumns = []\nradius = 1", "column"),
    column("kind = 'vector'\ncolumns = ['a', 'b']\nradius = 1\nnorm = 3", "norm"),
    column("kind = 'vector'\ncolumns = ['a', 'b']\nbounds = [[0, 1]]", "give one a column"),
    column("kind = 'vector'\ncolumns = ['a', 'b']\nradius = 1\nbounds = [[0, 1], [0, 1]]", "exactly one"),
    column("kind = 'array'", "shape"),
    column("kind = 'array'\nshape = [28]\nbounds = [0, 255]", "shape"),
    column("kind = 'array'\nshape = [0, 28]\nbounds = [0, 255]", "shape"),
    column("kind = 'array'\nshape = [-1, 28]\nbounds = [0, 255]", "shape"),
    column("kind = 'array'\nshape = [100000, 100000]\nbounds = [0, 255]", "smaller images"),
    column("kind = 'array'\nshape = [28, 28]\nbounds = [255, 0]", "bounds"),
    column("kind = 'array'\nshape = [28, 28]\nbounds = [0, 255]\nradius = -2", "radius"),
]  # fmt: skip
