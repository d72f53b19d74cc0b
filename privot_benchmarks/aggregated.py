"""Sums by two servers: what shares cost, and how well a table is learned at ε = 1.

    python privot_benchmarks/aggregated.py cost -o docs/results/promise/shares.json
    python privot_benchmarks/aggregated.py proofs --data DIR -o docs/results/promise/proofs.json
    python privot_benchmarks/aggregated.py tables --data FOLDER -o docs/results/promise/aggregated.json
    python privot_benchmarks/aggregated.py tables --protocol --people 45000 --deltas 1e-6 --data FOLDER

`cost`: milliseconds and bytes of one client's shares, and of each server a share, for maps of cells and
for Adult's ten columns; best of several repeats, one thread. `proofs`: the same of shares with proofs,
in milliseconds of CPU time, means. `tables`: total variation of people's one-way and two-way shares from
as many synthetic records, as `studies.tables.central` measures the curator's, and from the model's exact
probabilities; with `--protocol` shares pass through both servers' folders, else the sums get the noise
of both.
"""

import argparse
import json
import os
import secrets
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from privot.aggregated import Encoder, Server, SumRelease, fit, open_sums
from privot.aggregated.prio3 import Histogram, Prio3
from privot.aggregated.shares import expand
from privot.central import SumSettings
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.schema import Schema
from studies.tables.adult import Drawn, marginal_errors, read_adult
from studies.tables.central import codes_in


def best_seconds(action, repeats):
    """Least seconds of several calls: what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def promising(schema, people, delta):
    """The schema, with a promise of two servers at ε = 1."""
    promise = {"epsilon": 1, "where": "aggregated", "delta": delta, "people": people}
    return Schema.from_dict(schema.to_dict() | {"promise": promise})


def split_cost(cells, repeats):
    """Shares of a vector of so many cells, as encoders make them."""
    vector, seed, total = np.zeros(cells, np.uint64), bytes(32), np.zeros(cells, np.uint64)
    vector[[5, 77, 1000]] = 1
    padded = (vector + expand(seed, cells)).tobytes()
    client = best_seconds(lambda: (vector + expand(seed, cells)).tobytes(), repeats)
    leader = best_seconds(lambda: np.add(total, np.frombuffer(padded, "<u8"), out=total), repeats)
    helper = best_seconds(lambda: np.subtract(total, expand(seed, cells), out=total), repeats)
    return {
        "cells": cells,
        "client_ms": round(client * 1e3, 4),
        "leader_ms": round(leader * 1e3, 4),
        "helper_ms": round(helper * 1e3, 4),
        "leader_bytes": 8 * cells + 49,
        "helper_bytes": 32 + 49,
    }


def cpu_ms(action, repeats):
    """Mean CPU milliseconds of a call, which other programs disturb least."""
    action()
    start = time.process_time()
    for _ in range(repeats):
        action()
    return round((time.process_time() - start) / repeats * 1e3, 2)


def proof_cost(prio3, measurement, repeats):
    """One report's shares with a proof: its client, each server, and what they send each other."""
    key, nonce = secrets.token_bytes(16), secrets.token_bytes(16)
    public, inputs = prio3.shard(measurement, nonce)
    prepare = [partial(prio3.prep_init, key, k, nonce, public, inputs[k]) for k in (0, 1)]
    shares = [each()[1] for each in prepare]
    return {
        "numbers": prio3.circuit.length,
        "client_cpu_ms": cpu_ms(lambda: prio3.shard(measurement, nonce), repeats),
        "leader_cpu_ms": cpu_ms(prepare[0], repeats),
        "helper_cpu_ms": cpu_ms(prepare[1], repeats),
        "decide_cpu_ms": cpu_ms(lambda: prio3.prep_shares_to_prep(shares), repeats),
        "leader_bytes": len(public + inputs[0]),
        "helper_bytes": len(public + inputs[1]),
        "exchanged_bytes": len(shares[0]),
        "error": prio3.circuit.error,
    }


def proof_costs(data, repeats):
    """Maps of a level of cells, and a record of Adult's ten columns."""
    for cells in (1024, 4096):
        circuit = Histogram(cells)
        yield proof_cost(Prio3(circuit), circuit.encode(77), repeats)
    schema, table = read_adult(data)
    encoder = Encoder.calibrate(promising(schema, 45_000, 1e-6), proofs=True)
    (vector,) = next(encoder.contributions(table.slice(0, 1)))
    measurement = encoder.prio3.circuit.measurement_of(vector.view(np.int64))
    yield proof_cost(encoder.prio3, measurement, repeats) | {"columns": 10}


