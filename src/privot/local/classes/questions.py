r"""Questions: what reports are about, where a column is reported in several alphabets.

A column is learned as shares of **pieces**: its atoms (`privot.local.atoms`), or bumps over atoms
(`bumps`). A question is a column in one of its alphabets. It has a law $G_{kv}$, the probability of code
k in piece v, 0 or 1 where pieces are atoms; the probabilities of codes and the likelihood follow from
$q = G p$. Expected numbers of people S of its codes are given back to pieces in proportion to what is
believed of them,

$$ S_{vz} = p_{vz} \sum_{\text{questions}} \sum_k G_{kv} S_{kz} / q_{kz} , $$

which is EM still: the piece of each told code is missing data as the code is, and given the code its law
is $G_{kv} p_{vz} / q_{kz}$. So the likelihood climbs at every step as it does over codes, and the
product of pieces is never formed: three columns of 100 atoms each cost what their alphabets cost.

References:
    Heitjan, Rubin, *Ignorability and coarse data* (1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privot.compiled import compiled

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Question(NamedTuple):
    """A column in one of its alphabets.

    Args:
        column: its number.
        law: probabilities of codes in each piece of the column, shape (codes, pieces).
    """

    column: int
    law: Array

    @classmethod
    def of_codes(cls, column: int, codes: Ints, size: int) -> Question:
        """Of pieces each of which has one of so many codes."""
        return cls(column, (codes == np.arange(size)[:, None]).astype(np.float64))

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.law)


class Questions(NamedTuple):
    """All of them laid end to end, their codes numbered through as pieces are."""

    sizes: Ints  # (questions,) numbers of codes
    offsets: Ints  # (questions+1,) first of the numbered codes of each
    pieces: NDArray[np.int32]  # that have a code, one code after the other
    shares: Array  # and how likely it is in each
    starts: Ints  # (codes+1,) into them

    @classmethod
    def of(cls, sizes: Sequence[int], asked: Sequence[Question]) -> Questions:
        """Of columns of so many pieces.

        Examples:
            >>> asked = Questions.of([3], [Question(0, np.array([[1, 0.5, 0], [0, 0.5, 1]]))])
            >>> asked.gather(np.array([[0.5], [0.2], [0.3]])).ravel().tolist()
            [0.6, 0.4]
        """
        counts = np.array([each.size for each in asked], np.int64)
        first = starts(np.array(sizes, np.int64))
        found = [np.nonzero(each.law) for each in asked]
        pieces = [
            places + first[each.column] for (_, places), each in zip(found, asked, strict=True)
        ]
        shares = [each.law[place] for each, place in zip(asked, found, strict=True)]
        held = [np.bincount(k, minlength=n) for (k, _), n in zip(found, counts, strict=True)]
        none = np.zeros(0, np.int64)
        return cls(
            sizes=counts,
            offsets=starts(counts),
            pieces=np.concatenate([none, *pieces]).astype(np.int32),
            shares=np.concatenate([np.zeros(0), *shares]),
            starts=starts(np.concatenate([none, *held])),
        )

    def gather(self, p: Array) -> Array:
        """Probabilities q of codes (codes, classes) from those of pieces (pieces, classes)."""
        return _gather(self, p)

    def give_back(self, expected: Array, q: Array, p: Array) -> Array:
        """Expected numbers of pieces (pieces, classes) from those of codes (codes, classes)."""
        return _give_back(self, expected, q, p)


def plain(sizes: Sequence[int]) -> list[Question]:
    """One question a column, whose codes are its pieces."""
    return [Question(column, np.eye(size)) for column, size in enumerate(sizes)]


def starts(lengths: Ints) -> Ints:
    """Where each of runs of these lengths begins, and the end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@compiled
def _gather(asked: Questions, p: Array) -> Array:
    q = np.zeros((asked.starts.size - 1, p.shape[1]))
    for code in range(q.shape[0]):
        for t in range(asked.starts[code], asked.starts[code + 1]):
            for z in range(p.shape[1]):
                q[code, z] += asked.shares[t] * p[asked.pieces[t], z]
    return q


@compiled
def _give_back(asked: Questions, expected: Array, q: Array, p: Array) -> Array:
    out = np.zeros_like(p)
    for code in range(q.shape[0]):
        for t in range(asked.starts[code], asked.starts[code + 1]):
            piece = asked.pieces[t]
            for z in range(p.shape[1]):
                if q[code, z] > 0.0:
                    part = asked.shares[t] * p[piece, z] / q[code, z]
                    out[piece, z] += expected[code, z] * part
    return out
