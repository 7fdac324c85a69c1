"""The doubles of the frameworks that are installed; what needs another one is not collected."""

from importlib.util import find_spec
from pathlib import Path

from adapter_corpus import *  # noqa: F403

HERE = Path(__file__).parent
OF_LANGCHAIN = {path.name for path in HERE.glob("test_langchain_*.py")}
OF_LLAMA_INDEX = {path.name for path in HERE.glob("test_llama_index_*.py")}
OF_EITHER = {"test_isolation.py"}
OF_BOTH = {path.name for path in HERE.glob("test_*.py")} - OF_LANGCHAIN - OF_LLAMA_INDEX - OF_EITHER

collect_ignore = ["doubles"]

if find_spec("langchain_core") is None:
    collect_ignore += OF_LANGCHAIN | OF_BOTH
else:
    from langchain_doubles import *  # noqa: F403

if find_spec("llama_index") is None:
    collect_ignore += OF_LLAMA_INDEX | OF_BOTH
else:
    from llama_index_doubles import *  # noqa: F403
