"""LlamaIndex's global models, looked up when they are needed and not before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.settings import Settings

from hippo_core import Completion, Message, ModelRequiredError
from llama_index_hipporag._models import LlamaIndexChatModel


class SettingsChatModel:
    """`Settings.llm` as the core's ChatModel, whatever it is by then."""

    @property
    def is_set(self) -> bool:
        """Whether someone has set it; asking for it would make an LLM of OpenAI's."""
        return Settings._llm is not None

    @property
    def name(self) -> str:
        """The model's own name, where it has one."""
        return self._chat_model.name

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        return self._chat_model.complete(messages)

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt without blocking the event loop."""
        return await self._chat_model.acomplete(messages)

    def __reduce__(self) -> tuple[Any, ...]:
        """Give another process the LLM of now: it has settings of its own."""
        if self.is_set:
            return LlamaIndexChatModel, (Settings.llm,)
        return type(self), ()

    @property
    def _chat_model(self) -> LlamaIndexChatModel:
        try:
            return LlamaIndexChatModel(Settings.llm)
        except (ImportError, ValueError) as error:  # LlamaIndex's default is not there
            raise ModelRequiredError(
                "nodes are read by an LLM, and there is none: pass llm=..., set Settings.llm, or "
                f"pass openie=... to read without one; LlamaIndex says: {error}"
            ) from error


def settings_embed_model() -> BaseEmbedding:
    """Give `Settings.embed_model`.

    Raises:
        ModelRequiredError: None was set, and LlamaIndex's default is not installed.
    """
    try:
        return Settings.embed_model
    except (ImportError, ValueError) as error:
        raise ModelRequiredError(
            "a memory needs an embedding model, and there is none: pass embed_model=... or set "
            f"Settings.embed_model; LlamaIndex says: {error}"
        ) from error
