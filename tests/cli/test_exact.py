"""`privot audit --exact`: exit codes, figures on the safe side, refusals."""

import json
import sys
from decimal import Decimal
from fractions import Fraction

import pytest

from device.hand_made import CHANGES, fields_of, hand_made, sealed
from privot.cli import main
from privot.device.exact import exp_above, exp_below
from privot.randomizer import Randomizer
from privot.schema import Schema


@pytest.fixture
def audit(monkeypatch, capsys, tmp_path):
    """Run `privot audit --exact` on a text; return (exit code, standard output, standard error)."""

    def run(text, *more):
        path = tmp_path / "randomizer.json"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["privot", "audit", "--exact", str(path), *more])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("name", ["joint_and_split", "window_product", "split_some"])
def test_an_honest_randomizer_is_proved(audit, name):
    code, out, err = audit(sealed(fields_of(name)))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].endswith("as promised, PROVED")
    code, out, _ = audit(sealed(fields_of(name)), "--json")
    found, total = json.loads(out), json.loads(out)["total"]
    assert (code, found["refuted"]) == (0, False)
    factor, exponent = Fraction(total["factor"]), Fraction(total["exponent"])
    assert factor <= exp_below(Fraction(found["epsilon"]) - exponent)
    assert Fraction(Decimal(total["at_most"])) >= factor * exp_above(exponent)
    assert Fraction(Decimal(found["promised_at_least"])) <= exp_below(Fraction(found["epsilon"]))


def test_a_promise_that_is_exceeded_is_refuted(audit):
    fields = fields_of("window_number")
    fields["guarantee"]["epsilon"] *= 1 - 2**-50
    code, out, err = audit(sealed(fields))
    assert (code, err) == (1, "")
    assert out.splitlines()[-1].endswith("more than promised: REFUTED")
    assert json.loads(audit(sealed(fields), "--json")[1])["refuted"] is True


def test_what_no_proof_is_for_is_refused_in_one_line(audit):
    schema = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
    gaussian = Randomizer.calibrate(schema, 1.0, 1e-6, mechanism="gaussian").to_json()
    altered = sealed(fields_of("window_number")).replace("3600", "3601")
    for text in (gaussian, altered, "", hand_made(CHANGES[0])):
        code, out, err = audit(text)
        assert (code, out, err.count("\n")) == (2, "", 1)
    code, _, err = audit(gaussian, "--draws", "5")
    assert code == 2
    assert "leave out --draws" in err
