"""IRCoT: a thought and a retrieval in turns (Trivedi et al., ACL 2023), over any of our methods.

The first paper combines it with HippoRAG (section 4, Table 3). The question is searched for first;
then the chat model, shown the best passages so far and its own thoughts, writes one more thought,
which is searched for alone; and so on, until it writes the answer marker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import NamedTuple

from hippo_core.control_tokens import as_written
from hippo_core.embedding import Embedding
from hippo_core.errors import (
    ContextTooLongError,
    InputError,
    ModelError,
    ModelRequiredError,
    ParseError,
)
from hippo_core.flows import Complete, Flow, Meter, Metered, Models
from hippo_core.inputs import Search, is_unicode
from hippo_core.iterations import Ending, IterativeRetrieval, RetrievalStep
from hippo_core.parsing import Thought, parse_thought
from hippo_core.prompts import checked
from hippo_core.retrieval import retrieve
from hippo_core.showing import Shown, fewer, fitting
from hippo_core.similarity import round_significant
from hippo_core.snapshot import Snapshot
from hippo_core.text import normalise_phrase
from hippo_core.types import Completion, Message, Retrieval, RetrievalPath, ScoredPassage

MAX_STEPS = 4  # of retrieval, as the papers take for MuSiQue


def checked_steps(max_steps: int) -> int:
    """Check how many retrievals there may be.

    Raises:
        InputError: It is no whole number, or below 1.
    """
    if isinstance(max_steps, bool) or not isinstance(max_steps, Integral) or max_steps < 1:
        raise InputError(f"max_steps must be a whole number of at least 1, got {max_steps!r}")
    return int(max_steps)


# -- merging ---------------------------------------------------------------------------------------


class Merged(NamedTuple):
    """The rankings of some steps as one."""

    passages: tuple[ScoredPassage, ...]
    """All that any step found, best first."""
    step_of: dict[str, int]


def merge(found: Sequence[Retrieval]) -> Merged:
    """Merge the rankings of steps, given with relative scores, into one.

    PPR mass and cosines have no scale in common, nor have the masses of two walks; what a passage
    is worth beside the best of its own step is the same in all. So a passage counts

        s(p) = max over the steps that walked the graph of score(p) / score(best of the step).

    What no such step found, but a dense one did, has that maximum over the dense steps, times half
    of the lowest s(p): a step that fell back to dense retrieval outranks nothing that the graph
    found. Where all steps are dense, their maximum is the score. Ties, in 10 significant digits, go
    to the earlier step, and inside of it to the lower passage id.
    """
    walked: dict[str, tuple[float, int, ScoredPassage]] = {}
    dense: dict[str, tuple[float, int, ScoredPassage]] = {}
    for number, retrieval in enumerate(found, 1):
        best = walked if retrieval.path.used_graph else dense
        for hit in retrieval:
            score = round_significant(hit.score).item()
            if hit.passage.id not in best or score > best[hit.passage.id][0]:
                best[hit.passage.id] = score, number, hit
    share = min((hit.score for _, _, hit in walked.values()), default=2.0) / 2
    left = [entry for id_, entry in dense.items() if id_ not in walked]
    first, then = (
        sorted(entries, key=lambda entry: (-entry[0], entry[1], entry[2].rank))
        for entries in (walked.values(), left)
    )
    hits = [hit for _, _, hit in first]
    hits += [replace(hit, score=hit.score * share) for _, _, hit in then]
    return Merged(
        tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)),
        {hit.passage.id: number for _, number, hit in (*first, *then)},
    )


# -- steps -----------------------------------------------------------------------------------------


def ircot(
    query: str,
    snapshot: Snapshot,
    embedding: Embedding,
    models: Models,
    search: Search,
    *,
    max_steps: int,
    context_limit: int | None,
) -> Flow[IterativeRetrieval]:
    """Search for a question, then for one thought after the other, all in one snapshot.

    Raises:
        ModelRequiredError: More than one step may be made, and there is no chat model.
        ConfigError: The context limit leaves no room for any passage.
        ModelError: The embedder failed at the first step; or, where settings say so, a model did at
            a later one.
        ParseError: A thought cannot be read, and settings say so.
    """
    if max_steps > 1 and models.chat is None:
        raise ModelRequiredError(
            "ircot() has a chat model think between its retrievals, and none was given: give one, "
            "as chat_model= of this call or of the memory; retrieve() and max_steps=1 need none"
        )
    if search.where is not None:  # once: what a function allows must not change between steps
        snapshot = snapshot.restricted(search.where)
    search = search._replace(where=None, score_mode="relative")
    later = search._replace(dense_queries=())  # which stand for the question alone

    def look_for(text: str, *, is_first: bool = False) -> Flow[Retrieval]:
        return retrieve(text, snapshot, embedding, models, search if is_first else later)

    chain = _Chain(query, look_for, models, search, context_limit)
    return (yield from chain.run(max_steps, snapshot.graph.n_passages))


class _Chain:
    """One question's steps; used once."""

    def __init__(
        self,
        query: str,
        look_for: Callable[..., Flow[Retrieval]],
        models: Models,
        search: Search,
        context_limit: int | None,
    ) -> None:
        self._query = query
        self._look_for = look_for
        self._prompts = models.prompts
        self._k = search.k
        self._is_strict = search.config.on_failure == "raise"
        self._context_limit = context_limit
        self._steps: list[RetrievalStep] = []
        self._merged = Merged((), {})
        self._answer: str | None = None
        self._detail = ""

    def run(self, max_steps: int, n_passages: int) -> Flow[IterativeRetrieval]:
        """Make steps until one of them is the last."""
        ended = yield from self._first()
        while ended is None:
            if len(self._steps) >= max_steps:
                ended = Ending.MAX_STEPS
            elif len(self._merged.passages) >= n_passages:
                ended = Ending.NOTHING_NEW
            else:
                ended = yield from self._next()
        best = self._merged.passages[: self._k]
        return IterativeRetrieval(
            query=self._query,
            passages=best,
            steps=tuple(self._steps),
            ended=ended,
            detail=self._detail,
            answer=self._answer,
            step_of={hit.passage.id: self._merged.step_of[hit.passage.id] for hit in best},
        )

    def _first(self) -> Flow[Ending | None]:
        meter = Meter()
        found: Retrieval = yield Metered(self._look_for(self._query, is_first=True), meter)
        self._keep("", found, meter)
        return Ending.EMPTY if found.path is RetrievalPath.EMPTY else None

    def _next(self) -> Flow[Ending | None]:
        """Think, and search for the thought; give why this was the last step, if it was."""
        thinking, searching = Meter(), Meter()
        thought = Thought("", None)
        found: Retrieval | None = None
        ended: Ending | None = None
        try:
            thought = yield Metered(self._think(), thinking)
            self._answer = thought.answer
            if thought.answer is not None:
                ended = Ending.ANSWERED
            elif self._is_known(thought.text):
                ended = Ending.REPEATED
            else:
                found = yield Metered(self._look_for(thought.text), searching)
        except ParseError as error:
            if self._is_strict:
                raise
            ended, self._detail = Ending.UNREADABLE, str(error)
        except ModelError as error:
            if self._is_strict:
                raise
            ended, self._detail = Ending.FAILED, str(error)
        self._keep(thought.text, found, searching, thinking)
        return ended

    def _keep(
        self, thought: str, found: Retrieval | None, searching: Meter, thinking: Meter | None = None
    ) -> None:
        if found is not None:
            found = replace(found, usage=searching.usage)
        usage = searching.usage if thinking is None else thinking.usage + searching.usage
        self._steps.append(RetrievalStep(len(self._steps) + 1, thought, found, usage))
        if found is not None:
            self._merged = merge([s.retrieval for s in self._steps if s.retrieval is not None])

    def _is_known(self, thought: str) -> bool:
        """Whether it says, but for case and punctuation, what was searched for before."""
        return normalise_phrase(thought) in {normalise_phrase(step.query) for step in self._steps}

    # -- thoughts -----------------------------------------------------------------------------

    def _think(self) -> Flow[Thought]:
        """Ask for the next thought over the best passages, fewer where the model refuses them.

        Raises:
            ParseError: There is no thought in the reply, and no answer.
            ModelError: The call failed.
        """
        best = [hit.passage for hit in self._merged.passages[: self._k]]
        shown: Shown = [(passage.title, passage.text) for passage in best]
        while True:
            prompt, shown = fitting(shown, self._prompt, self._context_limit, "a thought")
            try:
                completion: Completion = yield Complete(prompt, "thought")
            except ContextTooLongError:
                if not (shown := fewer(shown)):
                    raise
            else:
                return self._read(completion.text, shown)

    def _read(self, reply: str, shown: Shown) -> Thought:
        if not is_unicode(reply):
            raise ParseError("it holds a lone surrogate", reply)
        thought = parse_thought(
            reply, label=self._prompts.answer_label, thought_label=self._prompts.thought_label
        )
        source = "\n".join([self._query, *(part for both in shown for part in both)])
        answer = None if thought.answer is None else as_written(thought.answer, source)
        return Thought(as_written(thought.text, source), answer)

    def _prompt(self, shown: Shown) -> list[Message]:
        thoughts = [step.thought for step in self._steps if step.thought]
        return checked(self._prompts.thought(self._query, shown, thoughts), "thought")
