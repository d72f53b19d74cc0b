"""What the playground draws with: the client for browsers, and randomizers at each ε of its dial.

They become one script, `_static/playground/client.js`: a page that is opened as a file may load scripts,
but no modules. Randomizers are of `privot.Randomizer.calibrate`: the page draws what a campaign draws.
"""

import json
from pathlib import Path

import privot

CLIENT = Path(__file__).parents[1] / "src" / "privot" / "campaign" / "web" / "privot.js"
EPSILONS = (0.5, 1, 2, 3, 4, 5, 6, 8)
MECHANISMS = ("window", "laplace")
SCHEMA = """
[columns.home]
kind = "vector"
columns = ["east", "north"]
bounds = [[0, 10], [0, 10]]
"""


def client_script(client: Path = CLIENT) -> str:
    """The script that defines `PLAYGROUND`.

    Raises:
        FileNotFoundError: if the client is not built.
    """
    if not client.exists():
        raise FileNotFoundError(
            f"{client} is missing: build the JavaScript client by `make client`"
        )
    schema = privot.Schema.from_toml(SCHEMA)
    calibrate = privot.Randomizer.calibrate
    randomizers = {
        kind: [calibrate(schema, float(epsilon), mechanism=kind).to_json() for epsilon in EPSILONS]
        for kind in MECHANISMS
    }
    held = {"client": client.read_text("utf-8"), "randomizers": randomizers, "epsilons": EPSILONS}
    return f"const PLAYGROUND = {json.dumps(held)};\n"
