"""How large a δ may be: one rule, for whatever takes one.

To publish one of n records, drawn at random, is (0, 1/n)-private: its law moves by 1/n in total
variation when one record changes. To send one's record outright with probability δ is (0, δ)-private
locally, and of n people δn are then seen on average. So a δ above 1/n allows what nobody would call
private, whatever ε is, and must be well below:

- δ ≥ 1/10 is refused: no number of people makes it a promise;
- δ > 1/n is warned of, in one line. Where nobody has said how many records there will be, n counts as
  1000: for fewer, use noise that needs no δ (Laplace, randomized response).
"""

import warnings

from privot.errors import PrivotError
from privot.privacy.guarantees.figures import at_most
from privot.privacy.rounding import require_delta

_REFUSED = 0.1
_FEWEST = 1000


def check_delta(delta: float, records: int | None = None) -> None:
    """Refuse a δ of 1/10 or more, and warn of one above one over the number of records.

    >>> check_delta(1e-6)
    >>> check_delta(0.5)
    Traceback (most recent call last):
        ...
    privot.errors.PrivotError: delta is 0.5: from 0.1 on it promises nothing, ...

    Raises:
        PrivotError: naming the value and the remedy.
    """
    require_delta(delta)
    if delta >= _REFUSED:
        raise PrivotError(
            f"delta is {at_most(delta)}: from 0.1 on it promises nothing, for every tenth record may be "
            "published outright; give one well below one over the number of records"
        )
    if delta > 1 / (records or _FEWEST):
        among = (
            f"the {records:,} records"
            if records
            else f"{_FEWEST:,} records, and how many there will be is not known"
        )
        warnings.warn(
            f"delta is {at_most(delta)}, above one over {among}: publishing a record drawn at random "
            "would keep such a promise; give a smaller delta",
            stacklevel=3,
        )
