"""Prompts: what the core asks of a chat model, and how to say it in other words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from hippo_core.control_tokens import broken_up
from hippo_core.errors import ConfigError, InputError
from hippo_core.prompt_texts import (
    COMPLAINT,
    DATA_RULE,
    ENTITIES_TASK,
    QUERY_ENTITIES_TASK,
    READING_TASK,
    RECOGNITION_TASK,
    SHAPE_RULE,
    THOUGHT_TASK,
    TITLES_NOTE,
    TRIPLES_TASK,
    VASA,
    PromptExample,
)
from hippo_core.text import sha256_hex
from hippo_core.types import Message, Role, Triple

PROMPTS_VERSION = "1"
"""Part of the extractor's fingerprint: raise it with every change of the extraction prompts."""

TITLE = 200  # characters of a title that a judge sees

ENTITIES_SHAPE = '{"named_entities": ["...", "..."]}'
TRIPLES_SHAPE = '{"triples": [["...", "...", "..."]]}'
CHOICE_SHAPE = '{"keep": [numbers]}'


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What a chat model is asked, as text that can be replaced and methods that can be overridden.

    Another language or domain: replace texts with `dataclasses.replace(Prompts(), ...)`. Another
    layout: override methods in a subclass. Every method gives a list of `Message`, and is called
    from several threads. What a reply must look like does not change, since it is what the core
    parses: JSON with the English keys `named_entities`, `triples` or `keep`, which is demanded by
    `shape_rule`; or, of `reading`, a last line that begins with `answer_label` and a colon, and of
    `thought` such a line or a sentence.

    Text that comes from outside, a passage, title, entity, triple or query, is data and may be
    hostile: put it into a prompt by `block`, or for one line of it by `line`, and keep `data_rule`.

    The extraction prompts are part of the extractor's fingerprint, see `fingerprint`.

    >>> from dataclasses import replace
    >>> german = replace(Prompts(), passage_label="Abschnitt", answer_label="Antwort")
    >>> print(german.entities("Ada schrieb Noten.")[-1].content)
    Abschnitt:
    ```
    Ada schrieb Noten.
    ```
    """

    entities_task: str = ENTITIES_TASK
    triples_task: str = TRIPLES_TASK
    query_entities_task: str = QUERY_ENTITIES_TASK
    recognition_task: str = RECOGNITION_TASK
    """With `{limit}`, and `{titles}` where `titles_note` goes if titles are shown."""
    titles_note: str = TITLES_NOTE
    reading_task: str = READING_TASK
    """With `{answer}` for `answer_label`."""
    thought_task: str = THOUGHT_TASK
    """With `{answer}` for `answer_label`."""
    data_rule: str = DATA_RULE
    """Stands below every task."""
    shape_rule: str = SHAPE_RULE
    """With `{shape}`; stands below every task but those of reading and thinking."""
    complaint_text: str = COMPLAINT
    """With `{problem}`; `shape_rule` follows."""

    passage_label: str = "Passage"
    entities_label: str = "Entities"
    question_label: str = "Question"
    facts_label: str = "Facts"
    thought_label: str = "Thought"
    answer_label: str = "Answer"

    example: PromptExample = VASA
    version: str = ""
    """Of your own: raise it where an overridden method asks something else."""

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if field_.type == "str" and not isinstance(value, str):
                raise ConfigError(f"{field_.name} must be a str, got {type(value).__name__}")
        if not isinstance(self.example, PromptExample):
            kind = type(self.example).__name__
            raise ConfigError(f"example must be a PromptExample, got {kind}")
        for name, place in _PLACES.items():
            if place not in getattr(self, name):
                raise ConfigError(
                    f"{name} must have {place} in it, for what goes there; got "
                    f"{getattr(self, name)!r:.80}"
                )
        if not self.answer_label.strip():
            raise ConfigError("answer_label must not be blank: it says where the answer begins")
        if not self.thought_label.strip():
            raise ConfigError("thought_label must not be blank: it tells thoughts from passages")

    # -- messages -----------------------------------------------------------------------------

    def entities(self, passage: str) -> list[Message]:
        """Ask for the named entities of a passage: `{"named_entities": ["...", ...]}`."""
        shown = self.example
        return [
            self._task(self.entities_task, ENTITIES_SHAPE),
            Message("user", self.block(self.passage_label, shown.passage)),
            Message("assistant", _entities_json(shown.entities)),
            Message("user", self.block(self.passage_label, passage)),
        ]

    def triples(self, passage: str, entities: Sequence[str]) -> list[Message]:
        """Ask for the triples of a passage: `{"triples": [["...", "...", "..."], ...]}`."""
        shown = self.example
        return [
            self._task(self.triples_task, TRIPLES_SHAPE),
            Message("user", self._passage_with_entities(shown.passage, shown.entities)),
            Message("assistant", _json({"triples": shown.triples})),
            Message("user", self._passage_with_entities(passage, entities)),
        ]

    def query_entities(self, query: str) -> list[Message]:
        """Ask for the named entities of a query: `{"named_entities": ["...", ...]}`."""
        return [
            self._task(self.query_entities_task, ENTITIES_SHAPE),
            Message("user", self.block(self.question_label, self.example.query)),
            Message("assistant", _entities_json(self.example.query_entities)),
            Message("user", self.block(self.question_label, query)),
        ]

    def recognition(
        self,
        query: str,
        candidates: Sequence[Triple],
        limit: int,
        sources: Sequence[str] | None = None,
    ) -> list[Message]:
        """Ask which candidates help to answer a query: `{"keep": [numbers]}`, from 1.

        Args:
            query: What is asked.
            candidates: Best first.
            limit: How many may be kept.
            sources: The title of the passage that each candidate is taken from, "" where it has
                none; None to show no titles.
        """
        note = "" if sources is None else self.titles_note
        shown, task = self.example, _filled(self.recognition_task, limit=str(limit), titles=note)
        titles = None if sources is None else (shown.title,) * len(shown.facts)
        useless = self._question_with_facts(shown.useless_for, shown.facts[::2], titles)
        return [
            self._task(task, CHOICE_SHAPE),
            Message("user", self._question_with_facts(shown.question, shown.facts, titles)),
            Message("assistant", _json({"keep": list(shown.useful[:limit])})),
            Message("user", useless),
            Message("assistant", _json({"keep": []})),
            Message("user", self._question_with_facts(query, candidates, sources)),
        ]

    def reading(self, question: str, passages: Sequence[tuple[str, str]]) -> list[Message]:
        """Ask a question over passages (title, text), best first: a last line `Answer: ...`.

        The passages are numbered from 1; a number in square brackets cites one.
        """
        shown, task = self.example, _filled(self.reading_task, answer=self.answer_label)
        asked = self._passages_with_question([(shown.title, shown.passage)], shown.reading_question)
        return [
            Message("system", f"{task}\n{self.data_rule}"),
            Message("user", asked),
            Message("assistant", f"{shown.thought} [1]\n{self.answer_label}: {shown.answer}"),
            Message("user", self._passages_with_question(passages, question)),
        ]

    def thought(
        self, question: str, passages: Sequence[tuple[str, str]], thoughts: Sequence[str]
    ) -> list[Message]:
        """Ask for one more thought on a question, or for its answer: a line `Answer: ...`.

        Args:
            question: What is asked.
            passages: Title and text of those found so far, best first.
            thoughts: Those that were written so far, in order.
        """
        shown, task = self.example, _filled(self.thought_task, answer=self.answer_label)
        passage = [(shown.title, shown.passage)]
        is_open = shown.open_question and shown.open_thought
        first, thought = (
            (shown.open_question, shown.open_thought)
            if is_open
            else (shown.reading_question, shown.thought)
        )
        last = self._passages_with_question(passage, shown.reading_question, [shown.thought])
        return [
            Message("system", f"{task}\n{self.data_rule}"),
            Message("user", self._passages_with_question(passage, first)),
            Message("assistant", thought),
            Message("user", last),
            Message("assistant", f"{self.answer_label}: {shown.answer}"),
            Message("user", self._passages_with_question(passages, question, thoughts)),
        ]

    def complaint(self, problem: str, shape: str) -> list[Message]:
        """Say that the last reply, which stands before this, could not be read."""
        said = _filled(self.complaint_text, problem=problem)
        return [Message("user", f"{said} {_filled(self.shape_rule, shape=shape)}")]

    # -- text from outside --------------------------------------------------------------------

    @staticmethod
    def block(label: str, text: str) -> str:
        """Fence a text with more backticks in a row than it holds, so that it cannot end the fence.

        Control tokens of chat templates in it are broken up: `<|im_end|>` becomes `< |im_end|>`.
        """
        longest = max((len(run) for run in re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{label}:\n{fence}\n{broken_up(text)}\n{fence}"

    @staticmethod
    def line(value: object) -> str:
        """Give JSON that is one line to whoever splits lines, also at rarer separators."""
        return _SEPARATORS.sub(lambda match: f"\\u{ord(match[0]):04x}", _json(value))

    # -- layout -------------------------------------------------------------------------------

    def _task(self, task: str, shape: str) -> Message:
        rule = _filled(self.shape_rule, shape=shape)
        return Message("system", f"{task}\n{self.data_rule}\n{rule}")

    def _passage_with_entities(self, passage: str, entities: Sequence[str]) -> str:
        named = self.block(self.entities_label, _entities_json(entities))
        return f"{self.block(self.passage_label, passage)}\n\n{named}"

    def _question_with_facts(
        self, query: str, candidates: Sequence[Triple], sources: Sequence[str] | None
    ) -> str:
        # A fact is one line of JSON, so that none can bring a number of its own.
        titles = ("",) * len(candidates) if sources is None else sources
        facts = "\n".join(
            f"{number}. {self.line({'fact': fact, 'title': title[:TITLE]} if title else fact)}"
            for number, (fact, title) in enumerate(zip(candidates, titles, strict=False), 1)
        )
        return f"{self.block(self.question_label, query)}\n\n{self.block(self.facts_label, facts)}"

    def _passages_with_question(
        self, passages: Sequence[tuple[str, str]], question: str, thoughts: Sequence[str] = ()
    ) -> str:
        blocks = [
            self.block(f"{self.passage_label} {number}", f"{title}\n{text}" if title else text)
            for number, (title, text) in enumerate(passages, 1)
        ]
        blocks += [self.block(f"{self.thought_label} {n}", t) for n, t in enumerate(thoughts, 1)]
        return "\n\n".join([*blocks, self.block(self.question_label, question)])


def fingerprint(prompts: Prompts) -> str:
    """Name what passages are read with: the version of our prompts, or a hash of other ones.

    It is made of the extraction prompts for one text, so other words for questions do not count; a
    subclass adds its name and `version`, since no one text shows all that a method may do.
    """
    if type(prompts) is Prompts and not prompts.version and _asked(prompts) == _asked(Prompts()):
        return PROMPTS_VERSION
    kind = type(prompts)
    names = [] if kind is Prompts else [kind.__module__, kind.__qualname__]
    return sha256_hex(*_asked(prompts), *names, prompts.version)[:16]


def checked(messages: Any, method: str) -> list[Message]:
    """Check what a method of prompts gave.

    Raises:
        InputError: It is no list of messages.
    """
    if isinstance(messages, str | Message) or not isinstance(messages, Sequence) or not messages:
        raise InputError(f"prompts.{method}() must give a list of Message, got {messages!r:.80}")
    for message in messages:
        if not isinstance(message, Message) or not isinstance(message.content, str):
            raise InputError(f"prompts.{method}() must give only Message, got {message!r:.80}")
        if message.role not in get_args(Role):
            roles = ", ".join(get_args(Role))
            raise InputError(
                f"prompts.{method}() must give messages with a role of {roles}, got "
                f"{message.role!r:.80}"
            )
    return list(messages)


def check_prompts(prompts: object) -> None:
    """Refuse what are no prompts: each method is called once.

    Raises:
        ConfigError: They are of another type.
        InputError: A method gives no list of messages.
    """
    if not isinstance(prompts, Prompts):
        raise ConfigError(
            f"prompts must be a Prompts, got {prompts!r:.80}; write Prompts(...) or a subclass of "
            "it, called"
        )
    fact = Triple("Ada", "wrote", "Notes")
    checked(prompts.entities("Ada wrote Notes."), "entities")
    checked(prompts.triples("Ada wrote Notes.", ("Ada", "Notes")), "triples")
    checked(prompts.query_entities("Who wrote Notes?"), "query_entities")
    checked(prompts.recognition("Who wrote Notes?", [fact], 1, None), "recognition")
    checked(prompts.recognition("Who wrote Notes?", [fact], 1, ["Notes"]), "recognition")
    checked(prompts.reading("Who wrote Notes?", [("Notes", "Ada wrote Notes.")]), "reading")
    found = [("Notes", "Ada wrote Notes.")]
    checked(prompts.thought("Who wrote Notes?", found, ["Ada wrote them."]), "thought")
    checked(prompts.complaint("it is empty", TRIPLES_SHAPE), "complaint")


def _asked(prompts: Prompts) -> list[str]:
    passage, entities = "Ada wrote Notes.", ("Ada", "Notes")
    prompt = [*prompts.entities(passage), *prompts.triples(passage, entities)]
    prompt += prompts.complaint("it is empty", TRIPLES_SHAPE)
    return [part for message in prompt for part in message]


def _filled(text: str, **values: str) -> str:
    """Put values where their names stand in braces; other braces, as of JSON, stay."""
    names = "|".join(values)
    return re.sub(rf"\{{({names})\}}", lambda match: values[match[1]], text)


def _entities_json(entities: Sequence[str]) -> str:
    return _json({"named_entities": list(entities)})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_PLACES = {
    "recognition_task": "{limit}",
    "reading_task": "{answer}",
    "thought_task": "{answer}",
    "shape_rule": "{shape}",
    "complaint_text": "{problem}",
}

_SEPARATORS = re.compile("[\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]")
