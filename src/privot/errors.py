"""The one error that users meet.

Every refusal names the argument (or column), the value, and the remedy, in one line.
The command line prints it on standard error and exits with code 2; nothing half-written stays.
"""


class PrivotError(ValueError):
    """Input that cannot be used, or a promise that cannot be made."""


def printable(text: str) -> str:
    r"""Words of others on a line, where they end no line and steer no terminal.

    >>> printable("a\x1b[2J\n.csv")
    'a\\x1b[2J\\n.csv'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
