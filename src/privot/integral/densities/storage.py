"""Tilts on disk: plain values, and arrays in a NumPy archive. Nothing is pickled, no code is run.

A tilt is secret, and so is the folder it lies in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from privot.errors import PrivotError
from privot.integral.densities.density import Normalizer, Tilt, TiltedDensity
from privot.integral.densities.grid import TabulatedTilt, make_grid
from privot.integral.densities.marginals import marginal_from_dict
from privot.integral.densities.references import Reference, reference_from_dict
from privot.integral.densities.secure import Array
from privot.integral.densities.tilts import ConstantTilt, FeatureTilt, ShiftedTilt
from privot.integral.learners.networks import Network
from privot.integral.learners.spline import SplineRatio
from privot.integral.learners.trees import Trees
from privot.integral.records import RecordSpace
from privot.schema import Schema

Arrays = Mapping[str, Array]


def build_density(
    fields: dict[str, Any], arrays: dict[str, Array], reference: Reference | None
) -> tuple[TiltedDensity, RecordSpace | None]:
    """The density of a `model.json` and its arrays, and the table's columns if it has any."""
    space = None
    if fields["schema"] is not None:
        declared = {name: marginal_from_dict(plain) for name, plain in fields["marginals"].items()}
        space = RecordSpace(Schema.from_dict(fields["schema"]), declared, fields["missing"])
    base = reference if fields["reference"] is None else reference_from_dict(fields["reference"])
    assert base is not None
    tilt = unpack(fields["tilt"], arrays, base)
    drawn_from = getattr(tilt, "grid", base)
    given = fields["normalizer"]
    normalizer = None if given is None else Normalizer(**given)
    low, high = fields["limits"]
    return TiltedDensity(drawn_from, tilt, low, high, normalizer), space


def plain_marginal(marginal: Any) -> dict[str, Any]:
    """Plain values of a marginal."""
    return {"kind": marginal.kind, **asdict(marginal)}


def unpack(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    """The tilt that its `pack` took apart; arrays and reference are those it was learned with.

    Raises:
        PrivotError: if its kind is unknown, or the arrays do not fit the reference.
    """
    kind = fields.get("kind")
    if kind not in _READERS:
        raise PrivotError(f"kind of tilt is {kind!r}: one of {', '.join(_READERS)}; upgrade privot")
    return _READERS[kind](fields, arrays, reference)


def _table(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    grid, values = make_grid(reference), arrays["values"]
    if grid is None or values.shape != (math.prod(grid.shape),):
        raise PrivotError("the table does not fit the reference's grid: the model is damaged")
    return TabulatedTilt(grid, values)


def _classifiers(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    members = tuple(_member(spec, arrays, f"{i}.") for i, spec in enumerate(fields["members"]))
    return FeatureTilt(reference, members, tuple(fields["coefficients"]))


def _member(spec: dict[str, Any], arrays: Arrays, prefix: str) -> Network | Trees:
    if spec["kind"] == "trees":
        return Trees.from_arrays(arrays, prefix, spec["bound"])
    return Network.from_arrays(arrays, prefix, spec["activation"], spec["bound"])


def _spline(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    if reference.marginals is None:
        raise PrivotError("a spline needs a reference with a marginal: the model is damaged")
    return SplineRatio(reference.marginals[0], arrays["values"])


def _shifted(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    return ShiftedTilt(unpack(fields["inner"], arrays, reference), fields["shift"])


_READERS: dict[str, Callable[[dict[str, Any], Arrays, Reference], Tilt]] = {
    "constant": lambda fields, arrays, reference: ConstantTilt(),
    "table": _table,
    "classifiers": _classifiers,
    "spline": _spline,
    "shifted": _shifted,
}
