"""Docstrings as they are written here, Markdown with Google's sections, turned to plain Markdown.

`Arguments:`, `Attributes:`, `Raises:` and the like become a bold word and a list of what stands indented
below them; doctests become blocks of code.
"""

from __future__ import annotations

import re
import textwrap

_SECTIONS = r"Arguments|Attributes|Raises|Returns|Yields|Examples?|References|Usage"
_SECTION = re.compile(rf"^({_SECTIONS}):\s*$")
_ENTRY = re.compile(r"^(\*{0,2}[\w, .`|\[\]]+): (.*)$")


def to_markdown(text: str) -> str:
    """A docstring, dedented, as MyST."""
    lines, out = text.splitlines(), []
    index = 0
    while index < len(lines):
        found = _SECTION.match(lines[index])
        if not found:
            out.append(lines[index])
            index += 1
            continue
        body = []
        index += 1
        while index < len(lines) and (not lines[index].strip() or lines[index].startswith(" ")):
            body.append(lines[index])
            index += 1
        out += ["", f"**{found[1]}**", "", *_body(found[1], body), ""]
    return "\n".join(_fenced(out))


def _body(section: str, lines: list[str]) -> list[str]:
    inner = textwrap.dedent("\n".join(lines)).strip("\n").splitlines()
    if section not in ("Arguments", "Attributes", "Raises"):
        return inner
    out = []
    for line in inner:
        entry = _ENTRY.match(line)
        more = f"  {line.strip()}" if line.strip() else ""
        out.append(f"- `{entry[1]}`: {entry[2]}" if entry else more)
    return out


def _fenced(lines: list[str]) -> list[str]:
    out, inside, fenced = [], False, False
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not inside and line.lstrip().startswith(">>>"):
            out += ["", "```python"]
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line.strip() if inside and line.lstrip().startswith((">>>", "...")) else line)
    return [*out, "```"] if inside else out
