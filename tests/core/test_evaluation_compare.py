"""A comparison asks each system each question, and loses nothing of what it found."""

import csv
import io
import json
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import (
    Extraction,
    HippoConfig,
    HippoRAG,
    InputError,
    MissingDependencyError,
    Passage,
    PermanentModelError,
    Prices,
    StageUsage,
    Usage,
)
from hippo_core.evaluation import (
    ABLATIONS,
    Column,
    Comparison,
    Outcome,
    Question,
    Ranking,
    Reading,
    Step,
    System,
    Table,
    ablations,
    bm25,
    compare,
    default,
    dense,
    draw_by_hops,
    draw_cost,
    draw_recall_by_k,
    hipporag,
    hipporag2,
    ircot,
    line_up,
    memory_system,
    recall_table,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

BRIDGE = [
    (Passage(text, id=id_), Extraction(triples=[triple]))
    for id_, text, triple in (
        ("invented", "Zora Quint invented the tidal clock.", ("Zora Quint", "made", "tidal clock")),
        ("bridge", "Zora Quint grew up at Velmora.", ("Zora Quint", "grew up at", "Velmora")),
        ("river", "The Ister flows through Velmora.", ("Ister", "flows through", "Velmora")),
        ("mill", "The river mill stands where the town lies.", ("river mill", "stands in", "Osk")),
        ("clock", "The inventor of the clock was a monk.", ("water clock", "is of", "a monk")),
    )
]
ASKED = "Which river flows through the town of the inventor of the tidal clock?"
QUESTIONS = (
    Question("q1", ASKED, ("invented", "bridge", "river"), ("Ister",), 3, "bridge"),
    Question("q2", "Who invented the tidal clock?", ("invented",), ("Zora Quint", "Quint"), 1),
)
USAGE = Usage({"recognition": StageUsage(calls=1, input_tokens=300, output_tokens=20)})


def make_memory(chat_model=None, **options):
    openie = TableOpenIE({}, {ASKED: ["tidal clock"]})
    memory = HippoRAG(chat_model, HashEmbedder(), openie=openie, **options)
    memory.add_extracted(BRIDGE)
    return memory


def fixed(name, *rankings):
    """Make a system that ranks so for the questions, in their order; an error is raised."""
    by_text = {q.text: ranking for q, ranking in zip(QUESTIONS, rankings, strict=True)}

    def retrieve(query):
        if isinstance(by_text[query], Exception):
            raise by_text[query]
        return by_text[query]

    return System(name, retrieve)


def figures(table):
    """Give a table's rows by system, without what a clock says."""
    heads = [column.heading for column in table.columns]
    return {
        row[0]: {h: c for h, c in zip(heads[1:], row[1:], strict=True) if h != "s per query"}
        for row in table.rows
    }


# -- figures ---------------------------------------------------------------------------------------


def test_a_table_has_the_papers_measures_worked_out_by_hand():
    systems = [fixed("ours", ["invented", "x", "bridge"], ["invented"]), fixed("none", [], [])]
    table = figures(compare(systems, QUESTIONS).table())
    assert table["ours"] == pytest.approx(
        {"R@2": 200 / 3, "R@5": 250 / 3, "AR@2": 50, "AR@5": 50, "tokens per query": None}
    )
    assert set(table["none"].values()) == {0, None}


def test_a_table_agrees_with_recall_table_to_the_last_bit():
    memory = make_memory()
    comparison = compare(line_up(memory), QUESTIONS)
    for name in comparison.systems:
        table = recall_table(comparison.run(name), comparison.gold())
        assert {measure: comparison.mean(name, measure) for measure in table} == table


def test_the_same_inputs_give_the_same_table():
    memory = make_memory()
    once, again = (compare(line_up(memory), QUESTIONS) for _ in range(2))
    assert figures(once.table()) == figures(again.table())
    assert once.differences("dense") == again.differences("dense")


def test_the_order_of_systems_and_of_questions_changes_no_figure():
    systems = line_up(make_memory())
    there = compare(systems, QUESTIONS)
    back = compare(systems[::-1], QUESTIONS[::-1])
    assert figures(there.table()) == figures(back.table())


def test_many_questions_at_once_are_answered_as_one_by_one():
    systems = line_up(make_memory())
    together = compare(systems, QUESTIONS, at_once=4)
    assert figures(together.table()) == figures(compare(systems, QUESTIONS).table())


def test_questions_are_asked_as_many_at_once_as_may_be():
    meeting = threading.Barrier(2, timeout=30)
    system = System("meets", lambda _query: [str(meeting.wait())])
    assert not compare([system], QUESTIONS, at_once=2).failures()


def test_a_question_without_gold_or_answers_counts_for_no_measure_of_these():
    bare = Question("bare", "Why?")
    system = System("ours", lambda _query: ["invented"], lambda _query: "Zora Quint")
    comparison = compare([system], [*QUESTIONS, bare], answers=True)
    assert comparison.scores("ours", "recall@1") == (pytest.approx(100 / 3), 100, None)
    assert comparison.scores("ours", "EM") == (0, 100, None)
    assert comparison.mean("ours", "EM") == 50


def test_a_type_and_a_number_of_hops_have_a_column_each():
    comparison = compare([fixed("ours", ["bridge"], ["invented"])], QUESTIONS)
    by_hops, by_type = comparison.by_hops("recall@1"), comparison.by_type("recall@1")
    assert [c.heading for c in by_hops.columns] == ["system", "1 hop (n=1)", "3 hops (n=1)"]
    assert by_hops.rows == (("ours", 100, pytest.approx(100 / 3)),)
    assert figures(by_type)["ours"] == pytest.approx({"? (n=1)": 100, "bridge (n=1)": 100 / 3})


def test_differences_are_those_of_the_questions_that_count_for_both():
    failed = RuntimeError("no")
    ours = fixed("ours", ["invented", "bridge", "river"], ["invented"])
    theirs = fixed("theirs", failed, ["x"])
    nothing = fixed("nothing", failed, failed)
    table = figures(compare([ours, theirs, nothing], QUESTIONS).differences("theirs"))
    assert table == {
        "ours": {"R@5 - theirs": 100, "R@5 low": 100, "R@5 high": 100, "R@5 p": 1, "R@5 n": 1},
        "nothing": dict.fromkeys(["R@5 - theirs", "R@5 low", "R@5 high", "R@5 p"]) | {"R@5 n": 0},
    }


def test_cost_is_in_tokens_or_by_prices_and_unknown_where_a_system_does_not_say():
    found = Ranking(["invented"], USAGE)
    comparison = compare([fixed("ours", found, found), fixed("mute", [], [])], QUESTIONS)
    assert figures(comparison.table([]))["ours"] == {"tokens per query": 320}
    priced = figures(comparison.table([], prices=Prices(input=1.0, output=10.0)))
    assert priced["ours"]["cost per 1000 queries"] == pytest.approx(0.5)
    assert priced["mute"] == {"cost per 1000 queries": None}
    assert comparison.usage("ours") == USAGE + USAGE
    assert comparison.usage("mute") is None


@pytest.mark.parametrize("measure", ["recall", "recall@0", "recall@-1", "f1", "map", "recall@5 "])
def test_a_measure_that_is_none_is_refused(measure):
    comparison = compare([fixed("ours", [], [])], QUESTIONS)
    with pytest.raises(InputError, match="a measure is recall@k"):
        comparison.table([measure])


def test_a_system_that_is_not_there_is_named_with_those_that_are():
    comparison = compare([fixed("ours", [], [])], QUESTIONS)
    with pytest.raises(InputError, match="no system 'theirs': there are ours"):
        comparison.differences("theirs")


# -- failures --------------------------------------------------------------------------------------


def test_a_failed_question_is_told_and_counts_neither_as_0_nor_at_all():
    broken = fixed("broken", ValueError("no such\nindex"), ["invented"])
    comparison = compare([broken, fixed("ours", [], ["invented"])], QUESTIONS)
    table = comparison.table(["recall@1"])
    assert comparison.failures() == [("broken", "q1", "ValueError: no such\nindex")]
    assert comparison.scores("broken", "recall@1") == (None, 100)
    assert [figures(table)[name]["failed"] for name in comparison.systems] == [1, 0]
    assert "does not count" in str(table)
    assert comparison.run("broken") == {"q2": ("invented",)}


def test_a_system_that_fails_every_question_has_no_figures():
    error = RuntimeError("down")
    table = compare([fixed("broken", error, error)], QUESTIONS).table()
    assert table.rows == (("broken", *[None] * 6, 2),)


@pytest.mark.parametrize("at_once", [1, 3])
def test_an_interrupt_is_no_failure(at_once):
    def interrupt(_query):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare([System("stopped", interrupt)], QUESTIONS, at_once=at_once)


@pytest.mark.parametrize("found", ["invented", [3], None, 7, [None]])
def test_what_is_no_ranking_is_a_failure_that_says_so(found):
    ((_, _, error), _) = compare([fixed("odd", found, found)], QUESTIONS).failures()
    assert error.startswith("TypeError: ")


def test_a_reader_that_fails_leaves_the_ranking(tmp_path):
    def refuse(_query):
        raise RuntimeError("no key")

    system = System("ours", lambda _query: ["invented"], refuse)
    comparison = compare([system], QUESTIONS, answers=True)
    assert comparison.failures()[0] == ("ours", "q1", "RuntimeError: no key")
    assert comparison.mean("ours", "recall@1") == pytest.approx(200 / 3)
    assert comparison.mean("ours", "F1") is None


def test_a_ranking_without_a_part_that_does_not_work_is_told():
    memory = make_memory(ScriptedChatModel(lambda _messages: PermanentModelError("no key")))
    strict = memory_system(memory, "strict", HippoConfig(on_failure="raise"))
    comparison = compare([default(memory), dense(memory), strict], QUESTIONS)
    table = figures(comparison.table())
    assert [table[name]["fell back"] for name in comparison.systems] == [2, 0, 0]
    assert [table[name]["failed"] for name in comparison.systems] == [0, 0, 2]
    (first, *_) = comparison.fall_backs()
    assert first[:2] == ("default", "q1")
    assert "no key" in first[2]
    assert "ranked without a part" in str(comparison.table())


def test_progress_is_told_after_each_question():
    steps = []
    systems = [fixed("broken", ValueError("x"), []), fixed("ours", [], [])]
    compare(systems, QUESTIONS, progress=steps.append)
    assert steps[:2] == [Step("broken", 1, 1, 2), Step("broken", 2, 1, 2)]
    assert steps[2:] == [Step("ours", 1, 0, 2), Step("ours", 2, 0, 2)]


@pytest.mark.parametrize(
    ("systems", "questions", "at_once", "says"),
    [
        ([], QUESTIONS, 1, "no systems"),
        ([System("a", list)], (), 1, "no questions"),
        ([System("a", list), System("a", list)], QUESTIONS, 1, "2 systems are called 'a'"),
        ([System("a", list)], QUESTIONS * 2, 1, "question 'q1' is there 2 times"),
        ([System("a\nb", list)], QUESTIONS, 1, "a name on one line, got 'a"),
        ([System(" ", list)], QUESTIONS, 1, "a name on one line, got ' '"),
        ([System("a", list)], QUESTIONS, 0, "at_once must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(systems, questions, at_once, says):
    with pytest.raises(InputError, match=says):
        compare(systems, questions, at_once=at_once)


# -- systems ---------------------------------------------------------------------------------------


def test_bm25_finds_exact_words_and_ranks_nothing_without_one():
    passages = [passage for passage, _ in BRIDGE]
    system = bm25(passages, k=3)
    assert system.retrieve("a TIDAL clock?").passages[0] == "invented"
    assert system.retrieve("Velmora").passages in (["river", "bridge"], ["bridge", "river"])
    assert list(system.retrieve("the of and").passages) == []
    assert list(system.retrieve("zeppelin").passages) == []


def test_bm25_reads_titles_and_keeps_the_order_of_passages_that_tie():
    system = bm25([Passage("It is a town.", id=str(n), title="Osk") for n in range(5)], k=4)
    assert system.retrieve("Osk").passages == ["0", "1", "2", "3"]


def test_bm25_takes_a_memory_as_its_passages():
    assert "invented" in bm25(make_memory()).retrieve("tidal").passages


@pytest.mark.parametrize("passages", [[], [Passage("!", id="a")], [Passage("the", id="a")]])
def test_bm25_without_words_is_refused(passages):
    with pytest.raises(InputError, match="there are none"):
        bm25(passages)


def test_the_papers_line_up_is_what_the_memory_gives_with_their_settings():
    memory = make_memory()
    comparison = compare(line_up(memory, k=4), QUESTIONS)
    assert comparison.systems == ("BM25", "dense", "HippoRAG", "HippoRAG 2", "default")
    for name, config in (
        ("dense", HippoConfig.dense()),
        ("HippoRAG 2", HippoConfig.hipporag2()),
        ("default", HippoConfig()),
    ):
        hits = memory.retrieve(ASKED, k=4, config=config)
        assert comparison.run(name)["q1"] == tuple(hit.passage.id for hit in hits)


def test_ircot_is_counted_as_one_retrieval_is_and_its_fall_backs_are_told():
    """With one step it is that; with more it finds what the thoughts lead to, or says why not."""
    thoughts = ["Velmora lies on a river.", "Answer: Ister"]
    config = HippoConfig(recognition_memory=False)
    with make_memory(ScriptedChatModel(lambda _: "Answer: Ister"), config=config) as memory:
        one = ircot(memory, "one step", max_steps=1)
        table = compare([default(memory), one], QUESTIONS)
        assert [o.ranked for o in table.outcomes["one step"]] == [
            o.ranked for o in table.outcomes["default"]
        ]
        read = compare([ircot(memory)], QUESTIONS[:1], answers=True).outcomes["IRCoT"][0]
        assert read.reading.answer == "Ister"
    with make_memory(ScriptedChatModel([thoughts[0], PermanentModelError("down")])) as memory:
        failing = ircot(memory, config=config, k=1, max_steps=3)
        table = compare([failing], QUESTIONS[:1])
        assert "down" in str(table.fall_backs())


def test_half_a_character_in_an_answer_is_saved_as_the_rest_is(tmp_path):
    said = System("odd", lambda _: ["invented"], lambda _: "b \udcff")
    comparison = compare([said], QUESTIONS[:1], answers=True)
    comparison.save(tmp_path / "c.json")
    (outcome,) = Comparison.load(tmp_path / "c.json").outcomes["odd"]
    assert outcome.reading.answer == "b \udcff"


def test_a_passage_that_a_walk_gave_nothing_is_not_found():
    (_, _, _, linked, *_) = ablations(make_memory(), "HippoRAG")
    assert linked.name == "HippoRAG, linked phrases only"
    found = compare([linked], QUESTIONS).run(linked.name)
    assert found["q1"] == ("invented",)


def test_a_memory_is_asked_with_its_own_synonymy_threshold():
    memory = make_memory(config=HippoConfig(synonymy_threshold=0.7))
    made = [make(memory) for make in (dense, hipporag, hipporag2, default)]
    assert not compare([*made, memory_system(memory, "own")], QUESTIONS[:1]).failures()


@pytest.mark.parametrize("method", ABLATIONS)
def test_each_ablation_changes_its_method_and_runs(method):
    methods = {
        "HippoRAG": HippoConfig.hipporag(),
        "HippoRAG 2": HippoConfig.hipporag2(),
        "default": HippoConfig(),
    }
    for changes in ABLATIONS[method].values():
        assert methods[method].but(**changes) != methods[method]
    comparison = compare(ablations(make_memory(), method), QUESTIONS[:1])
    assert comparison.systems[0] == method
    assert len(comparison.systems) == 1 + len(ABLATIONS[method])
    assert not comparison.failures()


def test_a_method_that_is_none_is_refused():
    with pytest.raises(InputError, match="one of HippoRAG, HippoRAG 2, default, got 'dense'"):
        ablations(make_memory(), "dense")


def test_a_memorys_chat_model_answers_only_where_it_is_asked_to():
    chat = ScriptedChatModel(lambda _messages: "Answer: Zora Quint")
    memory = make_memory(chat, config=HippoConfig(recognition_memory=False))
    silent = compare([memory_system(memory, "own")], QUESTIONS)
    assert not chat.calls
    assert "EM" not in figures(silent.table())["own"]
    spoken = compare(
        [memory_system(memory, "own")], [*QUESTIONS, Question("bare", "Why?")], answers=True
    )
    assert len(chat.calls) == 2  # not for a question without an accepted answer
    assert figures(spoken.table())["own"]["EM"] == 50


@pytest.mark.parametrize("at_config", [HippoConfig.dense(), HippoConfig.hipporag2()])
def test_a_reader_reads_what_its_system_retrieves(at_config):
    chat = ScriptedChatModel(lambda _messages: "Answer: x")
    memory = make_memory(chat)
    config = at_config.but(recognition_memory=False)
    answer = memory_system(memory, "x", config, read=2).answer(ASKED)
    hits = memory.retrieve(ASKED, k=2, config=config)
    assert [h.passage for h in answer.retrieval] == [h.passage for h in hits]


# -- files -----------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=8)
usages = st.none() | st.just(USAGE) | st.just(Usage())
readings = st.builds(Reading, names, st.floats(0, 9), usages, st.just(""))
outcomes = st.builds(
    Outcome,
    st.lists(names, max_size=3).map(tuple),
    st.floats(0, 9),
    usages,
    st.none() | readings,
    fell_back=st.just("") | names,
)
comparisons = st.dictionaries(names, st.tuples(outcomes, outcomes), min_size=1, max_size=3).map(
    lambda runs: Comparison(QUESTIONS, runs)
)


@given(comparison=comparisons)
def test_a_comparison_is_read_back_from_json(comparison):
    written = json.loads(json.dumps(comparison.to_json()))
    assert Comparison.from_json(written) == comparison


def test_a_comparison_is_read_back_from_a_file_with_all_its_tables(tmp_path):
    comparison = compare([*line_up(make_memory()), fixed("x", ValueError("é"), [])], QUESTIONS)
    comparison.save(tmp_path / "c.json")
    again = Comparison.load(tmp_path / "c.json")
    assert again == comparison
    assert str(again.table()) == str(comparison.table())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no comparison"),
        ("[]", "this is no comparison"),
        ('{"format": 2}', "format 1 is read, got 2"),
        ('{"format": 1}', "this is no comparison: KeyError"),
        ('{"format": 1, "questions": [{}], "systems": []}', "this is no comparison"),
        (
            '{"format": 1, "questions": [], "systems": [{"name": "a", "outcomes": [{"ranked": [],'
            '"seconds": 0, "usage": null, "reading": null, "error": "", "fell_back": ""}]}]}',
            "'a' was asked 1 of 0 questions",
        ),
    ],
)
def test_a_file_that_is_no_comparison_is_refused(tmp_path, text, says):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InputError, match=says):
        Comparison.load(tmp_path / "c.json")


cells = st.tuples(names, st.none() | st.floats(0, 100), st.none() | st.integers(0, 9))
tables = st.lists(cells, max_size=4).map(
    lambda rows: Table((Column("system", ""), Column("R@5", ".1f"), Column("n", "d")), tuple(rows))
)


@given(table=tables)
def test_a_table_is_read_back_from_json_and_from_csv(table):
    assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table
    head, *rows = csv.reader(io.StringIO(table.csv(), newline=""))
    assert head == ["system", "R@5", "n"]
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in table.rows]


