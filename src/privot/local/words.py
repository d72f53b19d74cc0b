r"""Frequent words of a pilot: heavy hitters of columns whose values nobody listed.

A report of a word is a set of cells of one coding (`privot.schema.columns.word`). X is the number of
reports whose set contains the cell of a word s, each in its own coding. The people with s are counted
with probability p, others with about $q_0 = q + (p − q)/g$, so $(X − n q_0)/(p − q)$ estimates how many
people have s.

**Search.** Codings of buckets alone estimate the number of people in each bucket; the 1000 largest
buckets are searched. In a bucket, codings of level ℓ estimate how many people have each pair of letters
at place ℓ. The best beginnings and ends of words are found by a beam: their weight is the evidence of
their pairs, less $\ln(A − 1)$ a letter. As buckets add up, the beginnings and ends that make up a word
of the bucket are joined by sorting. Then the cells of accepted words are removed from all counts, and
the search is repeated until it finds no more.

**Promise.** Let $π(s) = (A − 1)^{−m} / M$ for a word of m letters, half of it if there are D public
words, each of which has 1/2D. A word is accepted if $P(\mathrm{Bin}(n, q_0) ≥ X) ≤ α π(s)$ with α =
.05. The sum of π is at most 1, so if the cells of words that nobody sent are only hit by chance, the
expected number of these that are accepted is at most α, however many are searched. A word in the bucket
of a frequent one is hit more often. So the codings of its letters alone must have $P ≤ α π(s) ·
65521/100$, too, and the odds against each other word of its bucket must be 20. This part is a rule, not
a theorem: what it achieves is measured (`docs/results/tables/plans.md`).

**Privacy review.** A function of reports (post-processing), which ε alone protects: of few reports at a
large ε, a word of two people may be accepted.

References:
    Bassily, Nissim, Stemmer, Thakurta, *Practical locally private heavy hitters* (2017); Wang, Li, Jha,
    *Locally differentially private heavy hitter identification* (2019).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.randomizer import Counts, Randomizer
from privot.randomizer.reports.counts import Counted, Key
from privot.randomizer.reports.joint import FormDesign, JointReport
from privot.schema import Schema
from privot.schema.columns.word import NUM_BUCKETS, NUM_CELLS, WordColumn
from privot.schema.domains import Array

_FALSE_WORDS = 0.05  # α: bound on the expected number of accepted words that nobody sent
_MOST_BUCKETS, _BEAM, _PAIRS, _FIRST_PAIRS = 1000, 500, 200, 3
_ROUNDS = 8
_NEXT = 0.3  # words with less than this share of the first one's people wait for the next round
_TYPICAL = 6.5  # standard deviations of the words for which the search weights evidence
_ODDS = 20  # against another word of the same bucket, which shares some of its cells
_USED_BUCKETS = 100  # more than hold words of many people
_AT_ONCE = 64  # buckets

Ints = NDArray[np.int64]


class FoundWord(NamedTuple):
    """A frequent word, with the estimated number of people of the release, and its standard error."""

    word: str
    people: float
    stderr: float


class _WordCounts:
    """Counts (codings, cells) of the reports of one column of words, debiased.

    Arguments:
        column: The column.
        counts: Counts of a release.
        name: Name of the column.
    """

    def __init__(self, column: WordColumn, counts: Counts, name: str) -> None:
        joint = counts.randomizer.joint
        assert joint is not None
        design, self.column = joint.design, column
        form = design.forms.index((design.columns.index(name),))
        hits, self.people = np.zeros((len(column.levels), NUM_CELLS)), np.zeros(len(column.levels))
        for (sheet,), (sets, people) in counts.groups.items():
            if sheet // design.views == form:
                coding = sheet % design.views % len(column.levels)
                hits[coding] += np.bincount(
                    sets.ravel(), np.repeat(people, sets.shape[1]), NUM_CELLS
                )
                self.people[coding] += people.sum()
        self.total = int(self.people.sum())
        p, q = joint.mechanism(NUM_CELLS).probabilities
        self.by_chance = q + (p - q) / NUM_CELLS  # q_0
        self.gain = p - q
        self.stderr = np.sqrt(self.total * self.by_chance * (1 - self.by_chance)) / self.gain
        self.estimates = (hits - self.people[:, None] * self.by_chance) / self.gain

    def rest(self, cells: Ints, shares: Array) -> Array:
        """Return the estimates without words of these cells (c, k) and shares (k,)."""
        rest = self.estimates.copy()
        for of_word, share in zip(cells.T, shares, strict=True):
            rest[np.arange(len(rest)), of_word] -= self.people * share
        return rest

    def of_words(self, estimates: Array, cells: Ints) -> Array:
        """Return the estimated numbers of people (k,) of words with cells (c, k)."""
        return np.asarray(np.take_along_axis(estimates, cells, 1).sum(axis=0))

    def shares(self, cells: Ints) -> Array:
        """Return the shares (k,) of words that together explain the counts (Richardson's iteration)."""
        shares = np.zeros(cells.shape[1])
        for _ in range(12):
            rest = self.of_words(self.rest(cells, shares), cells)
            shares = np.maximum(shares + 0.7 * rest / max(self.total, 1), 0)
        return shares

    def accepted(
        self, estimates: Array, cells: Ints, symbols: Ints, log_prior: Array
    ) -> NDArray[np.bool_]:
        """Return whether words (k, …) are accepted, by estimates (c, g), cells (c, k), ln π (k,)."""
        lengths, levels = (symbols > 0).sum(axis=1), self.column.levels[:, None]
        people = np.take_along_axis(estimates, cells, 1)
        of_letters = (levels > 0) & (
            2 * levels < lengths + 2
        )  # codings that ask for letters of the word
        tail = self._tail(people.sum(axis=0), np.full(len(lengths), self.total))
        tail_of_letters = self._tail((people * of_letters).sum(axis=0), self.people @ of_letters)
        weight, buckets = log_prior - tail, self.column.buckets(symbols)
        rivals = np.where(buckets[:, None] == buckets, weight, -np.inf)
        np.fill_diagonal(rivals, -np.inf)
        clear = weight >= rivals.max(axis=1, initial=-np.inf) + np.log(_ODDS)
        most = np.log(_FALSE_WORDS)
        given_bucket = np.minimum(most, most + log_prior + np.log(NUM_BUCKETS / _USED_BUCKETS))
        return np.asarray(
            (weight >= -most) & (tail_of_letters <= given_bucket) & clear & (lengths > 0)
        )

    def _tail(self, people: Array, total: Array) -> Array:
        """Return ln P(Bin(n, q_0) ≥ X) for estimated numbers of people (k,), and n = `total` (k,)."""
        hits = np.ceil(total * self.by_chance + people * self.gain) - 1
        return np.asarray(scipy.stats.binom.logsf(hits, total, self.by_chance))

    def log_prior(self, symbols: Ints, listed: int) -> Array:
        """Return ln π (k,) of words (k, …), the first `listed` of which are public."""
        letters = -(symbols > 0).sum(axis=1) * np.log(self.column.base - 1) - np.log(
            self.column.max_length
        )
        if not listed:
            return np.asarray(letters)
        return np.where(np.arange(len(symbols)) < listed, -np.log(2 * listed), letters - np.log(2))

    def search(self, estimates: Array) -> Ints:
        """Return candidates (k, 2·pairs), by estimates (c, g) without the accepted words."""
        column, square = self.column, self.column.base**2

        def evidence(level: int, keys: Ints) -> NDArray[np.float32]:
            codings = np.flatnonzero(column.levels == level)
            parts = (estimates[i].astype(np.float32)[column.hashed(int(i), keys)] for i in codings)
            return (
                np.sum([*parts], axis=0, dtype=np.float32)
                if len(codings)
                else np.zeros(keys.shape, np.float32)
            )

        people = evidence(0, np.arange(NUM_BUCKETS) * square + square - 1)
        buckets = np.argpartition(-people, _MOST_BUCKETS)[:_MOST_BUCKETS]
        found = [np.zeros((0, 2 * column.pairs), np.int64)]
        half = min(_FIRST_PAIRS, column.pairs - 1)
        for start in range(0, _MOST_BUCKETS, _AT_ONCE):
            chosen: Ints = buckets[start : start + _AT_ONCE].astype(np.int64)
            keys = chosen[:, None] * square + np.arange(square)
            levels = [evidence(level, keys) for level in range(1, column.pairs + 1)]
            begin, end = self._best(levels[:half], False), self._best(levels[half:], True)
            rows = np.arange(len(chosen))[:, None]
            row, left = (
                np.broadcast_to(rows, begin.shape[:2]).ravel(),
                begin.reshape(-1, begin.shape[2]),
            )
            of_end, right = (
                np.broadcast_to(rows, end.shape[:2]).ravel(),
                end.reshape(-1, end.shape[2]),
            )
            # Buckets add up: the ends that a beginning needs are found in sorted order.
            needed = row * NUM_BUCKETS + (chosen[row] - column.buckets(left)) % NUM_BUCKETS
            present = of_end * NUM_BUCKETS + column.buckets(right, 2 * half)
            order = np.argsort(present)
            first = np.searchsorted(present[order], needed, "left")
            count = np.searchsorted(present[order], needed, "right") - first
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            matched = order[np.repeat(first, count) + within]
            words = np.hstack([left[np.repeat(np.arange(len(left)), count)], right[matched]])
            whole = ((words[:, :-1] > 0) | (words[:, 1:] == 0)).all(axis=1) & (words[:, 0] > 0)
            found.append(words[whole])
        return np.unique(np.concatenate(found), axis=0)

    def _best(self, levels: list[NDArray[np.float32]], may_be_empty: bool) -> Ints:
        """Return the letters (b, k, 2·levels) of the best parts, by evidence (b, A²) at each level."""
        base, num = self.column.base, len(levels[0])
        first, second = np.divmod(np.arange(base**2), base)
        cost = np.log(base - 1) * ((first > 0).astype(float) + (second > 0))
        cost[(first == 0) & (second > 0)] = np.inf
        score, last = np.zeros((num, 1), np.float32), np.ones((num, 1), int)
        paths = np.zeros((num, 1, 0), np.int64)
        for place, people in enumerate(levels):
            value = (_TYPICAL / self.stderr * people - cost).astype(np.float32)
            width = min(_PAIRS, value.shape[1] - 2)
            pairs = np.argpartition(-value[:, 1:], width, axis=1)[:, :width] + 1
            pairs = np.hstack([pairs, np.zeros((num, 1), int)])  # pair 0 is after the end
            joined = score[:, :, None] + np.take_along_axis(value, pairs, 1)[:, None]
            joined[(last == 0)[:, :, None] & (pairs > 0)[:, None]] = -np.inf
            if not (place or may_be_empty):
                joined[:, :, -1] = -np.inf
            flat = joined.reshape(num, -1)
            width = min(_BEAM, flat.shape[1])
            best = np.argpartition(-flat, width - 1, axis=1)[:, :width]
            state, chosen = np.divmod(best, pairs.shape[1])
            pair = np.take_along_axis(pairs, chosen, 1)
            score, last = np.take_along_axis(flat, best, 1), second[pair]
            paths = np.concatenate(
                [np.take_along_axis(paths, state[..., None], 1), pair[..., None]], 2
            )
        return np.stack([first[paths], second[paths]], -1).reshape(num, paths.shape[1], -1)


def find_words(counts: Counts, name: str, public: Iterable[str] = ()) -> list[FoundWord]:
    """Return the frequent words of a column of words, the most frequent first.

    Arguments:
        counts: Counts of a release (`privot.count`).
        name: Name of the column.
        public: Public words to try, such as a dictionary; others are found, too, but need more people.
    """
    data = _WordCounts(counts.schema.words[name], counts, name)
    column, found, shares = data.column, list[tuple[int, ...]](), np.zeros(0)
    tried = {tuple(symbols) for symbols in map(column.symbols, public) if symbols and any(symbols)}
    dictionary = np.array(sorted(tried), np.int64).reshape(-1, 2 * column.pairs)
    for _ in range(_ROUNDS if data.total else 0):
        rest, new = data.rest(_cells(column, found), shares), list[int]()
        searched = [word for word in data.search(rest).tolist() if tuple(word) not in tried]
        candidates = np.array([*dictionary.tolist(), *searched], np.int64).reshape(
            -1, 2 * column.pairs
        )
        cells, log_prior = column.cells(candidates), data.log_prior(candidates, len(dictionary))
        most = 0.0
        while True:
            people = data.of_words(rest, cells)
            likely = np.flatnonzero(people > 2 * data.stderr)
            likely = likely[~np.isin(likely, new)]
            fits = data.accepted(rest, cells[:, likely], candidates[likely], log_prior[likely])
            if not fits.any():
                break
            best = int(likely[np.where(fits, people[likely], -np.inf).argmax()])
            most = max(most, people[best])
            if people[best] < _NEXT * most:
                break
            new.append(best)
            rest[np.arange(len(rest)), cells[:, best]] -= data.people * people[best] / data.total
        if not new:
            break
        found = sorted({*found, *map(tuple, candidates[new].tolist())})
        shares = data.shares(_cells(column, found))
    scale = len(counts) / max(data.total, 1)  # others have reported other columns
    people, stderr = shares * data.total * scale, float(data.stderr * scale)
    words = [
        FoundWord(column.word(word), float(count), stderr)
        for word, count in zip(found, people, strict=True)
    ]
    return sorted(words, key=lambda word: -word.people)


def _cells(column: WordColumn, words: list[tuple[int, ...]]) -> Ints:
    return column.cells(np.array(words, np.int64).reshape(-1, 2 * column.pairs))


def without_words(counts: Counts) -> Counts:
    """Return the counts of the reports of all other columns.

    Raises:
        PrivotError: if no other column is reported.
    """
    schema, joint, names = counts.schema, counts.randomizer.joint, {*counts.schema.words}
    assert joint is not None
    if names == {*schema.columns}:
        raise PrivotError(
            f"columns {[*names]} are words that nobody listed, and the only columns: find the frequent "
            "ones by `privot schema new --pilot RELEASE`, and fit later people's reports"
        )
    old = joint.design
    codings = {name: sizes for name, sizes in old.codings.items() if name not in names}
    places = {old.columns.index(name): place for place, name in enumerate(codings)}
    numbers = [number for number, form in enumerate(old.forms) if {*form} <= {*places}]
    forms = tuple(tuple(places[i] for i in old.forms[number]) for number in numbers)
    design = FormDesign(codings, forms, tuple(old.weights[number] for number in numbers))
    parts: dict[Key, list[Counted]] = {}
    for (sheet,), counted in counts.groups.items():
        form, view = divmod(sheet, old.views)
        if form in numbers:
            key = (numbers.index(form) * design.views + view % design.views,)
            parts.setdefault(key, []).append(counted)
    declared = {name: column for name, column in schema.declared.items() if name not in names}
    fields = {"unit": schema.unit, "rules": schema.rules, "promise": schema.promise}
    randomizer = Randomizer(
        Schema.from_dict(fields | {"columns": declared}),
        {},
        joint=JointReport(design, joint.epsilon),
    )
    groups = {key: Counted.sum(group) for key, group in parts.items()}
    return replace(counts, randomizer=randomizer, groups=groups)
