"""`privot account slices`: both directions, both accountants, one-line refusals."""

import json

import pytest

from cli.conftest import account

MNIST = (
    "--delta 1e-5 --dim 784 --num-projections 1000 --records 60000 --batch-size 100 --epochs 100"
)


ONCE = "--delta 1e-6 --dim 50 --num-projections 20 --records 1000 --radius 1"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # The sliced paper's generator: it asks for 2.94.
        (
            f"slices --epsilon 10 {MNIST} --radius 0.5 --neighboring replace_one",
            {"stddev": 0.7475877, "stddev_rdp": 0.7475877, "steps": 60000, "sensitivity": 1},
        ),
        pytest.param(
            f"slices --epsilon 10 {MNIST} --radius 1 --sampling padded_poisson "
            "--neighboring zero_out",
            {"stddev": 0.6637927, "batch_capacity": 175, "delta_overflow": 2.447947e-7},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            f"slices --epsilon 10 {MNIST} --radius 0.5 --non-negative",
            {"stddev": 0.5286243, "sensitivity": 0.7071068},
            marks=pytest.mark.slow,
        ),
        (f"slices --stddev 2.94 {MNIST} --radius 0.5", {"epsilon": 1.374999, "stddev": 2.94}),
    ],
)
def test_json(arguments, expected):
    code, out, err = account(arguments + " --json")
    assert (code, err) == (0, "")
    fields = json.loads(out)
    assert next(iter(fields)) == next(iter(expected))
    for name, value in expected.items():
        assert fields[name] == pytest.approx(value, rel=1e-5), name


def test_noise_and_epsilon_are_inverse_and_err_on_the_safe_side():
    forward, noise, epsilon = f"slices --sampling none --steps 1 {ONCE}", "stddev", 0.7
    _, out, _ = account(f"{forward} --epsilon {epsilon} --json")
    value = json.loads(out)[noise]
    _, out, _ = account(f"{forward} --{noise} {value!r} --json")
    assert epsilon * (1 - 1e-8) <= json.loads(out)["epsilon"] <= epsilon


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (
            f"slices --stddev 2 --steps 4 --batch-size 20 {ONCE}",
            ["4 times, gives epsilon = ", "replace_one", "differ by at most 2.", "secret coins"],
        ),
        (
            f"slices --epsilon 2 --steps 4 --batch-size 20 {ONCE} --sampling padded_poisson "
            "--neighboring zero_out --accounting pld",
            ["is needed for epsilon = 2 at", "padded to ", "overflows cost"],
        ),
    ],
)
def test_sentences_round_to_the_safe_side(arguments, phrases):
    code, out, err = account(arguments)
    assert (code, err) == (0, "")
    for phrase in phrases:
        assert phrase in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"slices --epsilon 1 --batch-size 9 {ONCE}", "--epochs and --steps: neither given"),
        (f"slices --epsilon 1 --batch-size 9 {ONCE} --steps 1 --epochs 1", "--steps: both given"),
        (f"slices --batch-size 9 {ONCE} --steps 1", "--stddev: neither given"),
        (f"slices --epsilon 1 --steps 1 {ONCE}", "--batch-size is missing"),
        (f"slices --epsilon 1 --steps 1 --batch-size 1001 {ONCE}", "only 1000 records"),
        (f"slices --epsilon 1e-4 --steps 1 --batch-size 9 {ONCE}", "use method 'pld'"),
        (
            f"slices --epsilon 1 --steps 1 --batch-size 9 {ONCE} --sampling padded_poisson",
            "use neighboring 'zero_out'",
        ),
    ],
)
def test_refusals_are_one_line_and_exit_with_2(arguments, message):
    code, out, err = account(arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("privot: ")
    assert err.count("\n") == 1
