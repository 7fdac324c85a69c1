"""In every language a name is a node of its own, and a question finds its way over the graph."""

import json
import os
import subprocess
import sys
import unicodedata
import zlib
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from hippo_core import Edge, Extraction, HippoConfig, HippoRAG, InputError, Passage
from hippo_core.testing import HashEmbedder
from hippo_core.text import normalise_phrase

ROOT = Path(__file__).parents[2]


class NGrams:
    """Embeds a text as its runs of one to three characters, whatever its script."""

    name = "n-grams"
    one_query_encoding = True

    def embed(self, texts, kind):
        rows = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            plain = unicodedata.normalize("NFKC", text).casefold()
            for n in (1, 2, 3):
                for i in range(len(plain) - n + 1):
                    row[zlib.crc32(plain[i : i + n].encode()) % 512] += n
            row /= max(1e-9, float(np.linalg.norm(row)))
        return rows

    async def aembed(self, texts, kind):
        return self.embed(texts, kind)


class Case(NamedTuple):
    """Two passages, a question that names what the first is about, and its anchor, if any."""

    first: str
    stated: tuple[str, str, str]
    second: str
    leads_to: tuple[str, str, str]
    question: str
    anchor: str | None


CASES = {
    "Chinese": Case(
        "东京是日本的首都。", ("东京", "是首都", "日本"),
        "日本位于亚洲东部。", ("日本", "位于", "亚洲东部"),
        "东京是哪个国家的首都？", "东京",
    ),
    "Chinese, traditional": Case(
        "臺北是臺灣最大的都會。", ("臺北", "是", "臺灣最大的都會"),
        "臺灣最大的都會人口眾多。", ("臺灣最大的都會", "有", "七百萬人"),
        "臺北是哪裡最大的都會？", "臺北",
    ),
    "Japanese": Case(
        "大阪は商人の町です。", ("大阪", "は", "商人の町"),
        "商人の町にはたこ焼きがあります。", ("商人の町", "ある", "たこ焼き"),
        "大阪はどんな町ですか", "大阪",
    ),
    "Korean": Case(
        "서울은 대한민국의 수도이다.", ("서울", "수도", "대한민국"),
        "대한민국은 반도에 있다.", ("대한민국", "있다", "반도"),
        "서울은 어느 나라의 수도인가?", "서울",
    ),
    "Russian": Case(
        "Москва — столица России.", ("Москва", "столица", "Россия"),
        "Россия граничит с Монголией.", ("Россия", "граничит с", "Монголия"),
        "Столицей какой страны является Москва?", "Москва",
    ),
    "Arabic": Case(
        "القاهرة عاصمة مصر.", ("القاهرة", "عاصمة", "مصر"),
        "مصر يجري فيها النيل.", ("مصر", "يجري فيها", "النيل"),
        "ما هي الدولة التي عاصمتها القاهرة؟", "القاهرة",
    ),
    "Arabic, with a clitic": Case(
        "الخرطوم عاصمة السودان.", ("الخرطوم", "عاصمة", "السودان"),
        "السودان غني بالذهب.", ("السودان", "غني", "بالذهب"),
        "والخرطوم عاصمة أي دولة؟", None,
    ),
    "Hebrew": Case(
        "בן גוריון נולד בפלונסק.", ("בן גוריון", "נולד ב", "פלונסק"),
        "פלונסק נמצאת בפולין.", ("פלונסק", "נמצאת ב", "פולין"),
        "היכן נולד בן־גוריון?", "בן גוריון",
    ),
    "Hindi": Case(
        "दिल्ली भारत की राजधानी है।", ("दिल्ली", "राजधानी", "भारत"),
        "भारत एशिया में है।", ("भारत", "में है", "एशिया"),
        "दिल्ली किस देश की राजधानी है?", "दिल्ली",
    ),
    "Thai": Case(
        "กรุงเทพเป็นเมืองหลวงของไทย", ("กรุงเทพ", "เป็นเมืองหลวงของ", "ประเทศไทย"),
        "ประเทศไทยมีช้าง", ("ประเทศไทย", "มี", "ช้าง"),
        "กรุงเทพเป็นเมืองหลวงของประเทศใด", "กรุงเทพ",
    ),
    "Greek, with a final sigma": Case(
        "Ο Οδυσσεύς βασίλευε στην Ιθάκη.", ("Οδυσσεύς", "βασίλευε", "Ιθάκη"),
        "Η Ιθάκη είναι νησί του Ιονίου.", ("Ιθάκη", "είναι νησί", "Ιόνιο"),
        "ΠΟΥ ΒΑΣΙΛΕΥΕ Ο ΟΔΥΣΣΕΎΣ;", "Οδυσσεύς",
    ),
    "German, with a sharp s": Case(
        "Die Weißstraße führt nach Gießen.", ("Weißstraße", "führt nach", "Gießen"),
        "Gießen liegt an der Lahn.", ("Gießen", "liegt an", "Lahn"),
        "WOHIN FÜHRT DIE WEISSSTRASSE?", "Weißstraße",
    ),
    "Turkish, with a dotted I": Case(
        "İznik çinileri ile ünlüdür.", ("İznik", "ünlüdür", "çini"),
        "Çini kuvarstan yapılır.", ("çini", "yapılır", "kuvars"),
        "iznik ne ile ünlüdür?", "İznik",
    ),
    "French, composed and not": Case(
        "Le Café Zéphyr est à Orléans.", ("Café Zéphyr", "est à", "Orléans"),
        "Orléans est sur la Loire.", ("Orléans", "est sur", "Loire"),
        unicodedata.normalize("NFD", "Où est le café zéphyr ?"), "Café Zéphyr",
    ),
    "Vietnamese": Case(
        "Hà Nội nằm bên sông Hồng.", ("Hà Nội", "nằm bên", "sông Hồng"),
        "Sông Hồng chảy ra vịnh.", ("sông Hồng", "chảy ra", "vịnh"),
        unicodedata.normalize("NFD", "Hà Nội nằm bên sông nào?"), "Hà Nội",
    ),
    "full-width forms": Case(
        "ＡＢＣ商会 sells ｶﾒﾗ.", ("ＡＢＣ商会", "sells", "ｶﾒﾗ"),
        "カメラ needs film.", ("カメラ", "needs", "film"),
        "What does ABC商会 sell?", "ＡＢＣ商会",
    ),
    "emoji": Case(
        "🦛🦛 lives in the 🏞️.", ("🦛🦛", "lives in", "🏞️ park"),
        "The 🏞 park is green.", ("🏞 park", "is", "🟢 green"),
        "Where does 🦛🦛 live?", "🦛🦛",
    ),
    "mathematical symbols": Case(
        "𝛁𝝓 equals ∂ₓφ here.", ("∇φ", "equals", "∂ₓφ"),
        "∂ₓφ vanishes at ∞.", ("∂ₓφ", "vanishes at", "∞ or ∅"),
        "What equals 𝛁𝝓?", "∇φ",
    ),
}  # fmt: skip
each_language = pytest.mark.parametrize("language", CASES)


