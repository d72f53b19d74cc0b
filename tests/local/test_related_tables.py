"""People and their rows: one record each, and two tables back."""

import numpy as np
import pyarrow as pa
import pytest

from given_classes import fit_four
from privot import PrivotError, Randomizer, Schema
from privot.local import RelatedTable
from privot.local.classes.mixture import LatentClasses

STAYS = RelatedTable(key="guest", count="stays", columns=("room",))
SCHEMA_TEXT = r"""
[columns.guest]
kind = "identifier"
pattern = 'G-\d{5}'
[columns.member]
kind = "boolean"
[columns.stays]
kind = "numeric"
bounds = [0, 2]
integer = true
bins = 3
[columns.room]
kind = "categorical"
categories = ["basic", "suite"]
nullable = true
"""
SCHEMA = Schema.from_toml(SCHEMA_TEXT)


def reported(schema=SCHEMA, num_guests=300):
    guests = {"guest": [f"G-{i:05d}" for i in range(num_guests)], "member": [True, False] * 150}
    stays = {"guest": ["G-00000"] * 3 + ["G-00004"], "room": ["suite", "basic", "suite", "basic"]}
    return Randomizer.calibrate(schema, epsilon=4.0).privatize(STAYS.join(guests, stays, most=2))


@pytest.fixture(scope="module")
def model():
    """Members have two stays in suites, and others none or one, all in basic rooms."""
    fitted = fit_four(reported())
    classes = LatentClasses(
        np.array([0.25, 0.5, 0.25]),
        (
            np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
            np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
            np.array([[0.0, 0.0, 0.8], [1.0, 0.0, 0.2], [0.0, 1.0, 0.0]]),
        ),
    )
    codes = [places.codes.tolist() for places in fitted.sampler.places]
    assert codes == [[0, 1], [0, 1, 2], [0, 1, 2]]
    object.__setattr__(fitted.sampler, "atoms", classes)
    return fitted


def test_the_drawn_row_is_each_of_the_persons_equally_often():
    people = {"guest": np.arange(30_000)}
    rows = {"guest": np.tile(np.arange(30_000), 3), "room": np.repeat(["a", "b", "c"], 30_000)}
    drawn = STAYS.join(people, rows, most=9, seed=3)["room"].to_pylist()
    # Each is drawn 10 000 times, with a standard deviation of 82: 5.5 of them.
    assert all(abs(drawn.count(room) - 10_000) < 450 for room in "abc")


def test_a_seeded_draw_depends_on_no_other_persons_rows():
    """Otherwise somebody's visits would change the reports of all others, who compose."""
    people = {"guest": np.arange(200)}
    owners, rooms = np.repeat(np.arange(200), 3), np.tile(["a", "b", "c"], 200)
    fewer = {"guest": owners[2:], "room": rooms[2:]}  # guest 0 has one row of three
    first = STAYS.join(people, {"guest": owners, "room": rooms}, most=9, seed=3)
    second = STAYS.join(people, fewer, most=9, seed=3)
    assert first.slice(1).equals(second.slice(1))
    assert second["room"][0].as_py() == "c"
    assert len(set(first["room"].to_pylist())) == 3


@pytest.mark.parametrize("column", ["guest", "room"])
def test_a_value_that_makes_numbers_texts_changes_no_other_persons_row(column):
    """As a reader of files does, which takes a column for numbers if all of its values are."""
    rng = np.random.default_rng(1)
    owners, rooms = np.repeat(np.arange(300), 3), rng.choice([9, 10], 900)

    def joined(texts):
        guests, of_rows, of_rooms = (
            [str(v) for v in values] if texts else values for values in (range(300), owners, rooms)
        )
        if texts:
            changed = {"guest": (guests, of_rows), "room": (of_rooms,)}[column]
            for values in changed:
                values[7] = {"guest": values[7], "room": "other"}[column]
        if column == "room":
            guests, of_rows = range(300), owners
        else:
            of_rooms = rooms
        people, rows = {"guest": guests}, {"guest": of_rows, "room": of_rooms}
        return [str(v) for v in STAYS.join(people, rows, most=9, seed=3)["room"].to_pylist()]

    first, second = joined(False), joined(True)
    assert first[:2] + first[3:] == second[:2] + second[3:]  # row 7 is of person 2


