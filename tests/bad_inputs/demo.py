"""Demos of nobody, into what is no folder."""

from bad_inputs.cases import cases

CASES = cases(
    *((f"demo -o out --people {n}", "people") for n in ("-3", "0", "1" + "0" * 20, "x")),
    *((f"demo -o out --epsilon {e}", "epsilon") for e in ("0", "-1", "inf", "nan", "1e308", "x")),
    *((f"demo -o out --steps {n}", "steps") for n in ("0", "-1", "1" + "0" * 20)),
    *((f"demo -o out --seed {n}", "seed") for n in ("-1", "1" + "0" * 30)),
    ("demo -o people.csv", "people.csv"),
    ("demo --images -o people.csv", "people.csv"),
    ("demo --images -o out --steps 0", "steps"),
    ("demo --images -o out --seed -1", "seed"),
    *((f"demo --images -o out --people {n}", "people") for n in ("-3", "0", "x")),
    ("demo --images -o out --epsilon 0", "epsilon"),
    ("demo --images -o out --mechanism laplace", "laplace"),
    ("demo --images -o out --data nowhere", "nowhere"),
    ("demo -o out --data nowhere", "--images"),
)
