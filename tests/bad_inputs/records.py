# ruff: noqa: E501 (a case is a row)
"""Records that cannot be read, or are not what the schema says; and whoever noises them."""

from bad_inputs.cases import Case, cases

HEAD = "height,color,born,kids\n"
GOOD = "1.5,red,1980-01-01,2\n"
LINE = "privatize bad.csv -r randomizer.json -o out.parquet"


def held(content, says, line=LINE):
    """Records of this content."""
    return Case(line, says, {"bad.csv": content})


def row(fields, says):
    """A good record, and a bad one in line 3 of the file."""
    return held(HEAD + GOOD + fields + "\n", says)


def everywhere(content, says):
    """The same records in every command that reads some."""
    name = {"bad.csv": content}
    against = "--schema schema.toml --epsilon 1"
    return cases(
        (LINE, says, name),
        ("schema check schema.toml --against bad.csv", says, name),
        ("evaluate model --against bad.csv -o out.html", says, name),
        (f"central fit bad.csv {against} -o out", says, name),
        (f"integral fit bad.csv {against} --draws 5 -o out", says, name),
    )


CASES = [
    *everywhere("", "is empty"),
    *everywhere(HEAD, "no rows"),
    *everywhere((HEAD + GOOD).encode("utf-16"), "is UTF-16"),
    *everywhere((HEAD + GOOD).replace(",", ";"), "give separator ';'"),
    *everywhere(HEAD + GOOD + "1.5,red\n", "line 3: it has 2 fields, the first line 4"),
    *everywhere((HEAD + "1.5,grün,1980-01-01,2\n").encode("latin-1"), "line 2: column 'color' is not UTF-8"),
    held((HEAD + GOOD).encode("utf-16-le"), "zero bytes"),
    held((HEAD + GOOD).replace(",", "\t"), "give separator tab"),
    held((HEAD + GOOD).replace(",", "|"), "give separator '|'"),
    held((HEAD + GOOD).replace(",", ";"), "give separator ';'", LINE + " --separator tab"),
    held(GOOD * 3, "none of the columns"),
    held("\n\n\n", "empty"),
    held("   ", "empty"),
    held(b"PK\x03\x04junk", "zip or Excel"),
    held(b"\xd0\xcf\x11\xe0junk", "Excel"),
    held(b"\x1f\x8bjunk", "gzip"),
    held(b"PAR1junk", "Parquet"),
    held(b"%PDF-1.4\n\x00\x01", "none of the columns"),
    held("<html><body>\n<p>Not found</p>\n", "none of the columns"),
    held(HEAD.replace("kids", "height") + GOOD, "appear twice"),
    held(HEAD.replace("kids", "Kids") + GOOD, "['kids'] are missing"),
    held(HEAD.replace("kids", " kids") + GOOD, "['kids'] are missing"),
    held("height,color\n1,red\n", "['born', 'kids'] are missing"),
    held(HEAD.strip() + ",name\n1.5,red,1980-01-01,2,Eve\n", "['name'] are not in the schema"),
    held("é,height,color,born,kids\n".encode("latin-1"), "first line that is not UTF-8"),
    held(HEAD + "1,red,1980-01-01,2,9\n", "line 2: it has 5 fields"),
    held(HEAD + '"1.5,red,1980-01-01,2\n' + GOOD, "bad.csv"),
    held(HEAD + '1.5,"red,1980-01-01,2\n' + GOOD, "bad.csv"),
    held(HEAD + GOOD + '1.5,red,1980-01-01,"2\n', "bad.csv"),
    held(HEAD + GOOD + '1.5,"re\nd",1980-01-01,2\n', "line 3"),
    held(HEAD + "\n\n" + GOOD + "x,red,1980-01-01,2\n", "line 5: column 'height'"),
    row("1,5,red,1980-01-01,2", "line 3: it has 5 fields"),
    row('"1,5",red,1980-01-01,2', "line 3: column 'height' has a number with a comma"),
    row('"1.000,5",red,1980-01-01,2', "column 'height' has a number with a comma"),
    row('"1 000,5",red,1980-01-01,2', "column 'height' has a number with a comma"),
    row("tall,red,1980-01-01,2", "column 'height' has text, not a number"),
    row("1.5m,red,1980-01-01,2", "column 'height' has text"),
    row("1.5 m,red,1980-01-01,2", "column 'height' has text"),
    row("€3,red,1980-01-01,2", "column 'height' has text"),
    row("50%,red,1980-01-01,2", "column 'height' has text"),
    row("0x10,red,1980-01-01,2", "column 'height' has text"),
    row("1_0,red,1980-01-01,2", "column 'height' has text"),
    row("true,red,1980-01-01,2", "column 'height' has text"),
    row("１,red,1980-01-01,2", "column 'height' has text"),
    row("=A1,red,1980-01-01,2", "column 'height' has text"),
    row("2001-01-01,red,1980-01-01,2", "column 'height' has a date"),
    row("inf,red,1980-01-01,2", "column 'height' is infinite"),
    row("-Infinity,red,1980-01-01,2", "column 'height' is infinite"),
    row("1e999,red,1980-01-01,2", "column 'height' is infinite"),
    row("nan,red,1980-01-01,2", "column 'height' has no value"),
    row("NA,red,1980-01-01,2", "column 'height' has no value"),
    row(",red,1980-01-01,2", "column 'height' has no value"),
    row("  ,red,1980-01-01,2", "column 'height' has no value"),
    row("1,,1980-01-01,2", "column 'color' has no value"),
    row("1, red,1980-01-01,2", "column 'color' has spaces"),
    row("1,red ,1980-01-01,2", "column 'color' has spaces"),
    row("1,Red,1980-01-01,2", "column 'color' differs from a category by capitals"),
    row("1,RED ,1980-01-01,2", "column 'color' differs from a category by capitals"),
    row("1,pink,1980-01-01,2", "column 'color' is none of its 3 categories"),
    row("1,0,1980-01-01,2", "column 'color' is none of its 3 categories"),
    row("1,'red',1980-01-01,2", "column 'color' is none of its 3 categories"),
    row("1,red\x00,1980-01-01,2", "column 'color' is none of its 3 categories"),
    row("1,red,,2", "column 'born' has no value"),
    row("1,red,01.02.1980,2", "column 'born' has a date in another format"),
    row("1,red,01/02/1980,2", "column 'born' has a date in another format"),
    row("1,red,1980/02/01,2", "column 'born' has a date in another format"),
    row("1,red,1980-2-1,2", "column 'born' has a date in another format"),
    row("1,red,1980-02-30,2", "column 'born' has a date in another format"),
    row("1,red,1980-13-01,2", "column 'born' has a date in another format"),
    row("1,red,19800201,2", "column 'born' has text, not a date"),
    row("1,red,1980,2", "column 'born' has text, not a date"),
    row("1,red,1 Feb 1980,2", "column 'born' has text, not a date"),
    row("1,red,yesterday,2", "column 'born' has text, not a date"),
    row("1,red,1980-02-01T10:00:00Z,2", "column 'born' has a time with a zone"),
    row("1,red,1980-02-01 10:00:00+02:00,2", "column 'born' has a time with a zone"),
    row("1,red,1980-02-01,two", "column 'kids' has text"),
    row('1,red,1980-02-01,"2,0"', "column 'kids' has a number with a comma"),
    row("1,red,1980-02-01,inf", "column 'kids' is infinite"),
    *cases(
        ("privatize nowhere.csv -r randomizer.json -o out.parquet", "is not there"),
        ("privatize people.txt -r randomizer.json -o out.parquet", "unknown format"),
        ("privatize people.xlsx -r randomizer.json -o out.parquet", "unknown format"),
        ("privatize . -r randomizer.json -o out.parquet", "another place"),
        ("privatize model -r randomizer.json -o out.parquet", "format"),
        ("privatize schema.toml -r randomizer.json -o out.parquet", "unknown format"),
        ("privatize release.parquet -r randomizer.json -o out.parquet", "is a release"),
        ("privatize images.npz -r randomizer.json -o out.parquet", "missing"),
        ("privatize people.csv -r nowhere.json -o out.parquet", "nowhere.json cannot be read"),
        ("privatize people.csv -r schema.toml -o out.parquet", "not readable"),
        ("privatize people.csv -r people.csv -o out.parquet", "not readable"),
        ("privatize people.csv -r . -o out.parquet", "another place"),
        ("privatize people.csv -r release.parquet -o out.parquet", "cannot be read"),
        ("privatize people.csv -r home.json -o out.parquet", "none of the columns"),
        ("privatize people.csv -r randomizer.json -o out.npz", "give parquet"),
        ("privatize people.csv -r randomizer.json -o out.xlsx", "unknown format"),
        ("privatize people.csv -r randomizer.json -o release.parquet", "release.parquet"),
        ("privatize people.csv -r randomizer.json -o people.csv", "people.csv"),
        ("privatize people.csv -r randomizer.json -o model", "model"),
        ("privatize people.csv -r randomizer.json -o nowhere/out.parquet", "nowhere"),
        ("privatize people.csv -r randomizer.json -o out.parquet --shard-rows 0", "--shard-rows"),
        ("privatize people.csv -r randomizer.json -o out.parquet --shard-rows -4", "--shard-rows"),
        ("privatize people.csv -r randomizer.json -o out.parquet --ignore size", "no such column"),
        ("privatize people.csv -r randomizer.json -o out.parquet --ignore kids", "schema declares it"),
        ("privatize people.csv -r randomizer.json -o out.parquet --separator xy", "one character"),
        ("privatize people.csv -r randomizer.json -o out.parquet --separator 7", "one character"),
        ("privatize - -r randomizer.json -o out.parquet", "empty"),
        ("privatize - -r randomizer.json -o out.parquet", "no rows", {}, HEAD),
        ("privatize - -r randomizer.json -o out.parquet", "give separator", {}, HEAD.replace(",", ";") + "1\n"),
    ),
]  # fmt: skip
