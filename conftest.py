"""What is collected and where it counts.

Modules that need an optional package have doctests only where it is installed. Ledgers have their
witnesses in a folder of the session, never in the account's own. Numerical libraries keep to one thread:
there is a process of tests for every core already.
"""

import os
import tempfile
from importlib.util import find_spec

_NEEDS = {
    "ray": ("src/privot/distributed.py",),
    "pywt": (
        "studies/rivals/wavelet_shrinkage.py",
        "studies/entropic/denoising.py",
    ),
}
collect_ignore_glob = [
    pattern
    for package, patterns in _NEEDS.items()
    if not find_spec(package)
    for pattern in patterns
]
for _name in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
_state = tempfile.TemporaryDirectory(prefix="privot-state-")
os.environ["PRIVOT_STATE_DIR"] = _state.name
