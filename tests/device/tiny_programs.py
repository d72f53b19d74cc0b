"""Programs small enough that every report of every record can be enumerated."""

from copy import deepcopy
from functools import partial
from itertools import product

from every_word import law_of
from privot.device import Device

BOOLEAN = {"take": "boolean", "columns": ["yes"], "missing": 2}
LETTER = {
    "take": "category", "columns": ["letter"], "values": ["a", "b", "c"], "other": 3, "missing": None,
}  # fmt: skip
AGES = {
    "take": "bin", "columns": ["age"], "edges": [[0, 2, 4], [0, 1, 3, 4]], "spikes": [],
    "integer": False, "nullable": False, "seconds": None,
}  # fmt: skip

CLIPPED = {"take": "point", "out_of_bounds": "clip"}  # records may lie anywhere


def box(*names, nullable=False, top=4):
    domain = {"area": "box", "lower": [0] * len(names), "upper": [top] * len(names)}
    return CLIPPED | {"columns": [*names], "domain": domain, "nullable": nullable}


def ball(*names, nullable=False, non_negative=False):
    domain = {"area": "l2_ball", "radius": 1.0, "non_negative": non_negative}
    return CLIPPED | {"columns": [*names], "domain": domain, "nullable": nullable}


def window(take, dimension=1, steps=4, radius=1, anywhere=2**61, blocks=1):
    domain = take["domain"]
    return {
        "draw": "window", "dimension": dimension, "steps": steps, "radius": radius,
        "area": domain["area"], "non_negative": domain.get("non_negative", False),
        "nullable": take["nullable"], "anywhere": f"{anywhere:x}", "blocks": blocks,
    }  # fmt: skip


def response(values, slot):
    return {"draw": "response", "values": values, "slot": f"{slot:x}"}


def subset(cells, size, out):
    return {"draw": "subset", "cells": cells, "size": size, "out": f"{out:x}"}


def split(*reports, choose=None):
    """A program of split reports of these (take, draw)."""
    columns = {f"column {i}": take for i, (take, _) in enumerate(reports)}
    made = [{"column": f"column {i}", "draw": draw} for i, (_, draw) in enumerate(reports)]
    several = {"choose": choose or len(made), "reports": made}
    held = {"version": 2, "time_step": 3600, "columns": columns, "joint": None, "split": several}
    return deepcopy(held)


def joint():
    """A program of two columns, one of which has two codings, in forms of one and of two."""
    sets = {"3": (1, 2**62), "2": (1, 2**63), "6": (2, 2**62), "9": (1, 3 * 2**61)}
    laws = {cells: {"size": size, "out": f"{out:x}"} for cells, (size, out) in sets.items()}
    asked = {
        "columns": ["yes", "age"], "sizes": [[3], [2, 3]], "views": 2, "forms": [[0], [1], [0, 1]],
        "weights": [1, 1, 2], "sets": laws,
    }  # fmt: skip
    columns = {"yes": BOOLEAN, "age": AGES}
    held = {"version": 2, "time_step": 3600, "columns": columns, "joint": asked, "split": None}
    return deepcopy(held)


def records(take):
    """Records of a column, of every code or cell."""
    names, nullable = take["columns"], take.get("nullable", take.get("missing") is not None)
    if take["take"] == "boolean":
        values = [(False,), (True,)]
    elif take["take"] == "category":
        values = [("a",), ("b",), ("c",), ("z",)]
    elif take.get("domain", {}).get("area") == "l2_ball":
        values = product([-1.0, -0.5, 0.0, 0.5, 1.0], repeat=len(names))
    else:
        values = product([0, 1, 2, 3, 4], repeat=len(names))
    made = [dict(zip(names, value, strict=True)) for value in values]
    return [*made, dict.fromkeys(names)] if nullable else made


def enumerated_ratio(program):
    """The largest likelihood ratio of any two records at any report, all of which are enumerated."""
    device = Device(bytes(32), program, {})
    each = [records(take) for take in program["columns"].values()]
    laws = {
        tuple(sorted(law.items()))
        for law in (
            law_of(partial(_payload, device, {k: v for part in parts for k, v in part.items()}))
            for parts in product(*each)
        )
    }
    found = [dict(law) for law in laws]
    reports = set().union(*found)
    assert all(law.keys() == reports for law in found), "a report that only some records make"
    assert len({len(report) for report in reports}) == 1
    return max(max(law[y] for law in found) / min(law[y] for law in found) for y in reports)


def _payload(device, record, word):
    return device.report(record, word=word, now=0).payload
