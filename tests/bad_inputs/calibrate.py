"""Budgets, mechanisms and columns that do not fit each other."""

from bad_inputs.cases import Case, cases

BIG = "".join(f"[columns.c{i}]\nkind='numeric'\nbounds=[0,1]\nbins=65536\n" for i in range(3))


def budget(options, says, schema="schema"):
    """Options of a calibration."""
    return Case(f"calibrate {schema}.toml -o out.json {options}", says)


CASES = [
    *(
        budget(f"--epsilon {value}", "epsilon")
        for value in ("0", "-1", "inf", "-inf", "nan", "1e308", "1e-320", "1001", "x", "''")
    ),
    *(
        budget(f"--epsilon 1 --mechanism gaussian --delta {value}", "delta", "home")
        for value in ("0", "-1e-6", "1", "2", "nan", "inf", "1e-320", "x")
    ),
    budget("", "--epsilon"),
    budget("--epsilon 1 --noise 1", "--noise"),
    budget("--epsilon 1 --delta 1e-6", "delta"),
    budget("--epsilon 1 --delta 1e-6 --mechanism laplace", "delta"),
    budget("--epsilon 1 --mechanism cauchy", "mechanism 'cauchy'"),
    budget("--epsilon 1 --mechanism ''", "mechanism ''"),
    budget("--epsilon 1 --mechanism Laplace", "mechanism 'Laplace'"),
    budget("--epsilon 1 --report both", "report 'both'"),
    budget("--epsilon 1 --report-columns 0", "report_columns 0"),
    budget("--epsilon 1 --report-columns -1", "report_columns -1"),
    budget("--epsilon 1 --report-columns 99", "report_columns 99"),
    budget("--epsilon 1 --report-columns 1.5", "--report-columns"),
    budget("--epsilon 1 --report split --report-columns 9", "report_columns 9"),
    budget("--epsilon 1 --mechanism window", "'image'", "images"),
    budget("--epsilon 1 --report joint", "vectors only", "home"),
    budget("--epsilon 1 --report joint --mechanism laplace", "laplace"),
    budget("--epsilon 1 --share size=0.5", "'size'"),
    budget("--epsilon 1 --share height", "--share 'height'"),
    budget("--epsilon 1 --share height=", "--share 'height='"),
    budget("--epsilon 1 --share =1", "--share '=1'"),
    budget("--epsilon 1 --share height=much", "--share"),
    budget("--epsilon 1 --share height=0", "share 0.0"),
    budget("--epsilon 1 --share height=-1", "share -1.0"),
    budget("--epsilon 1 --share height=nan", "share nan"),
    budget("--epsilon 1 --share height=inf", "share inf"),
    budget("--epsilon 1 --share height=1", "'height'"),
    budget("--epsilon 1 --share height=0.9 --share color=0.9", "leave nothing"),
    budget("--epsilon 1 --share height=0.5 --share height=0.2", "height"),
    budget("--epsilon 1 --share height=0.5 --report joint", "split"),
    budget("--epsilon 1 --share height=0.5 --report-columns 2", "leave out one of the two"),
    budget("--noise 0", "noise"),
    budget("--noise -1", "noise"),
    budget("--noise nan", "noise"),
    budget("--noise inf", "noise"),
    budget("--noise 1", "delta", "home"),
    budget("--noise 1 --delta 1e-6 --report joint", "--noise", "home"),
    budget("--noise 1 --delta 1e-6 --mechanism window", "window", "home"),
    *cases(
        ("calibrate nowhere.toml --epsilon 1 -o out.json", "nowhere.toml cannot be read"),
        ("calibrate people.csv --epsilon 1 -o out.json", "not TOML"),
        ("calibrate randomizer.json --epsilon 1 -o out.json", "format"),
        ("calibrate schema.toml --epsilon 1 -o nowhere/out.json", "nowhere/out.json"),
        ("calibrate schema.toml --epsilon 1 -o model", "model"),
        ("calibrate schema.toml --epsilon 1 -o randomizer.json/x", "randomizer.json"),
        ("calibrate big.toml --epsilon 1 --report-columns 2 -o out.json", "cells", {"big.toml": BIG}),
        ("calibrate big.toml --epsilon 1 --report-columns 3 -o out.json", "cells", {"big.toml": BIG}),
    ),
]  # fmt: skip
