"""The database's tables, schema version 4.

| table | a row is |
|---|---|
| hippo_settings | what the store says of itself: format, schema version, id |
| hippo_namespaces | a namespace: its version, its embedder's generation, the user's curation |
| hippo_commits | a raise of a namespace's version, with a random id |
| hippo_embedders | an embedder of a namespace: the current one, or one that vectors are made by |
| hippo_passages | a live passage, with the text to embed in place of its own, if any |
| hippo_edges | the user's edges of a live passage that has some |
| hippo_extractions | what was read out of a text, committed or pending |
| hippo_vectors | the unit vector of a text |
| hippo_changes | the last change of a passage, live or deleted |
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

FORMAT = "hippo-core"
SCHEMA_VERSION = 4

ENTITIES_READ = "entities read"
"""Status of an extraction whose entities are known and whose triples are not yet."""

UNRECORDED = 0
"""The generation of vectors whose embedder is not recorded."""


class Text(sa.types.TypeDecorator[str]):
    """Any Unicode text. PostgreSQL has no NUL character: there it is written as SUBSTITUTE 0."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Give the text as the database holds it."""
        if value is None or dialect.name == "sqlite":
            return value
        return value.replace("\x1a", "\x1a1").replace("\x00", "\x1a0")

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> str | None:
        """Give the text as it was."""
        if value is None or dialect.name == "sqlite":
            return value
        return str(value).replace("\x1a0", "\x00").replace("\x1a1", "\x1a")


metadata = sa.MetaData()

settings = sa.Table(
    "hippo_settings",
    metadata,
    sa.Column("name", Text, primary_key=True),
    sa.Column("value", Text, nullable=False),
)
namespaces = sa.Table(
    "hippo_namespaces",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("generation", sa.Integer),  # of the current embedder
    sa.Column("generations", sa.Integer, nullable=False),  # given out so far; none comes twice
    sa.Column("curation", Text),
)
commits = sa.Table(
    "hippo_commits",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("commit_id", Text, nullable=False),
)
embedders = sa.Table(
    "hippo_embedders",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("name", Text, nullable=False),
    sa.Column("probe", sa.LargeBinary, nullable=False),
    sa.Column("dimension", sa.Integer, nullable=False),
)
passages = sa.Table(
    "hippo_passages",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("id", Text, primary_key=True),
    sa.Column("text", Text, nullable=False),
    sa.Column("title", Text, nullable=False),
    sa.Column("source_id", Text),
    sa.Column("metadata", Text, nullable=False),
    sa.Column("text_key", Text, nullable=False),
    sa.Column("reason", Text, nullable=False),  # why its text has no extraction
    sa.Column("embed_text", Text, nullable=False, server_default=""),  # last, as in a migrated one
    sa.Index("hippo_passages_by_text", "namespace", "text_key"),
    sa.Index("hippo_passages_by_source", "namespace", "source_id"),
)
edges = sa.Table(
    "hippo_edges",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("passage_id", Text, primary_key=True),
    sa.Column("edges", Text, nullable=False),  # kind, name and weight of each, as JSON
)
extractions = sa.Table(
    "hippo_extractions",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("text_key", Text, primary_key=True),
    sa.Column("pending", sa.Boolean, primary_key=True),  # read, and not committed with its vectors
    sa.Column("extractor", Text, nullable=False),
    sa.Column("status", Text, nullable=False),
    sa.Column("reason", Text, nullable=False),
    sa.Column("entities", Text, nullable=False),
    sa.Column("triples", Text, nullable=False),
    sa.Column("dropped", Text, nullable=False),
)
vectors = sa.Table(
    "hippo_vectors",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", Text, primary_key=True),
    sa.Column("text_key", Text, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
changes = sa.Table(
    "hippo_changes",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("id_key", Text, primary_key=True),
    sa.Column("passage_id", Text),  # forgotten with the passage
    sa.Column("version", sa.Integer, nullable=False),
    sa.Index("hippo_changes_by_version", "namespace", "version"),
)
