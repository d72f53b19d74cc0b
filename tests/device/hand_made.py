"""Programs that somebody wrote by hand, behind a fingerprint that fits them: none may draw."""

import hashlib
import json
from copy import deepcopy

from conformance.vectors import FOLDER


def sealed(fields):
    """The text of a randomizer of these fields, with its fingerprint."""
    body = json.dumps(fields, separators=(",", ":"))
    return f'{body[:-1]},"fingerprint":"{hashlib.sha256(body.encode()).hexdigest()}"}}'


def fields_of(name):
    """The fields of a randomizer of the conformance suite."""
    text = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["randomizer"]
    fields = json.loads(text)
    del fields["fingerprint"]
    return fields


# Suite, path below `device`, value.
DRAW = ("split", "reports", 0, "draw")
CHANGES = [
    *(("window_days", ("columns", "at", "format"), value)
      for value in ("%d/%m", "%d %d %m %Y", "%b %d %m %Y", "%Y%m%d%", "%(x)%Y%m%d", "", 5, None)),
    *(("window_number", ("columns", "n", "out_of_bounds"), value) for value in ("refuse", True, 1)),
    *(("window_number", (*DRAW, "radius"), value) for value in (-1, 0.5, "9", None, True, 2**40)),
    *(("window_number", (*DRAW, "anywhere"), value)
      for value in ("0", "10000000000000001", "-1", "", "0x10", " 1", "1_0", "A0", 5, None)),
    ("window_number", (*DRAW, "anywhere"), "1"),
    *(("window_number", (*DRAW, "steps"), value) for value in (0, 1, 3, 1023, 2**17, None)),
    *(("window_number", (*DRAW, "dimension"), value) for value in (0, 2, 4)),
    *(("window_number", (*DRAW, "blocks"), value) for value in (0, 2)),
    ("window_number", (*DRAW, "nullable"), True),
    ("window_number", (*DRAW, "area"), "l2_ball"),
    ("window_number", (*DRAW, "non_negative"), True),
    ("window_number", (*DRAW, "draw"), "anything"),
    ("window_number", (*DRAW, "draw"), "response"),
    ("window_nullable", (*DRAW, "nullable"), False),
    ("window_disk", (*DRAW, "radius"), 2**18),
    ("window_disk", (*DRAW, "area"), "box"),
    ("window_disk", ("columns", "home", "domain", "area"), "box"),
    ("window_disk", ("columns", "home", "domain", "radius"), 0),
    ("window_quadrant", (*DRAW, "steps"), 255),
    ("window_quadrant", ("columns", "home", "domain", "non_negative"), False),
    ("window_box", ("columns", "home", "domain", "lower"), [-8.7]),
    ("window_box", ("columns", "home", "domain", "lower", 0), 1.8),
    ("window_steps", ("columns", "n", "step"), 0),
    *(("response_texts", (*DRAW, "slot"), value) for value in ("0", "1", "ffffffffffffffff", None)),
    *(("response_texts", (*DRAW, "values"), value) for value in (0, 1, 2, 4, 2**40)),
    ("response_texts", ("columns", "pet", "missing"), 5),
    ("response_texts", ("columns", "pet", "other"), -1),
    *(("subset_list", (*DRAW, "size"), value) for value in (0, 7, -1)),
    *(("subset_list", (*DRAW, "out"), value) for value in ("0", "1", "10000000000000000")),
    *(("subset_list", (*DRAW, "cells"), value) for value in (1, 6, 8, 2**30)),
    ("bins_ends", ("columns", "age", "edges", 0, 0), 0.5),
    ("bins_ends", ("columns", "age", "edges", 0, 1), 0.0),
    ("bins_ends", ("columns", "age", "nullable"), True),
    ("bins_ends", ("columns", "age", "spikes"), [1, 2, 3]),
    ("bins_ends", ("columns", "age", "seconds"), 0),
    *(("laplace_number", (*DRAW, "ratio", 0), value) for value in ("0", "1", "1" + 16 * "0", "")),
    ("laplace_number", (*DRAW, "ratio", 1), "0"),
    ("laplace_number", (*DRAW, "grid_bits"), 60),
    ("laplace_number", (*DRAW, "grid_bits"), -1),
    ("laplace_number", ("columns", "n", "nullable"), True),
    ("laplace_ball", (*DRAW, "dimension"), 4),
    *(("joint_pairs", ("joint", "weights", 0), value) for value in (0, -1, 2**31, 0.5)),
    ("joint_pairs", ("joint", "weights"), []),
    ("joint_pairs", ("joint", "views"), 0),
    ("joint_pairs", ("joint", "sets"), {}),
    ("joint_pairs", ("joint", "sizes", 0, 0), 2),
    ("joint_pairs", ("joint", "forms", 0), [0, 0]),
    ("joint_pairs", ("joint", "forms", 0), [0, 99]),
    ("joint_pairs", ("joint", "columns", 0), "nobody"),
    ("joint_corners", ("joint", "sets", "264", "out"), "1"),
    ("joint_corners", ("columns", "home", "codes", 4), 88),
    ("joint_corners", ("columns", "home", "codes"), [0]),
    *(("split_some", ("split", "choose"), value) for value in (0, 3, 8, None)),
    ("split_some", ("split", "reports"), []),
    ("split_some", ("split", "reports", 0, "column"), "nobody"),
    ("split_some", ("columns",), []),
    ("split_some", ("split",), None),
    ("split_some", ("time_step",), 3599),  # a report would say more than its hour
    ("split_some", ("version",), 3),
]  # fmt: skip


def hand_made(change):
    """The text of a randomizer with one field of its program changed."""
    name, path, value = change
    fields = deepcopy(fields_of(name))
    *before, last = path
    place = fields["device"]
    for step in before:
        place = place[step]
    place[last] = value
    return sealed(fields)
