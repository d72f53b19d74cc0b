"""What a check found, in words."""

from privot.evaluation.checking import PairCheck, _judge_agreement, _judge_dependence, _judge_pairs


def pair(first, second, error=0.01, dependence=0.1, p_value=0.5, contradicted=False):
    return PairCheck(first, second, 100, error, dependence, p_value, contradicted)


def test_pairs_in_words():
    found = _judge_pairs(
        [pair("a", "b"), pair("a", "c", error=0.2), pair("b", "c", contradicted=True)]
    )
    assert found.grade == "poor"
    assert "1 of 3 within 3.3 %" in found.words
    assert found.words.endswith("not: a × c, b × c")


def test_independence_in_words():
    none = _judge_dependence([pair("a", "b", dependence=0.0)])
    assert "the reports show no dependence" in none.words
    assert none.grade == "unknown"
    unseen = _judge_dependence([pair("a", "b", p_value=None)])
    assert "no report covers two columns together" in unseen.words
    some = _judge_dependence([pair("a", "b", p_value=None), pair("a", "c")])
    assert some.words.endswith("no report covers a × b")
    assert some.grade == "good"


def test_contradictions_in_words():
    found = _judge_agreement([], [pair("a", "b", contradicted=True)])
    assert found.grade == "poor"
    assert found.words == "they contradict a × b: do not rely on it"
    assert _judge_agreement([], [pair("a", "b")]).grade == "good"
