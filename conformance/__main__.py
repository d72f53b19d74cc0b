"""`python -m conformance`: does the Python device meet every vector? `--write` makes them anew."""

from __future__ import annotations

import json
import sys

from conformance.vectors import FOLDER, is_met, is_refused, write
from privot.device import Device

if "--write" in sys.argv:
    write()
met = total = 0
for path in sorted(FOLDER.glob("*.json")):
    suite = json.loads(path.read_text(encoding="utf-8"))
    device = Device.from_json(suite["randomizer"])
    found = [is_met(device, vector) for vector in suite["vectors"]]
    found += [is_refused(device, record) for record in suite["refused"]]
    met, total = met + sum(found), total + len(found)
print(f"{met:,} of {total:,} vectors are met")
sys.exit(met != total)
