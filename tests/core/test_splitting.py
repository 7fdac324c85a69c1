"""Splitting a text for the prompt: nothing is lost, all fits, borders are the best there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core.splitting import halves, split_text

PROSE = st.text(alphabet="ab .!?。,、\n\t'”", max_size=200)


@given(st.one_of(PROSE, st.text(max_size=200)), st.integers(1, 60))
def test_the_pieces_are_the_text_and_each_fits(text, limit):
    pieces = split_text(text, lambda piece: len(piece) <= limit)
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)
    assert all(pieces) or text == ""


@given(st.text(max_size=200), st.integers(1, 60))
def test_the_pieces_are_few(text, limit):
    pieces = split_text(text, lambda piece: len(piece) <= limit)
    assert len(pieces) <= max(1, 2 * -(-len(text) // limit) + 4)


@given(st.text(max_size=50))
def test_what_fits_stays_whole(text):
    assert split_text(text, lambda _piece: True) == [text]


@given(st.text(min_size=2, max_size=300))
def test_halves_are_at_least_two_and_shorter(text):
    pieces = halves(text)
    assert len(pieces) >= 2
    assert "".join(pieces) == text
    assert max(map(len, pieces)) < len(text)


def test_a_single_character_that_does_not_fit_ends_the_search():
    assert split_text("ab", lambda _piece: False) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("One a. Two b.\n\nThree c. Four d.", 20, ["One a. Two b.\n\n", "Three c. Four d."]),
        ("It is 3.14 m. Then 2.5 m.", 16, ["It is 3.14 m. ", "Then 2.5 m."]),
        ("东京是日本的首都。大阪也是城市。", 10, ["东京是日本的首都。", "大阪也是城市。"]),
        ("यह एक है। वह दो है।", 12, ["यह एक है। ", "वह दो है।"]),
        ("هل هذا؟ نعم هو.", 9, ["هل هذا؟ ", "نعم هو."]),
        ('He said "no." She left.', 15, ['He said "no." ', "She left."]),
        ("a list of one, two, three", 15, ["a list of one, ", "two, three"]),
        ("no border here", 9, ["no ", "border ", "here"]),
        ("unbreakable", 6, ["unbre", "akable"]),
    ],
)
def test_the_best_border_is_taken(text, limit, pieces):
    assert split_text(text, lambda piece: len(piece) <= limit) == pieces


@pytest.mark.parametrize("longest", [100, 20_000])
@pytest.mark.parametrize("border", [". ", ", ", " "])
def test_work_grows_with_the_text_alone(border, longest):
    looked = 0

    def fits(piece: str) -> bool:
        nonlocal looked
        looked += len(piece)
        return len(piece) <= longest

    counts = []
    for n in (1_000, 4_000):
        looked = 0
        text = f"A-sentence-of-five-words{border}" * n
        split_text(text, fits)
        counts.append(looked / len(text))
    assert counts[1] < 2 * counts[0] + 10
    assert max(counts) < 60  # looks at each character
