"""Measures of answers as the papers have them: exact match and F1, after normalisation."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

from hippo_core.errors import InputError
from hippo_core.evaluation.questions import AnswerRule

_PUNCTUATION = str.maketrans("", "", string.punctuation)  # of ASCII, as everywhere
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_VERDICTS = frozenset(("yes", "no", "noanswer"))


def normalise_answer(text: str) -> str:
    """Give an answer as SQuAD compares it, and with it MuSiQue, 2WikiMultiHopQA and HotpotQA.

    Lower case, no ASCII punctuation, no English articles, single spaces.

    >>> normalise_answer("The  U.S.  Senate!")
    'us senate'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Iterable[str]) -> float:
    """Give 1 if the answer equals one of those accepted, after normalisation; no variants differ.

    HotpotQA and 2WikiMultiHopQA have one answer to a question and MuSiQue has aliases: an answer
    counts as the best of all that are accepted.

    Raises:
        InputError: No answer is accepted.

    >>> exact_match("the Danube.", ["Ister", "Danube"])
    1.0
    """
    given = normalise_answer(answer)
    return float(any(given == normalise_answer(right) for right in _checked(accepted)))


def f1(answer: str, accepted: Iterable[str], *, rule: AnswerRule = "musique") -> float:
    """Give the F1 of the answer's words, after normalisation, with the best of those accepted.

    Words count as often as they are there. Where both sides have none, such as "The", F1 is 1, and
    so never below exact match; HippoRAG 2's own code gives 0 there.

    Args:
        answer: What a reader answered.
        accepted: The answer and its aliases.
        rule: `musique`: as above; SQuAD, MuSiQue and HippoRAG 2, the last for all its data sets.
            `hotpotqa`: besides, "yes", "no" and "noanswer" match only themselves, so that "no, in
            Rome" is not half a "no"; HotpotQA, 2WikiMultiHopQA, and HippoRAG on both.

    Raises:
        InputError: No answer is accepted.

    >>> f1("in the city of Ghent", ["Ghent"])
    0.4
    >>> f1("no, in Rome", ["no"]), f1("no, in Rome", ["no"], rule="hotpotqa")
    (0.5, 0.0)
    """
    given = normalise_answer(answer)
    return max(_f1(given, normalise_answer(right), rule) for right in _checked(accepted))


def _f1(given: str, right: str, rule: AnswerRule) -> float:
    if given == right:
        return 1.0
    if rule == "hotpotqa" and not _VERDICTS.isdisjoint((given, right)):
        return 0.0
    ours, theirs = given.split(), right.split()
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs))


def _checked(accepted: Iterable[str]) -> list[str]:
    answers = [accepted] if isinstance(accepted, str) else list(accepted)
    if not answers:
        raise InputError("there is no accepted answer to compare with")
    return answers