def test_another_order_or_seed_draws_other_rows():
    """An account does not know these records again: who joins twice spends twice."""
    people, owners, rooms = {"guest": range(50)}, np.repeat(np.arange(50), 4), list("abcd") * 50
    backwards = {"guest": owners[::-1], "room": rooms[::-1]}
    joined = [
        STAYS.join(people, rows, most=9, seed=seed)
        for rows, seed in (({"guest": owners, "room": rooms}, 3), (backwards, 3), (backwards, 4))
    ]
    # Two draws of 50 people are equal with probability 4^−50.
    assert not joined[0].equals(joined[1])
    assert not joined[1].equals(joined[2])


def test_counts_are_limited_and_nobody_gets_another_persons_row():
    people = {"guest": ["x", "y", "z"], "age": [1, 2, 3]}
    rows = {"guest": ["z", "x", "z", "z"], "room": ["zz", "xx", "zz", "zz"]}
    joined = STAYS.join(people, rows, most=2)
    assert joined["stays"].to_pylist() == [1, 0, 2]
    assert joined["room"].to_pylist() == ["xx", None, "zz"]
    assert joined["age"].to_pylist() == [1, 2, 3]


def test_samples_are_two_tables_of_the_mixture(model):
    guests, stays = STAYS.sample(model, 20_000, seed=5)
    assert guests.column_names == ["guest", "member"]
    assert guests["guest"].to_pylist()[0].startswith("G-")
    member = dict(zip(guests["guest"].to_pylist(), guests["member"].to_pylist()))
    by_guest: dict[str, list[str]] = {}
    for guest, room in zip(stays["guest"].to_pylist(), stays["room"].to_pylist()):
        by_guest.setdefault(guest, []).append(room)
    assert all(rooms == ["suite", "suite"] for g, rooms in by_guest.items() if member[g])
    of_others = [rooms for guest, rooms in by_guest.items() if not member[guest]]
    assert {len(rooms) for rooms in of_others} == {1}
    # A quarter of all have one stay, .8 of which are in basic rooms: no row lacks its room.
    basic = sum(rooms == ["basic"] for rooms in of_others) / len(of_others)
    assert len(of_others) / 20_000 == pytest.approx(0.25, abs=0.02)  # 6.5 deviations
    assert basic == pytest.approx(0.8, abs=0.035)  # 6 deviations


def test_a_seed_repeats_both_tables(model):
    first, again = STAYS.sample(model, 50, seed=1), STAYS.sample(model, 50, seed=1)
    assert all(a.equals(b) for a, b in zip(first, again))
    assert not first[0].equals(STAYS.sample(model, 50, seed=2)[0])


@pytest.mark.parametrize(
    ("people", "rows", "message"),
    [
        ({"age": [1]}, {"guest": [1], "room": ["a"]}, "people lack column 'guest'"),
        ({"guest": [1]}, {"guest": [1]}, "rows lack column 'room'"),
        ({"guest": [1], "room": [2]}, {"guest": [1], "room": ["a"]}, "people have a column 'room'"),
        ({"guest": [1, 1]}, {"guest": [1], "room": ["a"]}, "equal values of 'guest'"),
        (
            {"guest": [1, 2]},
            {"guest": [1, 3, 3], "room": [*"abc"]},
            "2 rows have a 'guest' of nobody",
        ),
    ],
)
def test_tables_that_do_not_match_are_refused(people, rows, message):
    with pytest.raises(PrivotError, match=message):
        STAYS.join(people, rows, most=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("bounds = [0, 2]\n", "bounds = [1, 3]\n"), "'stays'.*from 0"),
        (("bins = 3", "bins = 3\nnullable = true"), "'stays'.*from 0"),
        (('suite"]\nnullable = true', 'suite", "none"]'), "'room'.*nullable"),
        (("[columns.guest]", 'rules = ["stays <= 1"]\n[columns.guest]'), "without rules"),
    ],
)
def test_models_of_other_records_are_refused(change, message):
    text = SCHEMA_TEXT.replace(*change)
    schema = Schema.from_toml(text)
    people = pa.table(
        {"member": [True, False] * 150, "stays": [1, 2] * 150, "room": ["suite"] * 300}
    )
    model = fit_four(Randomizer.calibrate(schema, epsilon=4.0).privatize(people))
    with pytest.raises(PrivotError, match=message):
        STAYS.sample(model, 3)
