"""Exact laws of what a device draws: every outcome of every word, followed to its end."""

from collections import defaultdict
from fractions import Fraction

from privot.wire.draws import WORDS

# Where fewer than 2^14 of all words lead, a word is drawn again: exactly as if it had not been drawn.
AGAIN = 2**14


class Word:
    """A uniform integer from `low` to below `high`, known no further than what was asked of it."""

    def __init__(self, path):
        self.path, self.low, self.high = path, 0, WORDS

    def __ge__(self, bound):
        bound = min(max(bound, self.low), self.high)
        if self.path.follow([self.high - bound, bound - self.low]) == 0:
            self.low = bound
            return True
        self.high = bound
        return False

    def __lt__(self, bound):
        return not self >= bound

    def __mod__(self, bound):
        assert self.low == 0
        assert self.high % bound == 0
        return self.path.follow([1] * bound)

    def __floordiv__(self, step):
        whole, rest = divmod(WORDS, step)
        assert whole < 2**12, f"a word in parts of {step} words has too many parts to follow each"
        return self.path.follow([step] * whole + [rest])

    def to_bytes(self, length, order):
        return bytes(length)


class Path:
    """One way through all draws: those of `given` first, then the first of each that is open."""

    def __init__(self, given):
        self.given, self.taken, self.probability, self.others = given, [], Fraction(1), []

    def __call__(self):
        return Word(self)

    def follow(self, parts):
        """The number of the part, of so many words each, that this way takes."""
        total, at = sum(parts), len(self.taken)
        if at < len(self.given):
            part = self.given[at]
        else:
            likely = [i for i, words in enumerate(parts) if words * WORDS > AGAIN * total]
            part = likely[0]
            self.others += [[*self.taken, other] for other in likely[1:]]
        self.taken.append(part)
        self.probability *= Fraction(parts[part], total)
        return part


def law_of(draw):
    """Probability of everything that `draw(word)` returns; lists as tuples."""
    law, left = defaultdict(Fraction), [[]]
    while left:
        path = Path(left.pop())
        drawn = draw(path)
        law[tuple(drawn) if isinstance(drawn, list) else drawn] += path.probability
        left += path.others
    assert abs(1 - sum(law.values())) < 2**-40
    return law
