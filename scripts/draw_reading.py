"""Draw modules for a reading: 25 of privot and 25 of well-kept libraries, in one mixed order.

`python scripts/draw_reading.py SEED [SEED …]` prints the last seed's draw, without modules of earlier
ones. Read at most 600 lines of each, and note its grade and its worst line. The checklist:

 1 the module's first sentence names its concept and can stand alone in an index
 2 each public sentence is understood at one reading
 3 a name says what it holds or does; letters stand only for symbols of an equation shown
 4 words are those of the field; an own term is defined where it first stands
 5 name and docstring together tell what a function or class is for
 6 shapes, units or ranges of public arguments and results are given where the type leaves them open
 7 refusals are documented, and name the argument, the value and the remedy
 8 a formula, constant, check or sentence is written in one place
 9 comments say why; none repeats the code; no dead code
10 a function does one task at one level, without flags that change what it returns
11 mathematics that is no common knowledge is derived or has its source
12 what is written agrees with what the code does

model: no fault, worth copying; fine: faults that a review would let pass; poor: a fault that a
maintainer of a first-class library would ask to be changed, not a matter of taste.
"""

import random
import sys
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = "sklearn scipy.stats scipy.optimize scipy.spatial networkx attr ot torch.distributions"
order, drawn = [], set()
for seed in map(int, sys.argv[1:]):
    rng, order = random.Random(seed), []
    for pool in ("privot", LIBRARIES):
        roots = [Path(find_spec(name).submodule_search_locations[0]) for name in pool.split()]
        paths = sorted({path for root in roots for path in root.rglob("*.py")} - drawn)
        paths = [path for path in paths if not {"tests", "externals"} & {*path.parts}]
        order += rng.sample([p for p in paths if len(p.read_text("utf-8").splitlines()) >= 60], 25)
    drawn |= {*order}
    rng.shuffle(order)
print(__doc__, "", *order, sep="\n")
