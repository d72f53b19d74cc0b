"""One training step of entropic transport, beside POT, geomloss and OTT-JAX at equal accuracy.

    python privot_benchmarks/solver.py --quick    # under a minute
    python privot_benchmarks/solver.py   # every row, some ten minutes
    python privot_benchmarks/solver.py --tune     # search everybody's best settings again, first
    python privot_benchmarks/solver.py --json  # a list of {setting, implementation, ms, gradient_error}

A step is costs, solution, and gradient with respect to the generated points. The gradient error is
relative, in ℓ2, against a converged reference in double precision. Of each rival the fastest way of
calling it whose error is at most 1e-2 is timed (`solver_best.json`, written by `--tune`); where
none is that accurate, the most accurate one, and a mark says so. Privot's tolerance is chosen by the
same rule. Everything runs in this process on the same cores, in turns; times are medians. Numbers
differ between machines: quote the ratios. Digits are MNIST's, from the folder in PRIVOT_DATA.
"""

import argparse
import contextlib
import json
import os
import sys


def use_threads(count: int) -> None:
    """Keep this process, and every thread pool that a library starts, to some cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(count)


def main() -> None:
    """Parse, keep to the threads, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five rows, under a minute")
    parser.add_argument(
        "--tune", nargs="*", metavar="LIBRARY",
        choices=("privot", "POT", "geomloss", "OTT"),
        help="search the best settings of these again, first (of all, without a name)",
    )  # fmt: skip
    parser.add_argument("--only", help="rows whose name contains this")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    use_threads(options.threads)
    # Some libraries greet on standard output, which `--json` keeps for the numbers.
    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        # Thread pools read the environment when their library is imported, so this comes after.
        import solver_measure

        from privot.training.loop import keep_freed_memory

        keep_freed_memory()  # as every fit does; rivals gain by it, too
        rows = solver_measure.rows(options.quick, options.only)
        if options.tune is not None:
            solver_measure.tune(rows, options.tune or solver_measure.TUNED)
        results = []
        if not options.json:
            print(solver_measure.conditions(options.threads))
        for name, make in rows.items():
            measured = solver_measure.measure(name, make(), quick=options.quick)
            results += measured
            if not options.json:
                print(solver_measure.table(measured), flush=True)
    if options.json:
        print(json.dumps([result.as_dict() for result in results], indent=2, ensure_ascii=False))
        for reason in solver_measure.missing():
            print(reason, file=sys.stderr)


if __name__ == "__main__":
    main()
