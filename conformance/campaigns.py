"""The randomizers of the suite: every way to take a value, every draw, narrow and wide, at several ε."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from privot.mechanisms import Mechanism, Window
from privot.randomizer import Randomizer
from privot.randomizer.reports.joint import FormDesign, JointReport
from privot.schema import Schema

NUMBER = 'kind = "numeric"\nbounds = [0, 100]\n'
AGE = 'kind = "numeric"\nbounds = [17, 90]\ninteger = true\nspikes = [40]\n'
DATE = 'kind = "datetime"\nbounds = ["2020-02-29", "2024-12-31"]\n'
TIME = 'kind = "datetime"\nbounds = ["1969-12-31", "2024-12-31"]\nresolution = "second"\n'
CENTURIES = 'kind = "datetime"\nbounds = ["1890-01-01", "2110-12-31"]\n'
CENTS = 'kind = "numeric"\nbounds = [0.1, 6]\ndecimals = 2\nspikes = [1.01]\nbins = 9\n'
FAR_CENTS = 'kind = "numeric"\nbounds = [10000000.02, 10000000.17]\ndecimals = 2\n'
STEPS = 'kind = "numeric"\nbounds = [1, 31]\nstep = 2.5\n'
ENDS = 'kind = "numeric"\nbounds = [0, 60]\ninteger = true\nspikes = [0, 60]\n'
PET = (
    'kind = "categorical"\ncategories = ["\u00e9", "Cat", "a b"]\nother = "else"\nnullable = true\n'
)
YES = 'kind = "boolean"\n'
SEX = 'kind = "categorical"\ncategories = ["f", "m", "x"]\n'
WORK = (
    'kind = "categorical"\ncategories = ["", "clerk", "smith"]\nother = "else"\nnullable = true\n'
)
BOX = 'kind = "vector"\ncolumns = ["lon", "lat"]\nbounds = [[-8.7, 1.8], [49.8, 60.9]]\n'
DISK = 'kind = "vector"\ncolumns = ["x", "y"]\nradius = 20.0\n'
NULL = "nullable = true\n"
CLIP = 'out_of_bounds = "clip"\n'
_SPLIT: dict[str, Any] = {"report": "split"}
_LAPLACE = _SPLIT | {"mechanism": "laplace"}
_SUBSET = _SPLIT | {"mechanism": "subset_selection"}


def listed(count: int) -> str:
    """Declare a column of so many categories."""
    names = ", ".join(f'"c{i}"' for i in range(count))
    return f'kind = "categorical"\ncategories = [{names}]\n'


def vector(dimension: int, more: str) -> str:
    """Declare a column of so many coordinates."""
    names = ", ".join(f'"v{i}"' for i in range(dimension))
    return f'kind = "vector"\ncolumns = [{names}]\n{more}\n'


@dataclass(frozen=True)
class Campaign:
    """A randomizer and how many vectors to draw of it.

    Arguments:
        name: Of its file.
        columns: Declarations in TOML, by name.
        epsilon: ε.
        how: Further arguments of `Randomizer.calibrate`.
        mechanisms: Of split columns, where calibration would choose others.
        forms: Weights of the joint report's forms, where calibration would choose others.
    """

    name: str
    columns: dict[str, str]
    epsilon: float
    how: dict[str, Any]
    mechanisms: Mapping[str, Mechanism] | None = None
    forms: Mapping[tuple[int, ...], int] | None = None

    def randomizer(self) -> Randomizer:
        """The calibrated randomizer."""
        text = "\n".join(f"[columns.{name}]\n{fields}" for name, fields in self.columns.items())
        schema = Schema.from_toml(text)
        if self.mechanisms:
            return Randomizer(schema, self.mechanisms)
        made = Randomizer.calibrate(schema, self.epsilon, **self.how)
        if self.forms is None or made.joint is None:
            return made
        forms, weights = tuple(self.forms), tuple(self.forms.values())
        design = FormDesign(made.joint.design.codings, forms, weights)
        return replace(made, joint=JointReport(design, self.epsilon))


_UNEQUAL = {(0,): 1, (3,): 7, (0, 3): 1000, (1, 4): 3, (0, 2, 4): 2**30, (1, 2, 3): 250, (5,): 12}
_MIXED = {"sex": SEX, "age": AGE, "work": WORK, "seen": DATE, "yes": YES, "home": DISK}
CAMPAIGNS = [
    Campaign("response_boolean", {"yes": YES}, 1.0, _SPLIT),
    Campaign("response_nullable", {"work": WORK}, 0.5, _SPLIT | {"mechanism": "randomized_response"}),
    Campaign("response_texts", {"pet": PET}, 3.0, _SPLIT | {"mechanism": "randomized_response"}),
    Campaign("subset_list", {"c": listed(7)}, 0.25, _SUBSET),
    Campaign("subset_bits", {"c": listed(300)}, 2.0, _SUBSET),
    Campaign("subset_wide", {"c": listed(1000)}, 6.0, _SUBSET),
    Campaign("subset_256", {"c": listed(256)}, 6.0, _SUBSET),
    Campaign("bins_spikes", {"age": AGE}, 2.0, _SUBSET),
    Campaign("bins_ends", {"age": ENDS}, 5.0, _SUBSET),
    Campaign("bins_cents", {"paid": CENTS + NULL}, 2.0, _SUBSET),
    Campaign("bins_centuries", {"born": CENTURIES}, 5.0, _SUBSET),
    Campaign("bins_dates", {"seen": DATE + NULL}, 2.0, _SUBSET),
    Campaign("window_number", {"n": NUMBER}, 1.0, _SPLIT),
    Campaign("window_small_epsilon", {"n": NUMBER}, 0.0625, _SPLIT),
    Campaign("window_nullable", {"n": NUMBER + NULL}, 3.0, _SPLIT),
    Campaign("window_steps", {"n": STEPS}, 3.0, _SPLIT),
    Campaign("window_seconds", {"at": TIME}, 8.0, _SPLIT),
    Campaign("window_days", {"at": DATE + NULL}, 1.0, _SPLIT),
    Campaign("window_box", {"home": BOX}, 4.0, _SPLIT),
    Campaign("window_box_coarse", {"home": BOX}, 0.5, _SPLIT),
    Campaign("window_disk", {"home": DISK}, 2.0, _SPLIT),
    Campaign("window_disk_nullable", {"home": DISK + NULL}, 4.0, _SPLIT),
    Campaign("window_quadrant", {"home": DISK + "non_negative = true\n"}, 4.0, _SPLIT),
    Campaign("window_space", {"p": vector(3, "bounds = [[0, 1], [0, 2], [-4, 4]]")}, 5.0, _SPLIT),
    Campaign("window_ball", {"p": vector(3, "radius = 0.3")}, 3.0, _SPLIT),
    Campaign("window_product", {"home": BOX}, 3.0, {}, {"home": Window(3.0, 2, 64, 9, "product")}),
    Campaign("laplace_number", {"n": NUMBER}, 4.0, _LAPLACE),
    Campaign("laplace_date", {"at": DATE}, 0.5, _LAPLACE),
    Campaign("laplace_ball", {"p": vector(5, "radius = 7.0")}, 10.0, _LAPLACE),
    Campaign("joint_pairs", _MIXED, 4.0, {"report_columns": 2}),
    Campaign("joint_triples", _MIXED | {"n": NUMBER + NULL}, 8.0, {"report_columns": 3}),
    Campaign("joint_unequal", _MIXED, 3.0, {}, forms=_UNEQUAL),
    Campaign("joint_all", {"sex": SEX, "yes": YES, "at": TIME}, 2.0, {"report_columns": 3}),
    Campaign("joint_corners", {"home": DISK + "bins = 10\n", "sex": SEX}, 6.0, {"report_columns": 2}),
    Campaign("joint_and_split", {"p": vector(5, "radius = 7.0"), "sex": SEX, "yes": YES}, 6.0, {}),
    Campaign("split_some", _MIXED | {"home2": BOX}, 6.0, _SPLIT | {"report_columns": 2}),
    Campaign("bins_far_cents", {"paid": FAR_CENTS}, 2.0, _SUBSET),
    Campaign("clip_number", {"n": NUMBER + CLIP}, 1.0, _SPLIT),
    Campaign("clip_cents", {"paid": CENTS + NULL + CLIP}, 2.0, _SUBSET),
    Campaign("clip_days", {"at": DATE + CLIP}, 1.0, _SPLIT),
    Campaign("clip_box", {"home": BOX + CLIP}, 4.0, _SPLIT),
    Campaign("clip_quadrant", {"home": DISK + "non_negative = true\n" + CLIP}, 4.0, _SPLIT),
    Campaign("clip_ball", {"p": vector(5, "radius = 7.0\n" + CLIP)}, 10.0, _LAPLACE),
    Campaign("clip_cells", {"home": DISK + CLIP, "age": AGE + CLIP}, 6.0, {"report_columns": 2}),
    Campaign("format_days", {"at": DATE + NULL + 'format = "%d/%m/%Y"\n'}, 1.0, _SPLIT),
    Campaign("format_joint", {"at": DATE + 'format = "on %m.%d.%Y"\n', "sex": SEX}, 2.0, {}),
    Campaign("refuse_days", {"at": DATE + 'out_of_bounds = "refuse"\n'}, 1.0, _SPLIT),
    Campaign("split_nine", {f"yes{i}": YES for i in range(9)}, 3.0, _SPLIT | {"report_columns": 3}),
]  # fmt: skip
