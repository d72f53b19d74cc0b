"""The client for browsers and Node: how small, how fast, which vectors it meets, its draws' law.

    python privot_benchmarks/browser.py size   # bytes of the module, and gzipped
    python privot_benchmarks/browser.py speed   # microseconds of one report of ten columns, in Chromium
    python privot_benchmarks/browser.py shares   # milliseconds and bytes of two servers' shares, in both
    python privot_benchmarks/browser.py vectors   # conformance, met in Python, Node, Chromium
    python privot_benchmarks/browser.py mutants   # clients wrong in one place, caught by the suite
    python privot_benchmarks/browser.py law   # 10^6 reports of each draw from WebCrypto, chi-square

Each prints JSON. All need `make client`; Chromium is found by its name, or by the variable CHROMIUM.
"""

import argparse
import gzip
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "clients" / "javascript"
DRAWS, WORDS = 10**6, 2**64
# Groups of outcomes that a test compares: few enough to see 1 %.
GROUPS = 24
_CODE = 1  # of the record that is drawn of
_BIN = 2**14  # of noise, in steps of its grid


def node(*command):
    """The last line that a script of the client prints, whether it succeeds or not."""
    done = subprocess.run(["node", *map(str, command)], cwd=CLIENT, capture_output=True, text=True)
    if not done.stdout.strip():
        raise SystemExit(done.stderr)
    return done.stdout


def in_chromium(run, *files):
    """What a page of the client's tests finds."""
    return json.loads(node("test/browser.mjs", run, "dist", *files))


def size():
    """Bytes."""
    module = (CLIENT / "dist" / "privot.js").read_bytes()
    return {"bytes": len(module), "gzipped": len(gzip.compress(module, 9, mtime=0))}


def speed():
    """Microseconds of one report, the least and the first of batches of 200."""
    from privot import Randomizer, Schema

    number, place = {"kind": "numeric", "bounds": [0, 100]}, {"kind": "vector"}
    columns = {
        "age": number | {"integer": True, "spikes": [40]},
        "height": number,
        "income": number | {"nullable": True},
        "seen": {"kind": "datetime", "bounds": ["2020-01-01", "2024-12-31"]},
        "smokes": {"kind": "boolean"},
        "drives": {"kind": "boolean"},
        "sex": {"kind": "categorical", "categories": ["f", "m", "x"]},
        "work": {"kind": "categorical", "categories": [f"w{i}" for i in range(40)]},
        "home": place | {"columns": ["x", "y"], "radius": 20.0},
        "office": place | {"columns": ["lon", "lat"], "bounds": [[-9, 2], [49, 61]]},
    }
    schema = Schema.from_dict({"columns": columns})
    record = {"age": 40, "height": 50.5, "income": None, "seen": "2022-02-22", "sex": "x"}
    record |= {"smokes": True, "drives": False, "work": "w7"}
    record |= {"x": 3.0, "y": 19.0, "lon": -3.2, "lat": 55.9}
    how = {"jointly": {}, "each column": {"report": "split"}}
    cases = {
        name: {"randomizer": Randomizer.calibrate(schema, 8.0, **more).to_json(), "record": record}
        for name, more in how.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps(cases), encoding="utf-8")
        return in_chromium("speed", path)


def shares():
    """Words, bytes and milliseconds of both shares of tables and places, in Node and in Chromium."""
    from privot.aggregated import Encoder
    from privot.schema import Schema

    cases = {}
    for name, columns, record, people in _share_cases():
        promise = {"epsilon": 1.0, "where": "aggregated", "delta": 1e-8, "people": people}
        schema = Schema.from_dict({"columns": columns, "promise": promise})
        for proofs in (False, True):
            encoder = Encoder.calibrate(schema, proofs=proofs)
            case = {"encoder": encoder.to_json(), "record": record}
            cases[name + (", with proofs" if proofs else "")] = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps(cases), encoding="utf-8")
        own = json.loads(node("test/share_speed.mjs", path))
        return {"Node": own, "Chromium": in_chromium("encoding", path)}


def _share_cases():
    """Name, columns, a record, and the people that make cells of a place as fine as the name says."""
    for columns, codes in ((5, 9), (10, 14)):
        listed = {"kind": "categorical", "categories": [f"v{i}" for i in range(codes)]}
        names = [f"c{i}" for i in range(columns)]
        yield (
            f"{columns * codes} codes",
            dict.fromkeys(names, listed),
            dict.fromkeys(names, "v3"),
            10**6,
        )
    place = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
    for cells, people in ((1024, 3_000), (4096, 20_000), (16384, 100_000)):
        yield f"{cells} cells", {"home": place}, {"x": 0.3, "y": 0.7}, people