@given(table=tables)
def test_a_table_in_markdown_and_in_a_terminal_has_a_line_for_each_row(table):
    lines = table.markdown().split("\n")
    assert len(lines) == 2 + len(table.rows)
    assert all(line.replace("\\|", "").count("|") == 4 for line in lines)


def test_a_table_is_drawn_with_names_as_they_are():
    table = Table(
        (Column("system", ""), Column("R@5", ".1f")), (("[red]a|b[/red]", 62.24),), ("N.",)
    )
    file = io.StringIO()
    table.print(file)
    assert "[red]a|b[/red]" in file.getvalue()
    assert "62.2" in file.getvalue()
    assert "N." in file.getvalue()
    assert r"[red]a\|b[/red]" in str(table)


def test_what_is_no_table_is_refused():
    with pytest.raises(InputError, match="this is no table"):
        Table.from_json({"columns": []})


# -- pictures, and what needs the extra ------------------------------------------------------------


@pytest.mark.parametrize("draw", [draw_recall_by_k, draw_by_hops, draw_cost])
@pytest.mark.parametrize("end", ["png", "svg"])
def test_a_picture_is_drawn_and_the_same_one_is_the_same_file(tmp_path, draw, end):
    failed = ValueError("x")
    systems = [*line_up(make_memory()), fixed("a_1$ <b>", failed, failed)]
    comparison = compare(systems, QUESTIONS)
    files = [tmp_path / f"{n}.{end}" for n in range(2)]
    for file in files:
        draw(comparison, file)
    begins = b"\x89PNG" if end == "png" else b"<?xml"
    assert files[0].read_bytes().startswith(begins)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_picture_without_any_figure_is_one():
    comparison = compare([fixed("mute", [], [])], QUESTIONS)
    with pytest.raises(InputError, match=r"must end with .png or .svg, got 'x.pdf'"):
        draw_cost(comparison, "x.pdf")


@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("bm25s", lambda _path: bm25([Passage("x", id="x")])),
        ("rich", lambda _path: Table((), ()).print()),
        ("matplotlib", lambda p: draw_cost(Comparison((), {}), p / "x.png")),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(monkeypatch, tmp_path, module, use):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"{module} .*hippo-core\[eval\]"):
        use(tmp_path)
