"""`privot account`: both directions, JSON for scripts, one sentence for people, one-line refusals."""

import json

import pytest

from cli.conftest import account


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "noise gaussian --epsilon 1 --delta 1e-6 --sensitivity 1",
            {"stddev": 4.22468, "stddev_closed_form": 5.08417, "epsilon": 1, "delta": 1e-6},
        ),
        (
            "noise gaussian --stddev 4.2247 --delta 1e-6 --sensitivity 1",
            {"epsilon": 0.999995, "stddev": 4.2247, "sensitivity": 1},
        ),
        # Noise that the 2023 paper claims (35, 1e-4) for, with the radius 28 for the diameter 56.
        (
            "noise gaussian --stddev 5.2842146493521405 --delta 1e-4 --sensitivity 56",
            {"epsilon": 94.71141},
        ),
        (
            "noise laplace --epsilon 4 --sensitivity 2",
            {"scale": 0.5, "epsilon": 4, "sensitivity": 2},
        ),
        ("noise laplace --scale 0.25 --sensitivity 2", {"epsilon": 8, "stddev": 0.3535534}),
        ("noise randomized-response --epsilon 1 --categories 5", {"keep": 0.4046097}),
        ("noise randomized-response --keep 0.75 --categories 2", {"epsilon": 1.0986123}),
        (
            "shuffle --epsilon 5 --people 400000 --delta 1e-6",
            {"epsilon": 0.09785, "epsilon_lower": 0.0975, "epsilon_closed_form": 0.35209},
        ),
        (
            "shuffle --central-epsilon 0.1 --people 400000 --delta 1e-6",
            {"epsilon_local": 5.039708, "epsilon": 0.1, "people": 400000, "delta": 1e-6},
        ),
    ],
)
def test_json(arguments, expected):
    code, out, err = account(arguments + " --json")
    assert (code, err) == (0, "")
    fields = json.loads(out)
    assert next(iter(fields)) == next(iter(expected))
    for name, value in expected.items():
        assert fields[name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.parametrize(
    ("forward", "noise", "epsilon"),
    [
        ("noise gaussian --delta 1e-5 --sensitivity 3", "stddev", 0.7),
        ("noise laplace --sensitivity 3", "scale", 0.7),
        ("noise randomized-response --categories 7", "keep", 0.7),
    ],
)
def test_noise_and_epsilon_are_inverse_and_err_on_the_safe_side(forward, noise, epsilon):
    _, out, _ = account(f"{forward} --epsilon {epsilon} --json")
    value = json.loads(out)[noise]
    _, out, _ = account(f"{forward} --{noise} {value!r} --json")
    assert epsilon * (1 - 1e-8) <= json.loads(out)["epsilon"] <= epsilon


def test_shuffling_and_its_inverse_err_on_the_safe_side():
    setting = "--people 50000 --delta 1e-7"
    _, out, _ = account(f"shuffle --central-epsilon 0.25 {setting} --json")
    local = json.loads(out)["epsilon_local"]
    _, out, _ = account(f"shuffle --epsilon {local!r} {setting} --json")
    assert 0.25 * (1 - 1e-6) <= json.loads(out)["epsilon"] <= 0.25


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (
            "noise gaussian --epsilon 1 --delta 1e-6 --sensitivity 1",
            ["4.22468 on every coordinate", "diameter of their domain", "Zhao", "5.08417", "20%"],
        ),
        (
            "noise gaussian --stddev 2 --delta 1e-4 --sensitivity 1",
            ["standard deviation 2 ", "gives"],
        ),
        (
            "noise laplace --epsilon 3 --sensitivity 1",
            ["scale 0.333334 ", "epsilon = 3 (pure)", "l1"],
        ),
        ("noise laplace --scale 3 --sensitivity 1", ["scale 3 ", "epsilon = 0.333334 (pure)"]),
        (
            "noise randomized-response --epsilon 1 --categories 2",
            ["0.731058,", "epsilon = 1 (pure)"],
        ),
        (
            "shuffle --epsilon 5 --people 400000 --delta 1e-6",
            ["0.0978507", "0.0975003", "0.352093", "trusts the shuffler"],
        ),
        (
            "shuffle --central-epsilon 0.1 --people 400000 --delta 1e-6",
            ["reports of epsilon = 5.0397 (pure)", "give epsilon = 0.1 at", "trusts the shuffler"],
        ),
    ],
)
def test_sentences_round_to_the_safe_side(arguments, phrases):
    code, out, err = account(arguments)
    assert (code, err) == (0, "")
    for phrase in phrases:
        assert phrase in out


