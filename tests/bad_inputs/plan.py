"""Plans for nobody, or for budgets that are none."""

from bad_inputs.cases import cases

CASES = cases(
    *(
        (f"plan schema.toml --epsilon {value} --people 1000", "epsilon")
        for value in ("0", "-1", "inf", "nan", "1e308", "x")
    ),
    *(
        (f"plan schema.toml --epsilon 1 --people {value}", "people")
        for value in ("0", "-3", "1e15", "1000000000000000000", "1.5", "many")
    ),
    *(
        (f"plan schema.toml --epsilon 1 --people 9 --target-error {value}", "target")
        for value in ("0", "1", "-1", "nan", "x")
    ),
    ("plan nowhere.toml --epsilon 1 --people 9", "nowhere.toml cannot be read"),
    ("plan home.toml --epsilon 0 --people 9", "epsilon"),
    ("plan images.toml --epsilon 0 --people 9", "epsilon"),
    ("plan schema.toml --people 9", "--epsilon"),
    ("plan schema.toml --epsilon 1", "--people"),
)
