# ruff: noqa: E501 (a case is a row)
"""Arithmetic with numbers that are none."""

from bad_inputs.cases import cases

SLICED = "account slices --delta 1e-5 --dim 8 --num-projections 4 --records 1000 --radius 1"
CASES = cases(
    *(
        (f"account noise laplace --sensitivity 1 --epsilon {value}", "epsilon")
        for value in ("0", "-1", "inf", "nan", "x")
    ),
    *(
        (f"account noise laplace --sensitivity {value} --epsilon 1", "sensitivity")
        for value in ("0", "-1", "inf", "nan", "x")
    ),
    ("account noise laplace --sensitivity 1", "--scale"),
    ("account noise laplace --sensitivity 1 --epsilon 1 --scale 1", "--scale"),
    ("account noise laplace --sensitivity 1 --scale 0", "scale"),
    ("account noise laplace --sensitivity 1 --scale -1", "scale"),
    ("account noise laplace --epsilon 1", "--sensitivity"),
    ("account noise", "kind"),
    ("account noise exponential --epsilon 1", "exponential"),
    ("account noise laplace --sensitivity 1 --epsilon 1 --delta 1e-6", "--delta"),
    ("account noise gaussian --sensitivity 1 --delta 1e-6 --scale 1", "--scale"),
    ("account noise randomized-response --epsilon 1", "--categories"),
    *(
        (f"account noise gaussian --sensitivity 1 --epsilon 1 --delta {value}", "delta")
        for value in ("0", "1", "-1", "nan", "inf", "1e-320", "x")
    ),
    *(
        (f"account noise gaussian --sensitivity 1 --delta 1e-6 --epsilon {value}", "epsilon")
        for value in ("-1", "inf", "nan", "1e308")
    ),
    *(
        (f"account noise gaussian --sensitivity 1 --delta 1e-6 --stddev {value}", "stddev")
        for value in ("0", "-1", "inf", "nan", "1e-300")
    ),
    ("account noise gaussian --sensitivity 1 --delta 1e-6", "--stddev"),
    ("account noise gaussian --sensitivity 1 --epsilon 1", "--delta"),
    *(
        (f"account noise randomized-response --epsilon 1 --categories {value}", "categories")
        for value in ("0", "1", "-5", "1.5", "1" + "0" * 40)
    ),
    *(
        (f"account noise randomized-response --categories 4 --epsilon {value}", "epsilon")
        for value in ("-1", "inf", "nan")
    ),
    *(
        (f"account noise randomized-response --categories 4 --keep {value}", "keep")
        for value in ("0", "1", "-1", "2", "nan")
    ),
    *(
        (f"account shuffle --epsilon 1 --delta 1e-6 --people {value}", "people")
        for value in ("0", "-1", "1000000000000000", "1" + "0" * 30, "1.5")
    ),
    *(
        (f"account shuffle --epsilon 1 --people 1000 --delta {value}", "delta")
        for value in ("0", "1", "-1", "nan", "1e-320")
    ),
    *(
        (f"account shuffle --people 1000 --delta 1e-6 --epsilon {value}", "epsilon")
        for value in ("-1", "inf", "nan", "41")
    ),
    ("account shuffle --people 1000 --delta 1e-6 --central-epsilon -1", "epsilon"),
    ("account shuffle --people 1000 --delta 1e-6", "--central-epsilon"),
    (f"{SLICED} --batch-size 10 --epochs 1", "--stddev"),
    (f"{SLICED} --batch-size 10 --epsilon 1", "--steps"),
    (f"{SLICED} --batch-size 10 --epsilon 1 --epochs 1 --steps 9", "--steps"),
    *(
        (f"{SLICED} --batch-size {value} --steps 9 --epsilon 1", "batch")
        for value in ("0", "-1", "1001", "1.5")
    ),
    *(
        (f"{SLICED} --batch-size 10 --steps {value} --epsilon 1", "steps")
        for value in ("0", "-1", "1" + "0" * 20)
    ),
    *(
        (f"{SLICED} --batch-size 10 --epochs {value} --epsilon 1", "epochs")
        for value in ("0", "-1", "nan", "inf")
    ),
    *(
        (f"{SLICED} --batch-size 10 --steps 9 --epsilon {value}", "epsilon")
        for value in ("0", "-1", "inf", "nan")
    ),
    (f"{SLICED} --batch-size 10 --steps 9 --stddev 0", "stddev"),
    (f"{SLICED} --batch-size 10 --steps 9 --stddev -1", "stddev"),
    (f"{SLICED} --batch-size 10 --steps 9 --epsilon 1 --sampling some", "sampling"),
    (f"{SLICED} --batch-size 10 --steps 9 --epsilon 1 --neighboring next", "neighboring"),
    (f"{SLICED} --batch-size 10 --steps 9 --epsilon 1 --accounting best", "--accounting"),
    (f"{SLICED.replace('--dim 8', '--dim 0')} --batch-size 10 --steps 9 --epsilon 1", "dim"),
    (f"{SLICED.replace('--dim 8', '--dim -2')} --batch-size 10 --steps 9 --epsilon 1", "dim"),
    (f"{SLICED.replace('1e-5', '0')} --batch-size 10 --steps 9 --epsilon 1", "delta"),
    (f"{SLICED.replace('1e-5', '1e-320')} --batch-size 10 --steps 9 --epsilon 1", "delta"),
    (f"{SLICED.replace('--radius 1', '--radius 0')} --batch-size 10 --steps 9 --epsilon 1", "radius"),
    (f"{SLICED.replace('--radius 1', '--radius nan')} --batch-size 10 --steps 9 --epsilon 1", "radius"),
    (f"{SLICED.replace('--records 1000', '--records 0')} --batch-size 10 --steps 9 --epsilon 1", "records"),
)  # fmt: skip
