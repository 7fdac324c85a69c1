"""HippoRAG: the memory that a person without a framework uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hippo_core.answers import Answer
from hippo_core.asking import Asking
from hippo_core.config import HippoConfig
from hippo_core.errors import InputError, ModelRequiredError
from hippo_core.flows import Each, Flow, Meter, Metered, Models
from hippo_core.inputs import Search, checked_queries, checked_query, checked_search
from hippo_core.iterations import IterativeRetrieval
from hippo_core.ports import ChatModel
from hippo_core.reading import read
from hippo_core.streaming import Listener
from hippo_core.streams import AnswerStream, AsyncAnswerStream
from hippo_core.types import Retrieval
from hippo_core.where import Where


class HippoRAG(Asking):
    """A memory of passages: add, delete and retrieve at any time, from any thread or event loop.

    Args:
        chat_model: Reads passages and judges linked triples; not needed where `openie` is given, or
            where nothing has to be read.
        embedder: Embeds passages, phrases, triples and queries; None where nothing is added or
            asked.
        store: None for a memory that ends with the process, a folder, or a PostgreSQL URL.
        namespace: Name of this memory inside the store.
        config: Settings; the default is HippoRAG 2.
        openie: An extractor to use instead of the chat model.
        recognition: A judge of linked triples to use instead of the chat model.
        prompts: What the chat model is asked; None for our own words.
        create: Whether a missing folder becomes a new store.
        snapshot_dir: Where derived files go if the store is a URL; None for nowhere.

    Raises:
        StoreError: The store cannot be used; the subclass says why.
        EmbedderMismatchError: The store was built with another embedder.

    >>> from hippo_core import Extraction, Passage, Triple
    >>> from hippo_core.testing import HashEmbedder
    >>> memory = HippoRAG(None, HashEmbedder())
    >>> wrote = Extraction(triples=(Triple("Ada Lovelace", "wrote", "the first program"),))
    >>> ada = Passage("Ada Lovelace wrote the first program.", id="ada")
    >>> report = memory.add_extracted([(ada, wrote)])
    >>> [hit.passage.id for hit in memory.retrieve("Who wrote the first program?")]
    ['ada']
    """

    # -- answer -------------------------------------------------------------------------------

    def answer(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        retrieval: Retrieval | IterativeRetrieval | None = None,
        chat_model: ChatModel | None = None,
    ) -> Answer:
        """Retrieve k passages and let the chat model answer from them.

        It is shown as many of them as leave room for a reply under the context limit. Where nothing
        is found it is not asked.

        Args:
            question: Text that is not blank.
            k: How many passages, at least 1.
            where: As in `retrieve`.
            config: As in `retrieve`.
            retrieval: What was found already, such as by `ircot`: nothing is retrieved then, and
                the three before have no part.
            chat_model: Used for this call in place of the memory's own: it reads, and judges.

        Raises:
            InputError: The question is blank, or k is below 1.
            ModelRequiredError: There is no chat model.
            ModelError: A call failed.
            ParseError: There is no answer in the reply.
        """
        meter, models = Meter(), self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)
        flow = self._answer_flow(question, search, models, meter, retrieval)
        return self._driver(models, meter).run(flow)

    async def aanswer(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        retrieval: Retrieval | IterativeRetrieval | None = None,
        chat_model: ChatModel | None = None,
    ) -> Answer:
        """Do what `answer` does, without blocking the event loop."""
        meter, models = Meter(), self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)
        flow = self._answer_flow(question, search, models, meter, retrieval)
        return await self._driver(models, meter).arun(flow)

    def answer_many(
        self,
        questions: Sequence[str],
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        chat_model: ChatModel | None = None,
    ) -> list[Answer]:
        """Answer each question, several at once; each result is what `answer` gives.

        One that fails fails the call, as in `retrieve_many`.
        """
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)
        return self._driver(models, Meter()).run(self._answers_flow(questions, search, models))

    async def aanswer_many(
        self,
        questions: Sequence[str],
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        chat_model: ChatModel | None = None,
    ) -> list[Answer]:
        """Do what `answer_many` does, without blocking the event loop."""
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)
        flow = self._answers_flow(questions, search, models)
        return await self._driver(models, Meter()).arun(flow)

    def stream(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        retrieval: Retrieval | IterativeRetrieval | None = None,
        chat_model: ChatModel | None = None,
    ) -> AnswerStream:
        """Do what `answer` does, and give the reply as it is written: thought, then answer.

        Nothing is done before the first piece is asked for. `stream.answer` is the `Answer` once
        all pieces were taken; `close()`, leaving a `with`, or letting go of it ends the call at its
        next piece. The
        chat model is a `StreamingChatModel`, as the adapters' are; one that is not gives its reply
        in one piece. A reply that breaks off after its first piece is not tried again.
        """
        meter, models = Meter(), self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)

        def answer(listener: Listener) -> Answer:
            flow = self._answer_flow(question, search, models, meter, retrieval, listener)
            return self._driver(models, meter).run(flow)

        return AnswerStream(answer)

    def astream(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        retrieval: Retrieval | IterativeRetrieval | None = None,
        chat_model: ChatModel | None = None,
    ) -> AsyncAnswerStream:
        """Do what `stream` does, without blocking the event loop: `async for` takes the pieces."""
        meter, models = Meter(), self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)

        async def answer(listener: Listener) -> Answer:
            flow = self._answer_flow(question, search, models, meter, retrieval, listener)
            return await self._driver(models, meter).arun(flow)

        return AsyncAnswerStream(answer)

    # -- flows --------------------------------------------------------------------------------

    def _answer_flow(
        self,
        question: str,
        search: Callable[[], Search],
        models: Models,
        meter: Meter,
        retrieval: Retrieval | IterativeRetrieval | None = None,
        listener: Listener | None = None,
    ) -> Flow[Answer]:
        if models.chat is None:
            raise ModelRequiredError("answer() needs a chat model; retrieve() does not")
        asked = checked_query(question)
        if not isinstance(retrieval, Retrieval | IterativeRetrieval | None):
            raise InputError(
                f"retrieval must be what retrieve() or ircot() gave, got {type(retrieval).__name__}"
            )
        found = retrieval
        if found is None:
            found = yield from self._retrieve_flow(asked, search, models, meter)
        limit = self.config.context_limit
        said = yield from read(asked, found, models.prompts, context_limit=limit, listener=listener)
        return Answer(said.answer, found, meter.usage, said.thought, said.citations, said.is_cut)

    def _answers_flow(
        self, questions: Sequence[str], search: Callable[[], Search], models: Models
    ) -> Flow[list[Answer]]:
        asked, checked = checked_queries(questions), search()

        def one(question: str) -> Flow[Answer]:
            meter = Meter()
            flow = self._answer_flow(question, lambda: checked, models, meter)
            answer: Answer = yield Metered(flow, meter)
            return answer

        answers: list[Answer] = yield Each([one(question) for question in asked])
        return answers