def texts_and_triples():
    return {
        text: [triple]
        for case in CASES.values()
        for text, triple in ((case.first, case.stated), (case.second, case.leads_to))
    }


@pytest.fixture(scope="module")
def memory(corpora):
    """All languages in one memory, read by a chat model that also judges."""
    with HippoRAG(corpora.Reader(texts_and_triples(), other='{"keep": [1]}'), NGrams()) as memory:
        memory.add([Passage(text, id=text) for text in texts_and_triples()])
        yield memory


def keys_of(case):
    return {normalise_phrase(p) for s, _, o in (case.stated, case.leads_to) for p in (s, o)}


@each_language
def test_each_name_is_a_node_of_its_own(language, memory):
    keys = keys_of(CASES[language])
    assert len(keys) == 3  # the second triple begins where the first ends
    assert "" not in keys
    assert keys <= set(memory._index.snapshot().graph.phrases)


def test_no_two_languages_share_a_node(memory):
    for one, other in combinations(CASES.values(), 2):
        assert not keys_of(one) & keys_of(other)
    assert memory.stats().phrases == 3 * len(CASES)
    assert memory.stats().by_status == {"ok": 2 * len(CASES)}


@each_language
@pytest.mark.parametrize("judged", [True, False])
def test_a_question_reaches_its_passage_over_the_graph_and_the_one_behind_it(
    language, judged, memory
):
    case = CASES[language]
    config = HippoConfig(recognition_memory=judged)
    found = memory.retrieve(case.question, k=4, config=config)
    assert found.path.used_graph
    assert found.passages[0].passage.text == case.first
    assert case.second in [hit.passage.text for hit in found]
    linked = found.triples[0].triple  # as most passages spell it
    assert [*map(normalise_phrase, linked)] == [*map(normalise_phrase, case.stated)]
    assert case.anchor is None or case.anchor in found.anchors


