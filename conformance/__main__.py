"""`python -m conformance`: are all vectors met in Python? `--write` makes them anew."""

from __future__ import annotations

import json
import sys

from conformance import shares
from conformance.vectors import FOLDER, is_met, is_refused, write
from privot.device import Device

if "--write" in sys.argv:
    write()
    shares.write()
met = total = 0
for path in sorted(FOLDER.glob("*.json")):
    suite = json.loads(path.read_text(encoding="utf-8"))
    device = Device.from_json(suite["randomizer"])
    found = [is_met(device, vector) for vector in suite["vectors"]]
    found += [is_refused(device, record) for record in suite["refused"]]
    met, total = met + sum(found), total + len(found)
for path in sorted(shares.FOLDER.glob("*.json")):
    own, of = shares.check(path)
    met, total = met + own, total + of
print(f"{met:,} of {total:,} vectors are met")
sys.exit(met != total)
