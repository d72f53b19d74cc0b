"""Measure the size and the wording of the library: what CONTRIBUTING.md bounds.

    python scripts/measure_house.py               # totals
    python scripts/measure_house.py --packages    # and one row a package
    python scripts/measure_house.py --list local  # the lines that count as private words or fragments

Lines are those of the files; code lines are neither blank, comment, docstring nor import. A short
docstring is a fragment if it is one line and begins with a preposition or an interrogative ("Of …",
"What …"), or ends without naming a thing ("Both.").
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "privot"
PRIVATE_WORDS = re.compile(r"\b(told|heard|asked|kept)\b", re.IGNORECASE)
FRAGMENT = re.compile(
    r"(Of|What|Whether|Which|How|Who|Whose|Where|When|By|From|As|For|To|In|On|With|Both|Nobody|So)\b"
)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstring nodes of a module, its classes and its functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def is_fragment(text: str) -> bool:
    """Say whether a one-line docstring is a fragment rather than a sentence or a noun phrase."""
    return bool(FRAGMENT.match(text)) or len(text.split()) < 2


def measure(path: Path) -> Counter[str]:
    """Count lines, code lines, import lines, private words, short docstrings and fragments."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = [*docstrings(tree)]
    not_code = {n for d in documented for n in range(d.lineno, (d.end_lineno or 0) + 1)}
    imports: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            not_code.add(token.start[0])
    lines = text.splitlines()
    blank = {n for n, line in enumerate(lines, 1) if not line.strip()}
    short = [d.value for d in documented if isinstance(d.value, str) and "\n" not in d.value]
    return Counter(
        {
            "files": 1,
            "lines": len(lines),
            "code": len(lines) - len(not_code | imports | blank),
            "imports": len(imports),
            "private words": len(PRIVATE_WORDS.findall(text)),
            "short docstrings": len(short),
            "fragments": sum(map(is_fragment, short)),
        }
    )


def show(name: str, total: Counter[str]) -> None:
    """Print one row."""
    share = total["fragments"] / max(total["short docstrings"], 1)
    print(
        f"{name:12} {total['lines']:6} lines {total['files']:4} files {total['code']:6} code "
        f"{total['imports']:5} imports {total['private words']:5} private words {share:6.1%} fragments"
    )


def list_lines(package: str) -> None:
    """Print each line with a private word, and each fragment, of one package."""
    for path in sorted((ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        fragments = {
            d.lineno
            for d in docstrings(ast.parse(text))
            if "\n" not in d.value and is_fragment(d.value)
        }
        for number, line in enumerate(text.splitlines(), 1):
            if number in fragments or PRIVATE_WORDS.search(line):
                print(f"{path.relative_to(ROOT.parents[1])}:{number}: {line.strip()}")


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", action="store_true", help="one row a package")
    parser.add_argument("--list", metavar="PACKAGE", help="lines to mend")
    given = parser.parse_args()
    if given.list:
        list_lines(given.list)
        return
    packages: dict[str, Counter[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).parts[0].removesuffix(".py")
        packages.setdefault(name, Counter()).update(measure(path))
    if given.packages:
        for name, total in packages.items():
            show(name, total)
    show("all", sum(packages.values(), Counter()))
    print(f"{len({p.parent for p in ROOT.rglob('*.py')})} folders")


if __name__ == "__main__":
    main()
