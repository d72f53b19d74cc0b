"""What is collected: modules that need an optional package have doctests only where it is installed."""

from importlib.util import find_spec

_NEEDS = {
    "ray": ("src/privot/distributed/*.py",),
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
