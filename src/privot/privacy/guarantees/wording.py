"""Guarantees in plain words, for people who decide on the strength of them.

A pure promise bounds odds: whoever sees the output can multiply their odds between two values of what
is protected by at most e^ε (Bayes' rule: posterior odds are prior odds times the likelihood ratio, and
the ratio is bounded). A local report is drawn from one record alone, and what is computed from a report
tells no more of the record than the report. What a curator computes depends on all records: there the
ratio is bounded between two data sets that differ in one of them, and so the odds are of somebody who
knows all others. What other people's records tell about a person, as by a correlation, is not bounded.

A δ > 0 does **not** mean "the promise fails with probability δ": it is the slack added to the
probability of every set of outcomes. A mechanism that publishes each record outright with chance δ
satisfies it, and so does one in which nothing as bad ever happens; the sentence must fit both.

**What is covered** are the releases that the guarantee was computed for, and whatever is made of them:
nothing else that a curator publishes. Two runs on the same records are two sets of releases, and
compose.
"""

from privot.privacy.guarantees.figures import at_most, odds_factor

_WHO_SEES = {
    "local": "whoever sees one {unit}'s report",
    "replace_one": (
        "whoever sees everything computed from these releases, and knows every other record,"
    ),
    "zero_out": (
        "whoever sees everything computed from these releases, and knows every other record,"
    ),
    "any": "whoever sees everything computed from these releases",
}

_COMPARED = {
    "local": "any two values of that {unit}'s record",
    "replace_one": "any two values of one {unit}'s record",
    "zero_out": "one {unit}'s record and a blank in its place",
    "any": "any two data sets of any sizes",
}


def odds_sentence(epsilon: float, neighboring: str, unit: str) -> str:
    """Return the meaning of a pure ε."""
    who, compared = (words[neighboring].format(unit=unit) for words in (_WHO_SEES, _COMPARED))
    return (
        f"{who[0].upper()}{who[1:]} can change their odds between {compared} by a factor of at most "
        f"{odds_factor(epsilon)}. {coverage(neighboring, unit, 'ε')}"
    )


def additive_sentence(epsilon: float, delta: float, neighboring: str, unit: str) -> str:
    """Return the meaning of (ε, δ), with δ as what it is: slack added to every probability."""
    who, compared = (words[neighboring].format(unit=unit) for words in (_WHO_SEES, _COMPARED))
    added = at_most(delta, 3)
    return (
        f"For {who.removesuffix(',')}: between {compared}, the probability of any set of outcomes "
        f"changes by a factor of at most {odds_factor(epsilon)} plus {added}. The added {added} bounds "
        "how much probability exceeds the factor, over all outcomes together, and says nothing about "
        f"how bad those are. {coverage(neighboring, unit, 'ε and δ')}"
    )


def coverage(neighboring: str, unit: str, losses: str) -> str:
    """Return who is trusted, what is covered, and that anything else of the same `unit` adds up."""
    if neighboring == "local":
        return (
            "What is computed from the report tells no more than the report, and this holds against "
            f"the curator too, who only ever sees that. Another report of the same {unit} is not "
            f"covered: the {losses} of both add up."
        )
    return (
        "The curator, who holds the records, is trusted. Other releases from the same records, such "
        f"as those of a second run, are not covered: the {losses} of both add up."
    )
