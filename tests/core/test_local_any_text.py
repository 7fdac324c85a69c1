"""SpacyOpenIE reads any text at all: to its end, in linear time, alike each time."""

from __future__ import annotations

import copy
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hippo_core.types import Status, Triple

spacy = pytest.importorskip("spacy", reason="spaCy is missing: pip install 'hippo-core[local]'")

from hippo_core.local import SpacyOpenIE  # noqa: E402
from hippo_core.local.spacy_openie import MODELS  # noqa: E402

if not any(spacy.util.is_package(name) for name in MODELS):
    pytest.skip(
        "spaCy's English model is missing: pip install 'hippo-core[local]'", allow_module_level=True
    )

READER = SpacyOpenIE()  # loading takes a second; nothing changes it

TEXT = (
    "Erik Satie was a French composer who lived in Arcueil. His friend Claude Debussy, a pianist,"
    " admired him. In 1902 they founded a journal, which was printed in Paris by two brothers."
)


def test_status_says_whether_a_triple_was_found() -> None:
    assert READER.extract("Bern lies in Switzerland.").status is Status.OK
    for text in ("", "   \n ", "Oh no!", "🦛🦛", "北京大学成立于1898年。"):
        extraction = READER.extract(text)
        assert extraction.triples or extraction.status is Status.EMPTY


def test_a_text_of_any_length_is_read_to_its_end() -> None:
    filler = "Nothing of note happened there for many years. " * 3_000
    text = f"{filler}Clara Haskil was born in Bucharest."
    assert len(text) > 100_000
    assert ("Clara Haskil", "was born in", "Bucharest") in READER.extract(text).triples


@pytest.mark.parametrize(
    "junk",
    ["(" * 5_000, ")" * 5_000, "a.b" * 5_000, "\n" * 5_000, '"' * 5_000, "A-" * 5_000]
    + ["😀 " * 2_000, "\ud800\udfff\x00 is \x1b[0m", "<a href='x'>" * 2_000, "He is. " * 1_000],
    ids=["open", "close", "dots", "lines", "quotes", "hyphens"]
    + ["emoji", "surrogates", "markup", "pronouns"],
)
def test_junk_is_read_without_complaint(junk: str) -> None:
    assert READER.extract(junk).status.finished


WORDS = st.sampled_from(
    "the a Marie Curie of in is was founded by and , . who which that it he his 's - ( ) born 1867"
    ' " Paris University journal one there to be \n Inc. first city'.split(" ")
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=60).map(" ".join)))
def test_any_text_gives_whole_triples(text: str) -> None:
    extraction = READER.extract(text)
    assert extraction.status.finished
    assert len(set(extraction.triples)) == len(extraction.triples)
    for triple in extraction.triples:
        assert len(triple) == 3
        assert all(field.strip() for field in triple)
    assert all(isinstance(entity, str) for entity in READER.query_entities(text))


def test_words_of_a_name_that_hang_on_each_other_by_words_outside_are_read() -> None:
    # "Brook falls is 1,140m": the parser hangs one word of the name on another, by a third.
    text = (
        "Brook Falls is a waterfall in Norway. Altitude of Brook falls is 1,140m above sea level."
    )
    read = READER.extract(f"Brook Falls\n{text}")
    assert Triple("Brook Falls", "is waterfall in", "Norway") in read.triples


def test_reading_is_deterministic_also_in_threads() -> None:
    texts = [f"{TEXT} {word} is a river in {word}." for word in ("Oder", "Elbe", "Main", "Ruhr")]
    expected = [READER.extract(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(READER.extract, texts)) == expected
    assert [READER.extract(text) for text in reversed(texts)] == expected[::-1]


def test_a_copy_reads_the_same() -> None:
    text = "Clara Haskil was born in Bucharest."
    other = copy.deepcopy(READER)
    assert other.extract(text) == READER.extract(text)
    assert other.fingerprint == READER.fingerprint


def test_time_grows_with_the_text_and_no_faster() -> None:
    def seconds(times: int) -> float:
        started = time.process_time()
        READER.extract(f"{TEXT} " * times)
        return time.process_time() - started

    seconds(20)  # what is loaded late is no part of it
    once = min(seconds(50) for _ in range(2))
    assert seconds(400) < 3 * 8 * once


@pytest.mark.parametrize(
    "text",
    [
        "👩‍🔬 met 👨‍🚀 in 🏙️.",
        "東京は日本の首都です。京都は古い都です。",
        "\x00\x01\x02 Ada\x07 met\x1b Bob.\x7f",
    ]
    + ["مكتبة الإسكندرية", "a\u0301" * 500, "\u202eevil\u202c text", "\r\r\n\v\f"],
    ids=["emoji", "cjk", "control", "right to left", "combining", "overrides", "breaks"],
)
def test_any_script_is_read_alike_each_time(text: str) -> None:
    assert READER.extract(text) == READER.extract(text)
    assert READER.query_entities(text) == READER.query_entities(text)
