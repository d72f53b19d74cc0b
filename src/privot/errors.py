"""The one error that users meet.

Every refusal names the argument (or column), the value, and the remedy, in one line.
The command line prints it on standard error and exits with code 2; nothing half-written stays.
"""


class PrivotError(ValueError):
    """Input that cannot be used, or a promise that cannot be made."""
