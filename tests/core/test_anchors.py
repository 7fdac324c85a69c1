"""Anchors: the phrases of the graph that stand in a question, in every script, and no others."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hippo_core import Extraction, HippoConfig, HippoRAG, Passage, index
from hippo_core import anchors as module
from hippo_core.anchors import MOST_WORDS, STOP_WORDS, PhraseLookup, find_anchors
from hippo_core.testing import HashEmbedder
from hippo_core.text import checksum, normalise_phrase

SAME_CRC32 = ("plumless", "buckeroo")


def lookup_of(phrases, aliases=(), checksum_=checksum):
    sums = np.array([checksum_(p) for p in phrases], dtype=np.int64)
    return PhraseLookup(phrases, sums, aliases)


def anchors(query, *phrases):
    """Find which of the phrases, as they are written, stand in a query."""
    keys = [normalise_phrase(phrase) for phrase in phrases]
    assert all(keys)
    return [phrases[i] for i in find_anchors(query, lookup_of(keys))]


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


# -- the lookup is a dict --------------------------------------------------------------------------

CHECKSUMS = {
    "as it is": checksum,
    "length": len,
    "one for all": lambda _text: 7,
    "negative": lambda text: -len(text),
}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
keys = st.one_of(texts, st.sampled_from(SAME_CRC32))


@given(
    phrases=st.lists(keys, max_size=12, unique=True),
    asked=st.lists(keys, max_size=8),
    kind=st.sampled_from([*CHECKSUMS]),
    data=st.data(),
)
@examples(200)
def test_a_lookup_finds_what_a_dict_finds(phrases, asked, kind, data):
    asked = asked + data.draw(st.lists(st.sampled_from(phrases or [""]), max_size=8))
    expected = {phrase: i for i, phrase in enumerate(phrases)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "checksum", CHECKSUMS[kind])
        lookup = lookup_of(phrases, checksum_=CHECKSUMS[kind])
        assert lookup.find(asked) == [expected.get(text) for text in asked]
        assert lookup.find([]) == []


def test_two_phrases_of_one_checksum_are_told_apart():
    one, other = SAME_CRC32
    assert checksum(one) == checksum(other)
    assert lookup_of([one, "x", other]).find([other, one]) == [2, 0]
    assert lookup_of([one]).find([other]) == [None]


@given(
    phrases=st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True),
    groups=st.lists(st.sampled_from("abcdefghxyz"), max_size=9, unique=True),
    cut=st.integers(2, 5),
)
@examples(100)
def test_an_alias_is_found_as_the_first_of_its_group_that_is_there(phrases, groups, cut):
    aliases = [groups[i : i + cut] for i in range(0, len(groups), cut)]
    position = {phrase: i for i, phrase in enumerate(phrases)}
    expected = dict(position)
    for group in aliases:
        there = [position[phrase] for phrase in group if phrase in position]
        if there:
            expected.update(dict.fromkeys(group, there[0]))
    asked = list("abcdefghxyzq")
    assert lookup_of(phrases, aliases).find(asked) == [expected.get(text) for text in asked]


# -- a script with spaces --------------------------------------------------------------------------

WORDS = [
    "ada",
    "bridge",
    "of",
    "the",
    "is",
    "ab",
    "x",
    "u2",
    "c++",
    "7",
    "42",
    "1815",
    "süd",
    "λέξη",
]
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
questions = st.lists(st.one_of(st.sampled_from(WORDS), names), max_size=12).map(" ".join)


def tells(words):
    """Whether words may be an anchor, as the docstring says."""
    if all(word in STOP_WORDS for word in words):
        return False
    if len(words) > 1 or len(words[0]) > 2:
        return True
    (word,) = words
    return len(word) == 2 and not word.isalpha() and not word.isdigit()


def slow_anchors(query, phrases):
    """Take the longest stretch that is a phrase, the leftmost first, until there is none."""
    words, free, found = query.split(), set(range(len(query.split()))), {}
    for n in range(MOST_WORDS, 0, -1):
        for start in range(len(words) - n + 1):
            place = range(start, start + n)
            phrase = words[start : start + n]
            if free.issuperset(place) and " ".join(phrase) in phrases and tells(phrase):
                free -= set(place)
                found[start] = " ".join(phrase)
    return [*dict.fromkeys(found[start] for start in sorted(found))]


@given(query=questions, phrases=st.lists(names, max_size=8, unique=True))
@examples(400)
@example("ada bridge ada", ["ada bridge", "bridge ada", "ada"])
@example("of the bridge", ["of the", "the bridge", "bridge"])
def test_anchors_are_the_longest_phrases_that_stand_in_a_question(query, phrases):
    found = find_anchors(query, lookup_of(phrases))
    assert [phrases[i] for i in found] == slow_anchors(query, phrases)


@given(
    words=st.lists(st.sampled_from(["ada", "bridge", "quint"]), min_size=1, max_size=12),
    n=st.integers(1, 12),
)
@examples(60)
def test_a_phrase_of_up_to_eight_words_is_found(words, n):
    long = [f"w{i}w" for i in range(n)]
    found = anchors(" ".join([*words, *long, *words]), " ".join(long))
    assert bool(found) == (n <= 8)


def test_an_apostrophe_makes_two_words_of_one():
    names = ["O'Brien and sons of Cork city hall", "O'Brien and sons of Cork city town hall"]
    assert anchors(f"Where is {names[0]}?", *names) == names[:1]
    assert anchors(f"Where is {names[1]}?", *names) == []


@given(query=questions, phrases=st.lists(names, max_size=8, unique=True), data=st.data())
@examples(100)
def test_the_order_of_the_phrases_is_of_no_matter(query, phrases, data):
    other = data.draw(st.permutations(phrases))
    some = [phrases[i] for i in find_anchors(query, lookup_of(phrases))]
    assert some == [other[i] for i in find_anchors(query, lookup_of(other))]


# -- a script without spaces -----------------------------------------------------------------------

HAN = "東京大学部"


def slow_unspaced(query, phrases):
    """The same of characters: from two to 24."""
    free, found = set(range(len(query))), {}
    for n in range(24, 1, -1):
        for start in range(len(query) - n + 1):
            place, phrase = range(start, start + n), query[start : start + n]
            if free.issuperset(place) and phrase in phrases:
                free -= set(place)
                found[start] = phrase
    return [*dict.fromkeys(found[start] for start in sorted(found))]


@given(
    query=st.text(HAN, min_size=1, max_size=30),
    phrases=st.lists(st.text(HAN, min_size=1, max_size=4), max_size=8, unique=True),
)
@examples(200)
@example("東" * 30, ["東" * 24, "東" * 25, "東"])
def test_in_an_unspaced_script_a_phrase_may_stand_anywhere(query, phrases):
    found = find_anchors(query, lookup_of(phrases))
    assert [phrases[i] for i in found] == slow_unspaced(query, phrases)


# -- examples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "phrases", "found"),
    [
        # Latin, Cyrillic, Greek, Arabic, Hebrew, Devanagari: words between spaces
        ("Who built the Clifton Suspension Bridge?", ["Clifton Suspension Bridge", "bridge"], [0]),
        ("Где родилась Анна Ахматова?", ["Анна Ахматова", "Анна", "родил"], [0]),
        ("Πού γεννήθηκε ο ΣΊΣΥΦΟΣ;", ["Σίσυφος", "γεννή"], [0]),
        ("أين ولد ابن سينا؟", ["ابن سينا", "سين"], [0]),
        ("איפה נולד דוד בן־גוריון?", ["דוד בן גוריון", "דוד"], [0]),
        ("महात्मा गांधी का जन्म कहाँ हुआ?", ["महात्मा गांधी", "गांधी", "का"], [0]),
        ("गांधी का जन्म", ["गांधी", "का", "जन"], [0]),
        # Chinese, Japanese, Thai: anywhere, but not inside of a character
        ("清华大学的校长是谁？", ["清华大学", "大学", "校长", "清"], [0, 2]),
        ("東京タワーはどこにありますか", ["東京タワー", "タワー", "東"], [0]),
        ("ひらがなのさくら", ["さくら", "ひらがな"], [1, 0]),
        ("ｶﾞﾝﾀﾞﾑの作者", ["ガンダム", "作者"], [0, 1]),
        ("ประเทศไทยมีกรุงเทพเป็นเมืองหลวง", ["กรุงเทพ", "ประเทศไทย"], [1, 0]),
        ("ที่นี่", ["ที่", "ที"], []),  # one character and its signs; and not of a part of it
        ("ป้ายที่นี่", ["ป้า"], [0]),
        ("ซื้อที่ABCไหม", ["ABC", "ไหม"], [0, 1]),
        ("𠮷野家はどこ", ["𠮷野家", "野家"], [0]),
        ("𠀀𠀁𠀂", ["𠀁𠀂", "𠀀"], [0]),  # beyond the basic plane
        # Korean: words between spaces, before a particle too
        ("서울대학교에서 누가 공부했나", ["서울대학교", "서울", "대학교"], [0]),
        ("김소월은 서울에 살았다", ["김소월", "서울", "소월", "월은"], [0, 1]),
        ("김소월은", ["소월", "소월은"], []),  # it begins with a word
        ("한국 은행은", ["한국 은행", "은행"], [0]),
        ("왕은", ["왕"], []),  # one syllable
        # mixed
        ("谁创办了ABC公司?", ["ABC公司", "公司", "abc"], [0]),
        ("谁创办了ABC公司?", ["公司", "ABC"], [1, 0]),
        ("ＡＢＣ公司在哪里", ["abc公司"], [0]),
        ("什么是A股", ["A股", "股"], [0]),
        ("NASA는 언제", ["NASA"], [0]),
        ("2024年の東京", ["2024", "東京", "2024年"], [2, 1]),
        # an apostrophe ends a word, and is part of one
        ("What is Ada's engine?", ["Ada", "engine"], [0, 1]),
        ("What is Ada’s engine?", ["Ada", "Ada's engine"], [1]),
        ("Is it Ada's?", ["Ada", "Ada's", "s"], [1]),
        ("What are the Curies' prizes?", ["Curies", "prizes"], [0, 1]),
        ("Où est l'Arc de Triomphe d’Étoile?", ["Arc de Triomphe", "Étoile", "l"], [0, 1]),
        ("Did O'Brien meet O’Brien's son?", ["O'Brien", "Brien"], [0]),
        ("Who is Jeanne d'Arc?", ["Jeanne d'Arc", "Arc", "Jeanne"], [0]),
        # names with signs, and numbers
        ("Is C++ older than C#?", ["C++", "C#", "C"], [0, 1]),
        ("Who wrote .NET?", [".NET", "NET"], [0]),
        ("When did U2 begin?", ["U2"], [0]),
        ("What has 3.14 of 1,000 in 1915.", ["3.14", "1,000", "1915", "3", "000"], [0, 1, 2]),
        ("In 42 BC?", ["42", "BC"], []),
        ("a-b, U.S. or S.", ["U.S.", "a b", "s"], [1, 0]),
        ("€ or 🦛?", ["€", "🦛"], []),  # one character
        # case, width, accents composed or not, invisible characters
        ("WHO WAS STRASSE 7?", ["Straße 7"], [0]),
        ("who was ＡＤＡ", ["Ada"], [0]),
        ("Cafe\u0301 Ada", ["Café Ada"], [0]),
        ("so\u00adft Ada", ["soft"], [0]),
        # stop words, also several; but not where more stands beside them
        ("Who is the king of it?", ["Who", "the", "of it", "king of it"], [3]),
        ("Is The Who of the who?", ["The Who", "of the"], []),
        # once, where it stands first
        ("Ada and Bob and ADA", ["Bob", "Ada"], [1, 0]),
        ("", ["Ada"], []),
        ("?!", ["Ada"], []),
        ("Ada", ["Adam", "ad", "da"], []),
    ],
)
def test_a_phrase_is_found_as_it_is_written_in_its_script(query, phrases, found):
    assert anchors(query, *phrases) == [phrases[i] for i in found]


def test_of_two_phrases_of_as_many_words_that_overlap_the_first_is_taken():
    assert anchors("new york city hall", "york city", "new york", "city hall") == [
        "new york",
        "city hall",
    ]


# -- work ------------------------------------------------------------------------------------------


def scripts(n):
    chooser = random.Random(5)
    return {
        "words": " ".join(chooser.choices(["ada", "bridge", "of", "x1y"], k=n)),
        "characters": "".join(chooser.choices("東京大学的", k=n)),
        "syllables": "".join(chooser.choices("서울대학", k=n)),
        "apostrophes": "'".join(chooser.choices("abc", k=n)),
        "apostrophes between characters": "'".join(chooser.choices("東京", k=n)),
        "one word": "x" * n,
        "marks": "ก" + "่" * n,
    }


class Counting(PhraseLookup):
    """Counts what is looked up, and how long it is."""

    def __init__(self):
        super().__init__(["ada bridge"], np.array([checksum("ada bridge")]))
        self.texts = self.characters = 0

    def find(self, texts):
        self.texts += len(texts)
        self.characters += sum(map(len, texts))
        return super().find(texts)


@pytest.mark.parametrize("kind", scripts(1))
def test_the_work_grows_with_the_question_and_no_faster(kind):
    counted = []
    for n in (2_500, 5_000):
        lookup = Counting()
        find_anchors(scripts(n)[kind], lookup)
        counted.append((lookup.texts, lookup.characters))
    for one, other in zip(*counted, strict=True):
        assert other <= 2.1 * one
    assert counted[1][0] <= 5_000 * 48  # with an apostrophe after each of 24 characters


def test_a_word_is_not_compared_with_the_rest_of_the_question():
    """As many pieces are read for each word of a long question as of a short one."""

    class Pieces(list):
        read = 0

        def __getitem__(self, place):
            part = super().__getitem__(place)
            Pieces.read += len(part) if isinstance(place, slice) else 1
            return part

    def read(n):
        Pieces.read = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "list", Pieces, raising=False)
            find_anchors(scripts(n)["words"], Counting())
        return Pieces.read

    assert 0 < read(2_000) <= 2.1 * read(1_000)


# -- anchors follow the memory ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small_memories_are_kept(monkeypatch):
    monkeypatch.setattr(index, "WORTH_KEEPING", 1)


def told(id_, *triples, **passage):
    return Passage(f"Text {id_}.", id=id_, **passage), Extraction(triples=triples)


QUESTION = "Did Ada Lovelace meet Babbage in 京都?"
ADA = told("a", ("Ada Lovelace", "wrote", "notes"), metadata={"open": True})
BABBAGE = told("b", ("Charles", "is", "Babbage"), metadata={"open": False})
KYOTO = told("k", ("京都", "is in", "Japan"), metadata={"open": True})


def seen(memory, **how):
    return memory.retrieve(QUESTION, **how).anchors


def test_anchors_follow_add_update_and_delete(open_memory):
    memory = open_memory()
    memory.add_extracted([told("x", ("other", "is", "else"))])
    assert seen(memory) == ()
    memory.add_extracted([BABBAGE])
    assert seen(memory) == ("Babbage",)
    memory.add_extracted([ADA, KYOTO])
    assert seen(memory) == ("Ada Lovelace", "Babbage", "京都")
    memory.add_extracted([told("a", ("Ada", "wrote", "notes"))])  # the same id
    assert seen(memory) == ("Ada", "Babbage", "京都")
    memory.delete(["k"])
    assert seen(memory) == ("Ada", "Babbage")
    memory.delete(["a", "b"])
    assert seen(memory) == ()


def test_a_phrase_stays_an_anchor_while_a_passage_holds_it(open_memory):
    memory = open_memory()
    memory.add_extracted([ADA, told("a2", ("ADA LOVELACE", "is", "here"))])
    memory.delete(["a"])
    assert seen(memory) == ("ADA LOVELACE",)  # as it is written now


def test_a_phrase_of_a_hidden_passage_is_no_anchor(open_memory):
    memory = open_memory()
    memory.add_extracted([ADA, BABBAGE, KYOTO, told("l", ("Lovelace", "is", "x"))])
    assert seen(memory) == ("Ada Lovelace", "Babbage", "京都")
    assert seen(memory, where={"open": True}) == ("Ada Lovelace", "京都")
    assert seen(memory, where={"open": False}) == ("Babbage",)
    # What the hidden phrase covered is free.
    assert seen(memory, where=lambda m: "open" not in m) == ("Lovelace",)
    assert seen(memory, where=lambda _: False) == ()


def test_an_alias_in_the_question_is_the_phrase_that_stands_for_it(open_memory):
    memory = open_memory()
    memory.add_extracted([ADA, told("c", ("Countess of Lovelace", "is", "x"))])
    memory.aliases = [["Countess of Lovelace", "Enchantress of Numbers", "Ada Lovelace"]]
    ask = memory.retrieve
    both = "Ada Lovelace, the Countess of Lovelace"
    for name in ("Enchantress of Numbers", "Countess of Lovelace", "Ada Lovelace", both):
        assert ask(f"Who was {name} with notes?").anchors == ("Ada Lovelace", "notes")
    assert ask(both, where={"open": True}).anchors == ("Ada Lovelace",)
    assert ask("Enchantress of Numbers", where={"open": True}).anchors == ("Ada Lovelace",)
    memory.aliases = []
    assert ask("Enchantress of Numbers").anchors == ()
    assert len(ask(both).anchors) == 2


def test_anchors_are_the_same_from_mapped_files(tmp_path):
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as memory:
        memory.add_extracted([ADA, BABBAGE, KYOTO])
        before = seen(memory), seen(memory, where={"open": True})
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as again:
        assert (seen(again), seen(again, where={"open": True})) == before
        again.delete(["a"])
        again.add_extracted([told("l", ("Lovelace", "is", "x"))])
        assert seen(again) == ("Lovelace", "Babbage", "京都")
    assert before[0] == ("Ada Lovelace", "Babbage", "京都")


@pytest.mark.sqlite
def test_the_checksums_that_find_anchors_are_read_from_the_files(tmp_path):
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as memory:
        memory.add_extracted([ADA, BABBAGE, KYOTO])
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as again:
        again._index.snapshot()
        assert again._index._mapped is not None
        assert len(seen(again)) == 3


OTHER_PROCESS = """
import json, sys
from hippo_core import Extraction, HippoRAG, Passage
from hippo_core.testing import HashEmbedder

with HippoRAG(None, HashEmbedder(), store=sys.argv[1]) as memory:
    memory.delete(["b"])
    told = Extraction(triples=[("Lovelace", "met", "Babbage in Kyoto"), ("Ada", "is", "x")])
    memory.add_extracted([(Passage("New.", id="n"), told)])
    print(json.dumps(memory.retrieve(sys.argv[2]).anchors))
"""


def test_anchors_follow_what_another_process_changes(store_location):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with HippoRAG(None, HashEmbedder(), store=store_location) as memory:
        memory.add_extracted([BABBAGE])
        assert seen(memory) == ("Babbage",)
        done = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS, str(store_location), QUESTION],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert seen(memory) == ("Ada", "Lovelace") == tuple(json.loads(done.stdout))


@pytest.mark.parametrize("weights", [{"anchor_weight": 0.6}, {"meeting_weight": 0.2}, {}])
def test_anchors_are_looked_for_only_where_they_count(weights, open_memory):
    memory = open_memory()
    memory.add_extracted([ADA, BABBAGE])
    config = HippoConfig.hipporag2(**weights)
    assert bool(seen(memory, config=config)) == bool(weights)