def test_a_name_links_nothing_but_the_passages_that_hold_it(memory):
    found = memory.retrieve("東京", k=1, config=HippoConfig(recognition_memory=False))
    assert not found.anchors  # a memory of 东京 knows no 東京
    found = memory.retrieve("東京 서울", config=HippoConfig(recognition_memory=False))
    assert found.anchors == ("서울",)


# -- one name, many spellings ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spellings",
    [
        ["Electrons", "electrons", "ELECTRONS"],
        ["Café", "Cafe\u0301", "CAFÉ", "ｃａｆé"],
        ["New  York", " new york ", "NEW\u00a0YORK", "New\u3000York", "new-york"],
        ["Straße", "STRASSE", "strasse"],
        ["Οδυσσεύς", "ΟΔΥΣΣΕΎΣ", "οδυσσεύσ"],
        ["İstanbul", "istanbul", "ISTANBUL", "i\u0307stanbul", "I\u0307STANBUL"],
        ["ＡＢＣ", "abc", "𝐀𝐁𝐂", "ⓐⓑⓒ"],
        ["ガンダム", "ｶﾞﾝﾀﾞﾑ", "カ\u3099ンタ\u3099ム"],
        ["한글", unicodedata.normalize("NFD", "한글")],
        ["کتاب", "ک\u200cتاب"],
    ],
    ids=lambda spellings: spellings[0],
)
def test_spellings_of_one_name_are_one_node_on_every_path(spellings, open_memory):
    memory = open_memory()
    items = [
        (Passage(f"Passage {i}.", id=str(i)), Extraction(triples=[(name, "is", f"thing {i}")]))
        for i, name in enumerate(spellings)
    ]
    memory.add_extracted(items, edges=[Edge("0", to_phrase=spellings[-1])])
    assert memory.stats().phrases == 1 + len(spellings)
    assert memory.stats().pending_edges == 0
    for name in spellings:
        found = memory.retrieve(f"{name} ?")
        assert len(found.anchors) == 1
        assert {normalise_phrase(a) for a in found.anchors} == {normalise_phrase(spellings[0])}
    memory.aliases = [[spellings[0], "another name"]]
    with pytest.raises(InputError):
        memory.aliases = [[spellings[0], "a"], [spellings[-1], "b"]]
    memory.aliases = []
    memory.delete(["0"])
    assert memory.stats().phrases == len(spellings)
    memory.delete([str(i) for i in range(len(spellings))])
    assert memory.stats().phrases == 0


@pytest.mark.parametrize(
    "names", [["Financière", "Financiere"], ["ı", "i"], ["東京", "东京"], ["é", "è"], ["か", "が"]]
)
def test_letters_that_differ_are_different_names(names):
    assert len({normalise_phrase(name) for name in names}) == len(names)


def test_a_name_of_nothing_but_punctuation_is_no_node_and_is_counted(corpora, open_memory):
    text = "!!! is ???. Ada is here."
    triples = [("!!!", "is", "???"), ("—", "is", "Ada"), ("Ada", "is", "here")]
    memory = open_memory(corpora.Reader({text: triples}))
    memory.add([text])
    assert set(memory._index.snapshot().graph.phrases) == {"ada", "here"}
    assert memory.stats().triples == 1


def test_near_names_are_joined_only_above_the_threshold_and_never_merged(open_memory):
    names = ["John Doe", "John T. Doe", "Jane Doe"]
    memory = open_memory(embedder=NGrams())
    memory.add_extracted(
        [
            (
                Passage(f"{name} sat on chair {i}.", id=name),
                Extraction(triples=[(name, "sat", f"{i}0")]),
            )
            for i, name in enumerate(names)
        ]
    )
    assert {"john doe", "john t doe", "jane doe"} <= set(memory._index.snapshot().graph.phrases)
    threshold = memory.config.synonymy_threshold
    for edge in memory.strongest_synonyms():
        assert edge.cosine >= threshold
        assert "Jane Doe" not in (edge.phrase, edge.synonym)