def protocol_costs(data, people, repeats):
    """One record of Adult's ten columns, from its values on; each server a share, on this disk."""
    schema, table = read_adult(data)
    table = table.slice(0, people)
    encoder = Encoder.calibrate(promising(schema, people, 1e-6))
    record = table.slice(0, 1).to_pylist()[0]
    client = best_seconds(lambda: encoder.encode(record), repeats)
    with tempfile.TemporaryDirectory() as folder:
        _, spent, files = through_servers(encoder, table, Path(folder))
        row = {"cells": encoder.length, "columns": 10, "client_ms": round(client * 1e3, 4)}
        row |= {name: round(seconds / people * 1e3, 4) for name, seconds in spent.items()}
        shares = encoder.encode(record)
        row |= dict(zip(("leader_bytes", "helper_bytes"), map(len, shares), strict=True))
        yield row | {"people": people, "published_bytes": [file.stat().st_size for file in files]}


def through_servers(encoder, table, folder):
    """Both servers' sums of a table's records, the seconds each step took, and the files."""
    servers = [Server.create(folder / role, encoder, role) for role in ("leader", "helper")]
    spent = dict.fromkeys(("encode_ms", "leader_accept_ms", "helper_accept_ms"), 0.0)
    for start in range(0, table.num_rows, 1000):
        began = time.perf_counter()
        shares = [*encoder.encode_table(table.slice(start, 1000))]
        spent["encode_ms"] += time.perf_counter() - began
        for server, name, mine in zip(
            servers, [*spent][1:], zip(*shares, strict=True), strict=True
        ):
            began = time.perf_counter()
            server.accept(*mine)
            spent[name] += time.perf_counter() - began
    both, files = servers[0].ids() & servers[1].ids(), []
    for server in servers:
        began = time.perf_counter()
        files.append(server.release(both))
        spent[f"{server.role}_release_ms"] = time.perf_counter() - began
    return open_sums(*files), spent, files


def simulated(encoder, table):
    """The sums of a table with the noise of both servers, without shares."""
    sums = sum(chunk.sum(axis=0) for chunk in encoder.contributions(table)).view(np.int64)
    for _ in ("leader", "helper"):
        sums += sample_rounded_gaussian(encoder.length, encoder.stddev)
    return SumRelease(encoder, {"simulated": table.num_rows}, sums)


def table_rows(data, deltas, counts, seeds, protocol):
    """How far synthetic records are from the people's own shares of codes and of pairs of them."""
    schema, everybody = read_adult(data)
    sizes = [column.alphabet.size for column in schema.coded.values()]
    for people, delta, seed in ((n, d, s) for n in counts for d in deltas for s in seeds):
        table = everybody.slice(0, people)
        encoder = Encoder.calibrate(promising(schema, people, delta))
        began = time.perf_counter()
        if protocol:
            with tempfile.TemporaryDirectory() as folder:
                release, _, _ = through_servers(encoder, table, Path(folder))
        else:
            release = simulated(encoder, table)
        model = fit(release, SumSettings(seed=seed))
        drawn = codes_in(schema, model.sample(people, seed=seed))
        codes = codes_in(schema, table)
        one, two = marginal_errors(Drawn(drawn), codes, sizes)
        exact = marginal_errors(model.law.sampler.classes, codes, sizes)
        yield {
            "people": people,
            "epsilon": model.guarantee.epsilon,
            "delta": delta,
            "seed": seed,
            "through": "both servers' folders" if protocol else "noise of both on the sums",
            "one_way": round(one, 4),
            "two_way": round(two, 4),
            "two_way_exact": round(exact[1], 4),
            "seconds": round(time.perf_counter() - began, 1),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["cost", "proofs", "tables"])
    parser.add_argument("--data", default=os.environ.get("PRIVOT_DATA", "."))
    parser.add_argument("--deltas", nargs="+", type=float, default=[1e-6, 1e-7, 1e-8])
    parser.add_argument("--people", nargs="+", type=int, default=[40_000, 45_000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--protocol", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.what == "cost":
        rows = [split_cost(cells, given.repeats) for cells in (1024, 4096, 10_000)]
        rows += [*protocol_costs(given.data, 2000, given.repeats)]
    elif given.what == "proofs":
        rows = [*proof_costs(given.data, given.repeats)]
    else:
        rows = []
        for row in table_rows(given.data, given.deltas, given.people, given.seeds, given.protocol):
            print(json.dumps(row), flush=True)
            rows.append(row)
    text = "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"
    print(text)
    if given.output:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
