"""Tokens are counted on this machine: by tiktoken's table if it is here, else by a stated rule."""

import hashlib
import tempfile
import time

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import tokens
from hippo_core.tokens import count_tokens, counted_by

URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
NAME = hashlib.sha1(URL.encode()).hexdigest()  # as tiktoken names the table's file
BYTES = tiktoken.Encoding(
    "bytes",
    pat_str=r"\S+|\s+",
    mergeable_ranks={bytes([i]): i for i in range(256)},
    special_tokens={"<|endoftext|>": 256},
)
TEXT = st.text(alphabet=st.characters(exclude_categories=()))  # lone surrogates too


@pytest.fixture(autouse=True)
def _afresh(monkeypatch, tmp_path):
    """Begin without a table, and let nothing be downloaded."""

    def refuse(*_args, **_options):
        raise AssertionError("tiktoken was about to download its table")

    monkeypatch.setattr("tiktoken.load.read_file", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    of_the_process = tokens._encoding
    of_the_process.cache_clear()
    yield
    of_the_process.cache_clear()


@pytest.fixture
def by_table(monkeypatch):
    monkeypatch.setattr(tokens, "_encoding", lambda: BYTES)


# -- the rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("水" * 4, 3), ("🦛", 1), ("\ud800", 1)],
)
def test_without_a_table_a_token_is_four_bytes(text, count):
    assert counted_by() == "UTF-8 bytes / 4, rounded up"
    assert count_tokens(text) == count


@given(TEXT, TEXT)
def test_the_rule_is_monotone_and_off_by_one_at_most_where_texts_are_joined(one, other):
    whole = count_tokens(one + other)
    assert max(count_tokens(one), count_tokens(other)) <= whole
    assert 0 <= count_tokens(one) + count_tokens(other) - whole <= 1


# -- the table -------------------------------------------------------------------------------------


@given(TEXT)
def test_any_text_can_be_counted(text):
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_encoding", lambda: BYTES)
        assert count_tokens(text) == len(whole.encode())


@pytest.mark.usefixtures("by_table")
def test_a_special_token_is_text():
    assert count_tokens("a <|endoftext|> b") == len("a <|endoftext|> b")


@pytest.mark.usefixtures("by_table")
@pytest.mark.parametrize("letter", ["a", " ", "^", "\n"])
def test_a_million_of_one_letter_is_counted_at_once(letter):
    begun = time.perf_counter()
    assert count_tokens(letter * 10**6) == 10**6
    assert time.perf_counter() - begun < 20  # quadratic time would be hours


@pytest.mark.parametrize("place", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "the default"])
def test_the_table_is_found_where_tiktoken_keeps_it(place, monkeypatch, tmp_path):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    folder = tmp_path / "data-gym-cache"
    if place == "the default":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    else:
        monkeypatch.setenv(place, str(folder))
    folder.mkdir()
    (folder / NAME).write_bytes(b"a table")
    monkeypatch.setattr(tokens, "_TABLE_HASH", hashlib.sha256(b"a table").hexdigest())
    monkeypatch.setattr(tiktoken, "get_encoding", {"o200k_base": BYTES}.__getitem__)
    assert counted_by() == "tiktoken o200k_base"
    assert count_tokens("abcd") == 4


def test_a_damaged_table_is_left_alone_and_said(tmp_path, caplog):
    (tmp_path / NAME).write_bytes(b"half of it")
    assert count_tokens("abcd") == 1
    assert str(tmp_path / NAME) in caplog.text
    assert (tmp_path / NAME).read_bytes() == b"half of it"


@pytest.mark.parametrize("folder", ["", "not/there"])
@pytest.mark.parametrize("name", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_no_table_is_downloaded(name, folder, monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv(name, folder)
    assert count_tokens("abcd") == 1


def test_threads_count_alike(at_once):
    assert set(at_once(*[lambda: count_tokens("Ada wrote notes.")] * 8)) == {4}
