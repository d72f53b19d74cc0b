"""The numbers that people decide by are those that were recorded, or are computed."""

import json
import re
from pathlib import Path
from statistics import mean

import numpy as np

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"
PAGE = (DOCS / "decide.md").read_text(encoding="utf-8")
GREEK = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def recorded(path, **wanted):
    rows = json.loads((RESULTS / path).read_text(encoding="utf-8"))
    found = [row for row in rows if all(same(row.get(key), wanted[key]) for key in wanted)]
    assert found, wanted
    return found


def same(value, wanted):
    return np.isclose(value, wanted) if isinstance(wanted, float) and value else value == wanted


def stated_row(start, nth=0):
    """Cells of the nth row that starts so, as texts by the head of their column."""
    lines = PAGE.splitlines()
    numbers = [index for index, line in enumerate(lines) if line.startswith(f"| {start}")]
    head = numbers[nth]
    while not lines[head].startswith("|---"):
        head -= 1
    names, cells = (
        [cell.strip() for cell in lines[at].strip("|").split("|")]
        for at in (head - 1, numbers[nth])
    )
    return dict(zip(names, cells, strict=True))


def figures(text):
    return [float(figure) for figure in re.findall(r"\d+(?:\.\d+)?", text.replace(" ", ""))]


def points(share, digits=1):
    return round(100 * share, digits)


def delta(row):
    base, power = row["δ"].split("10")
    assert base == ""
    return 10.0 ** int(power.translate(GREEK))


def test_shares_that_move():
    rows = recorded("waves/share.json", scheme="panel", epsilon=2.0)
    row = stated_row("a share that moves")
    for trend in ("grows", "jumps"):
        errors = [each["alone"] for each in rows if each["trend"] == trend]
        assert points(np.sqrt(np.mean(np.square(errors)))) <= figures(row["accuracy"])[0]
    assert figures(row["people"]) == [6 * rows[0]["people"] + 2]  # a sixth reports in each wave


def test_maps():
    w2 = mean(
        each["w2"] for each in recorded("best_report/towns.json", method="window", epsilon=4.0)
    )
    row = stated_row("a map of places")
    assert "a fortieth of its side" in row["accuracy"]
    assert round(2 / w2) == 40  # the side is 2
    assert row["at ε"] == "4"


def test_tables_of_reports():
    line = next(
        line
        for line in (RESULTS / "tables.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| 10, 4 |")
    )
    cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
    row = stated_row("a table of ten columns, with its pairs")
    assert figures(row["accuracy"]) == [points(float(cells[1])), points(float(cells[2]))]
    assert row["at ε"] == "4"


def test_pictures_of_reports():
    row = stated_row("pictures that train a classifier")
    measured = []
    for data in ("mnist", "fashion_mnist"):
        files = (RESULTS / "images").glob(f"candidates_{data}_epsilon10*.json")
        rows = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        assert len(rows) == 3
        assert {(each["epsilon"], each["num_people"]) for each in rows} == {(10.0, 60_000)}
        measured.append(points(mean(each["accuracy"] for each in rows), 0))
    assert figures(row["accuracy"]) == measured
    assert (row["at ε"], row["people"]) == ("10", "60 000")


def test_a_curators_table():
    row = stated_row("a table of ten columns with its pairs")
    (found,) = recorded(
        "central/tables.json", epsilon=1.0, estimator="mixture (privot.central.fit)"
    )
    assert figures(row["accuracy"]) == [points(found["one_way"]), points(found["two_way"])]
    assert delta(row) == 1e-6


def test_a_curators_pictures():
    for start, data in (("pictures of digits", "mnist"), ("pictures of clothes", "fashion_mnist")):
        row = stated_row(start)
        rows = [
            each
            for each in recorded("central/images.json", method="mixture", data=data, held_out=False)
            if round(each["epsilon"], 6) == 1 and each["residual_low_pass"] == 14
        ]
        assert {(each["neighboring"], each["delta"]) for each in rows} == {
            ("replace_one", delta(row))
        }
        kinds = ("logistic_regression", "mlp")
        measured = [points(mean(each[kind] for each in rows), 0) for kind in kinds]
        assert figures(row["accuracy"]) == measured
        assert row["at ε"] == "1"


def test_labels_from_a_public_set():
    row = stated_row("labels for pictures")
    path, pair = "central/adaptation.json", "mnist_usps"
    sums = recorded(path, pair=pair, method="sums", epsilon=10.0)
    source = recorded(path, pair=pair, method="source")
    measured = [points(mean(each["accuracy"] for each in rows)) for rows in (sums, source)]
    assert figures(row["accuracy"]) == measured
    assert {(each["neighboring"], each["delta"]) for each in sums} == {("replace_one", delta(row))}
    assert figures(row["records"]) == [sums[0]["target_records"]]


def test_places_that_protect_any_group():
    (public,) = [each for each in recorded("integral/accidents.json") if "reference_w2" in each]
    for nth, epsilon in enumerate((1.0, 10.0)):
        row = stated_row("a place of a road accident", nth)
        (found,) = recorded("integral/accidents.json", epsilon=epsilon)
        measured = [points(found["w2"] / 2, 0)]  # the side is 2
        if nth == 0:
            measured += [points(public["reference_w2"] / 2, 0)]
        stated = [each for each in figures(row["accuracy"].replace("W₂", "")) if each]
        assert stated == measured
        assert float(row["at ε"]) == epsilon


def test_every_row_says_where():
    tables = re.findall(r"^\| what you .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) == 14
    assert not [row for row in rows if not re.search(r"\| \[[^|]*\]\([^|]*\) \|$", row)]


def test_each_answer_leads_to_a_yes_and_a_no():
    question = PAGE.split("## Whom do the people trust?")[1].split("\n## ")[0]
    answers = re.findall(r"^\*\*\[.*\]\(#([\w-]+)\)\*\*", question, re.MULTILINE)
    assert len(answers) == 3
    sections = {part.split("\n")[0].lower().replace(" ", "-"): part for part in PAGE.split("\n## ")}
    for answer in answers:
        for outcome in ("\n**Yes**, ", "\n**No**, "):
            assert outcome in sections[answer], (answer, outcome)


def test_tables_of_the_parameters_are_what_is_computed_below_them():
    page = (DOCS / "parameters.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    computed = [line for block in blocks for line in block.splitlines() if line.startswith("| ")]
    shown = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE).splitlines()
    assert len(computed) == 12
    assert not set(computed) - set(shown)