def vectors():
    """Met, of how many."""
    own = subprocess.run(
        [sys.executable, "-m", "conformance"], cwd=ROOT, capture_output=True, text=True
    )
    met, total = node("test/conformance.mjs").split()[0:3:2]
    chromium = in_chromium("conformance")
    return {
        "Python": own.stdout.strip(),
        "Node": {"met": int(met), "total": int(total)},
        "Chromium": {name: chromium[name] for name in ("met", "total")},
    }


def mutants():
    """How many are caught, and those that are not."""
    found = json.loads(node("test/mutants.mjs"))
    return {name: found[name] for name in ("mutants", "escaped")}


def law():
    """Chi-square tests of the counts: their p under the law, and under one that is 1 % off."""
    found = {}
    for name, seen in in_chromium("counts").items():
        draw = seen["program"]["split"]["reports"][0]["draw"]
        counts, judged = seen["counts"], LAWS[draw["draw"]]
        assert sum(counts.values()) == DRAWS
        found[name] = {
            "draws": DRAWS,
            "p": p_value(counts, judged(draw, 1.0)),
            "p_if_1_percent_off": p_value(counts, judged(draw, 1.01)),
        }
    return found


def p_value(counts, groups):
    """Of a chi-square test; `groups` are outcomes and their probability together."""
    expected = np.array([p for _, p in groups]) * DRAWS
    observed = np.array([sum(counts.get(o, 0) for o in outcomes) for outcomes, _ in groups])
    assert observed.sum() == DRAWS, "there are outcomes that the law does not know"
    assert abs(expected.sum() / DRAWS - 1) < 1e-9
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, len(groups) - 1))


def response_law(draw, off):
    """Codes; `off` times as many others."""
    other, values = off * int(draw["slot"], 16) / WORDS, draw["values"]
    return [
        ([str(code)], 1 - (values - 1) * other if code == _CODE else other)
        for code in range(values)
    ]


def subset_law(draw, off):
    """All sets; the true cell is left out `off` times as often."""
    cells, size, out = draw["cells"], draw["size"], off * int(draw["out"], 16) / WORDS
    ways_in, ways_out = math.comb(cells - 1, size - 1), math.comb(cells - 1, size)
    # The record is the third of the list.
    return [
        (
            [str(sum(1 << place for place in cell))],
            (1 - out) / ways_in if 2 in cell else out / ways_out,
        )
        for cell in itertools.combinations(range(cells), size)
    ]


def window_law(draw, off):
    """Cells of one coordinate, in groups inside and outside the window of the middle."""
    steps, radius, anywhere = draw["steps"], draw["radius"], off * int(draw["anywhere"], 16) / WORDS
    count, near = steps + 2 * radius + 1, 2 * radius + 1
    middle = steps // 2 + radius
    cells = np.arange(count)
    inside = np.abs(cells - middle) <= radius
    groups = []
    for part, within in ((cells[inside], 1), (cells[~inside], 0)):
        each = anywhere / count + within * (1 - anywhere) / near
        for group in np.array_split(part, GROUPS // 2):
            groups.append(([str(cell) for cell in group], each * len(group)))
    return groups


def laplace_law(draw, off):
    """Bins of the noise, of about equal probability; its scale is `off` times as large."""
    a, b = (int(part, 16) for part in draw["ratio"])
    decay = math.exp(-_BIN * b / a / off)  # of a bin
    step = math.exp(-b / a / off)
    # P(|k| >= j bins) is 2 decay^j / (1 + step); the bin 0 holds both signs.
    tail = [1.0] + [2 * decay**j / (1 + step) for j in range(1, 10**4)]
    share = [tail[j] - tail[j + 1] for j in range(10**4 - 1)]
    groups, first = [(["0"], share[0])], 1
    while tail[first] > 3 / GROUPS:
        last = first
        while sum(share[first:last]) < 2 / GROUPS:
            last += 1
        groups += [
            ([f"{s}{j}" for j in range(first, last)], sum(share[first:last]) / 2) for s in ("", "-")
        ]
        first = last
    return groups + [([f"{s}{j}" for j in range(first, 10**4)], tail[first] / 2) for s in ("", "-")]


LAWS = {
    "response": response_law,
    "subset": subset_law,
    "window": window_law,
    "laplace": laplace_law,
}
WHAT = {
    "size": size,
    "speed": speed,
    "shares": shares,
    "vectors": vectors,
    "mutants": mutants,
    "law": law,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    what = parser.parse_args().what
    print(json.dumps({"what": what, "load": os.getloadavg()[0], "result": WHAT[what]()}, indent=2))
