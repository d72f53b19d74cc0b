"""What docs name exists: links, files, modules, classes, functions, options and commands."""

import ast
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer

from privot.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Names of others that docs mention as code.
FOREIGN = {"Dataset", "HMASynthesizer", "LogisticRegression", "MLPClassifier"}
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code(page):
    """What stands between single backticks, in prose."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.findall(r"`([^`]+)`", prose)


def commands(page):
    """Lines of fenced blocks and code in prose that start one of our commands."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.S | re.M)
    lines = [line.strip() for block in blocks for line in block.splitlines()] + code(page)
    starts = (
        "privot ",
        "make ",
        "pytest ",
        "python privot_benchmarks/",
        "python examples/",
        "python scripts/",
    )
    return [line for line in lines if line.startswith(starts)]


@cache
def nodes(path):
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@cache
def defined():
    """Names of all classes, functions, methods, fields and arguments of the library and studies."""
    names = set()
    for path in [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "studies").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
    ]:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names


@cache
def command_line():
    """What parses `privot …`; to make it takes longer than to ask it."""
    return typer.main.get_command(app)


@cache
def spoken():
    """Texts that the code knows: kinds, options, names of columns; and stems of recorded rows."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "studies").rglob("*.py")]
    known = (node for path in sources for node in nodes(path))
    texts = {node.value for node in known if isinstance(node, ast.Constant)}
    return texts | {path.stem for path in (ROOT / "docs" / "results").rglob("*.json")}


def resolves(name):
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pages
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert not [t for t in targets if "://" not in t and not (page.parent / t).exists()]


@pages
def test_files_exist(page):
    named = {word for words in code(page) for word in re.findall(r"[\w./*<>-]+", words)}
    ours = ("src/", "docs/", "tests/", "studies/", "privot_benchmarks/", "examples/", "scripts/")
    paths = {word for word in named if word.endswith(".py") or word.startswith(ours)}
    paths = {re.sub(r"<\w+>", "*", word) for word in paths}
    roots = (ROOT, ROOT / "src" / "privot")
    assert not {path for path in paths if not any([*root.glob(path.rstrip("/"))] for root in roots)}


@pages
def test_modules_and_functions_exist(page):
    missing = set()
    shown = "\n".join(re.findall(r"^```.*?^```$", page.read_text(encoding="utf-8"), re.S | re.M))
    for words in code(page):
        if re.fullmatch(r"_?[A-Za-z0-9]+(_\w+)+|_[A-Za-z]\w*", words):
            missing |= set() if words in defined() | spoken() or words in shown else {words}
            continue
        found = re.fullmatch(r"([A-Za-z_][\w.]*)(\(.*\))?", words, re.S)
        if not found:
            continue
        name, called = found.groups()
        first, *rest = name.split(".")
        if first in ("privot", "studies"):
            missing |= set() if resolves(name) else {name}
        elif (re.match(r"[A-Z]\w*[a-z]", first) and (called or rest)) or (called and not rest):
            missing |= {part for part in (first, *rest) if part not in defined() | FOREIGN}
    assert not missing


@pages
def test_commands_are_understood(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for command in commands(page):
        program, *words = shlex.split(command, comments=True)
        if program == "privot":
            understood(words)
        elif program == "make":
            assert set(words) & set(targets), command
        else:
            (path, *_), *_ = [
                word.split("::") for word in words if word.endswith(".py") or "/" in word
            ]
            assert (ROOT / path).exists(), command


def understood(words):
    """Every subcommand and option of `privot …` is known; `…` stands for what is left out."""
    command = command_line()
    words = list(words)
    while hasattr(command, "commands") and words and not words[0].startswith(("-", "…")):
        name = words.pop(0)
        assert name in command.commands, name
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= known, (command.name, given - known)


def test_every_cited_work_is_in_the_bibliography():
    """A docstring's `References:` give *titles* with years: each, or its longer form, has an entry."""
    entries = (ROOT / "references.bib").read_text(encoding="utf-8")
    keys, titles = (
        re.findall(r"@\w+\{(\w+),", entries),
        re.findall(r"title = \{\{(.*)\}\}", entries),
    )
    assert len(set(keys)) == len(keys) == len(titles)
    known = [title.lower() for title in titles]
    missing = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "studies").rglob("*.py")]:
        for cited in re.findall(r"References?:\n((?: {4,}.*\n|\n)+)", path.read_text("utf-8")):
            for title in re.findall(r"\*([^*]+)\* \((?:\w+ )?\d{4}", " ".join(cited.split())):
                if not any(entry.startswith(title.lower()) for entry in known):
                    missing.add(title)
    assert not missing
