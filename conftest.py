"""What is collected: modules that need an optional package have doctests only where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ray") else ["src/privot/distributed/*.py"]
