"""What the dashboard shows is what the reports say."""

import json

import numpy as np
import pytest

from campaign.test_campaign import NUMBER, TABLE, made
from privot.campaign import expected_error, write_status
from privot.core.errors import PrivotError
from privot.randomizer import plan_reports


def test_shares_of_all_columns_are_learned_from_reports(tmp_path):
    campaign = made(tmp_path, epsilon=8.0)
    rng = np.random.default_rng(0)
    count = 3_000
    car = rng.random(count) < 0.7
    people = {
        "age": rng.integers(16, 80, count),
        "travel": np.where(car, "</script><b>car", "on foot"),
        "x": np.where(car, 0.9, 0.1),
        "y": rng.random(count) * 2,
    }
    release = campaign.randomizer.privatize(people)
    status = write_status(campaign, release)
    assert status == json.loads((campaign.web / "status.json").read_text())
    assert status["reports"] == count
    assert status["expected_error"].endswith("%")
    age, travel, home = status["columns"]
    # Shares err by .013 ± .005 in five runs: .1 is 19 standard deviations, a false alarm below 10⁻⁶.
    assert age["question"] == "How old are you?"
    assert sum(age["shares"]) == pytest.approx(1, abs=0.01)
    assert travel["shares"] == pytest.approx([0.3, 0.7], abs=0.1)
    cells = np.array(home["cells"])
    assert cells[:, 12:].sum() == pytest.approx(0.7, abs=0.1)


def test_days_are_shown_between_their_bounds(tmp_path):
    campaign = made(tmp_path, schema=NUMBER)
    release = campaign.randomizer.privatize({"day": ["2024-02-01"] * 2000})
    (day,) = write_status(campaign, release)["columns"]
    assert day["ends"] == ["2024-01-01", "2024-12-31"]
    assert sum(day["shares"][:6]) > 0.8


def test_the_error_to_expect_is_that_of_how_people_report(tmp_path):
    for columns in (1, 2):
        campaign = made(tmp_path / str(columns), report_columns=columns)
        randomizer = campaign.randomizer
        table = plan_reports(randomizer.schema, randomizer.guarantee.epsilon, 5000).table
        (own,) = [
            each.one_way
            for each in table.options
            if each.report == "joint" and each.report_columns == columns
        ]
        assert expected_error(campaign, 5000) == f"{own:.1%}"


def test_what_was_promised_is_rounded_up(tmp_path):
    campaign = made(tmp_path, schema=NUMBER, epsilon=1.0049)
    status = write_status(campaign, campaign.randomizer.privatize({"day": ["2024-02-01"] * 50}))
    assert status["guarantee"] == "ε = 1.005"


def test_reports_of_another_campaign_are_refused(tmp_path):
    campaign = made(tmp_path)
    other = made(tmp_path / "other", schema=TABLE, report_columns=1)
    people = {"age": [20], "travel": ["on foot"], "x": [0.5], "y": [0.5]}
    with pytest.raises(PrivotError, match="another campaign"):
        write_status(campaign, other.randomizer.privatize(people))
