"""The section of CHANGELOG.md about one version, to be published with it.

python scripts/release_notes.py 0.1.0        # or Unreleased; `make release-notes VERSION=0.1.0`
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def sections(text: str) -> dict[str, str]:
    """What stands under each version, by its name without brackets and date."""
    _, *parts = re.split(r"^## \[?([^\]\s]+)\]?.*\n", text, flags=re.MULTILINE)
    return {name: words.strip() for name, words in zip(parts[::2], parts[1::2], strict=True)}


def main() -> None:
    """Print the section, or name those that there are."""
    found = sections(CHANGELOG.read_text(encoding="utf-8"))
    (version,) = sys.argv[1:] or ["Unreleased"]
    if version not in found:
        sys.exit(f"CHANGELOG.md has no section {version!r}: name one of {', '.join(found)}")
    print(found[version])


if __name__ == "__main__":
    main()