def test_a_word_that_all_passages_hold_counts_least(open_memory):
    memory = open_memory()
    memory.add_extracted(
        [
            (
                Passage(f"The system has part {i}.", id=str(i)),
                Extraction(triples=[("system", "has", f"part {i}")]),
            )
            for i in range(30)
        ]
    )
    found = memory.retrieve("Which system has part 7?")
    assert found.passages[0].passage.id == "7"
    graph = memory._index.snapshot().graph
    specificity = dict(zip(graph.phrases, graph.node_specificity(), strict=True))
    assert specificity["system"] == min(specificity.values()) == pytest.approx(1 / 30)


# -- any locale ------------------------------------------------------------------------------------

CHILD = """
import json, logging, sys
from pathlib import Path
from hippo_core import Extraction, HippoRAG, Passage, ParseError, StoreError
from hippo_core.testing import HashEmbedder, ScriptedChatModel

logging.basicConfig(level=logging.DEBUG)
folder, corpus = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_bytes())
def memory(name, **options):
    return HippoRAG(None, HashEmbedder(), store=folder / "m", namespace=name, **options)
name = corpus[0]["anchor"]
with memory(name) as one:
    one.add_extracted([
        (Passage(c["first"], id=c["first"], title=c["anchor"], metadata={c["anchor"]: c["first"]}),
         Extraction(triples=[c["stated"]], reason=c["first"]))
        for c in corpus
    ])
with memory(name, create=False) as again:
    for c in corpus:
        (hit,) = again.retrieve(c["question"], k=1, where={c["anchor"]: c["first"]})
        assert hit.passage.text == c["first"], ascii(c)
        print(ascii(hit.passage.text))
    assert [p.text for p in again.get([c["first"] for c in corpus])] == [c["first"] for c in corpus]
    again.backup(folder / "copy")
    assert again.verify().ok
    logging.getLogger("hippo_core").warning("%s %s", again, again.namespaces())
with HippoRAG(ScriptedChatModel(lambda _: name), HashEmbedder(), store=folder / "new") as empty:
    empty.retrieve(name)  # warns that it is empty
    report = empty.add([Passage(name, id=name)], on_error="skip")
    logging.getLogger("hippo_core").warning("%s", report)
for place in (folder / name, folder / name / "m"):
    try:
        HippoRAG(None, HashEmbedder(), store=place).close()
    except StoreError as error:
        assert "PYTHONUTF8" in str(error)
        assert sys.getfilesystemencoding() == "ascii"
        logging.getLogger("hippo_core").warning("%s", error)
    else:
        assert sys.getfilesystemencoding() == "utf-8"
        break
print(ascii(report.failed))
error = ParseError(name, name)
sys.excepthook(ParseError, error, None)
"""

LOCALES = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "POSIX, cp1252 out": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"},
    "C, ascii out": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "UTF-8": {"LC_ALL": "C.UTF-8"},
}


def in_locale(locale, *arguments):
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))
    }
    environment |= {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"} | LOCALES[locale]
    return subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", *arguments],
        capture_output=True,
        env=environment,
        timeout=120,
        check=False,
    )


@pytest.mark.sqlite
@pytest.mark.parametrize("locale", LOCALES)
def test_a_memory_is_the_same_under_any_locale(locale, tmp_path):
    corpus = [case._asdict() for case in CASES.values() if case.anchor]
    (tmp_path / "corpus.json").write_bytes(json.dumps(corpus).encode())
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    done = in_locale(locale, str(script), str(tmp_path / "m"), str(tmp_path / "corpus.json"))
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    assert b"Logging error" not in done.stderr
    assert b"UnicodeEncodeError" not in done.stderr
    lines = done.stdout.decode("ascii").splitlines()
    assert lines[:-1] == [ascii(case["first"]) for case in corpus]
    with HippoRAG(
        None, HashEmbedder(), store=tmp_path / "m" / "m", namespace="东京", create=False
    ) as memory:  # as this process, with its own locale, reads it
        assert {p.text for p in memory} == {case["first"] for case in corpus}
        assert {p.title for p in memory} == {case["anchor"] for case in corpus}