def test_the_closed_form_is_left_out_where_it_is_silent():
    _, out, _ = account("noise gaussian --epsilon 0 --delta 1e-3 --sensitivity 1 --json")
    assert json.loads(out)["stddev_closed_form"] is None
    assert "Zhao" not in account("noise gaussian --epsilon 0 --delta 1e-3 --sensitivity 1")[1]


def test_a_large_delta_is_refused_or_warned_of():
    """One rule: from 0.1 on refused, above one over the number of records (1000 if unknown) a line."""
    for setting in (
        "noise gaussian --epsilon 1 --sensitivity 1",
        "shuffle --epsilon 1 --people 100",
    ):
        code, out, err = account(f"{setting} --delta 0.5")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "delta is 0.5: from 0.1 on it promises nothing" in err
    code, out, err = account("noise gaussian --epsilon 1 --sensitivity 1 --delta 0.002")
    assert (code, err.count("\n")) == (0, 1)
    assert "above one over 1,000 records" in err
    assert "epsilon = 1 at delta = 0.002" in out
    for records, warned in ((400, False), (600, True)):
        code, out, err = account(f"shuffle --epsilon 1 --people {records} --delta 0.002")
        assert code == 0
        assert (f"above one over the {records} records" in err) == warned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("noise laplace --sensitivity 1", "neither given; give exactly one, --epsilon"),
        ("noise laplace --sensitivity 1 --epsilon 1 --scale 1", "--scale: both given"),
        ("noise gaussian --sensitivity 1 --delta 1e-6", "--stddev: neither given"),
        ("noise randomized-response --categories 3 --epsilon 1 --keep 0.5", "--keep: both given"),
        ("noise laplace --sensitivity 1 --epsilon -1", "epsilon is -1.0: give a number"),
        ("noise laplace --sensitivity -1 --scale 1", "sensitivity is -1.0: give a number"),
        (
            "noise gaussian --sensitivity 1 --delta 0 --epsilon 1",
            "delta is 0.0: give 0 < delta < 1",
        ),
        ("noise gaussian --sensitivity 1 --delta 1e-6 --stddev 0", "stddev is 0.0: give a number"),
        ("noise randomized-response --categories 1 --epsilon 1", "categories 1 cannot be"),
        ("noise randomized-response --categories 2 --keep 1", "strictly between 0 and 1"),
        ("shuffle --epsilon 1 --people 0 --delta 1e-6", "people 0 cannot be"),
        ("shuffle --epsilon 41 --people 10 --delta 1e-6", "use epsilon0 itself"),
        ("shuffle --central-epsilon 41 --people 10 --delta 1e-6", "give every report epsilon"),
        (
            "shuffle --people 10 --delta 1e-6",
            "neither given; give exactly one, --epsilon to ask for the central epsilon or",
        ),
        (
            "shuffle --epsilon 1 --central-epsilon 1 --people 10 --delta 1e-6",
            "--central-epsilon: both given",
        ),
    ],
)
def test_refusals_are_one_line_and_exit_with_2(arguments, message):
    code, out, err = account(arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("privot: ")
    assert err.count("\n") == 1


def test_a_missing_option_exits_with_2():
    code, _, err = account("noise laplace --epsilon 1")
    assert code == 2
    assert "sensitivity" in err
