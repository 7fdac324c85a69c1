"""The database's tables."""

from __future__ import annotations

import sqlalchemy as sa

FORMAT = "hippo-core"
SCHEMA_VERSION = 1

metadata = sa.MetaData()

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
)
namespaces = sa.Table(
    "namespaces",
    metadata,
    sa.Column("namespace", sa.String, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("embedder", sa.String),
    sa.Column("probe", sa.LargeBinary),
)
passages = sa.Table(
    "passages",
    metadata,
    sa.Column("namespace", sa.String, primary_key=True),
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("text", sa.String, nullable=False),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("source_id", sa.String),
    sa.Column("metadata", sa.String, nullable=False),
    sa.Column("text_key", sa.String, nullable=False),
    sa.Column("reason", sa.String, nullable=False),  # why its text has no extraction
    sa.Index("passages_by_text", "namespace", "text_key"),
)
extractions = sa.Table(
    "extractions",
    metadata,
    sa.Column("namespace", sa.String, primary_key=True),
    sa.Column("text_key", sa.String, primary_key=True),
    sa.Column("pending", sa.Boolean, primary_key=True),  # read, and not committed with its vectors
    sa.Column("extractor", sa.String, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("entities", sa.String, nullable=False),
    sa.Column("triples", sa.String, nullable=False),
    sa.Column("dropped", sa.String, nullable=False),
)
vectors = sa.Table(
    "vectors",
    metadata,
    sa.Column("namespace", sa.String, primary_key=True),
    sa.Column("kind", sa.String, primary_key=True),
    sa.Column("text_key", sa.String, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
changes = sa.Table(
    "changes",
    metadata,
    sa.Column("namespace", sa.String, primary_key=True),
    sa.Column("id_key", sa.String, primary_key=True),
    sa.Column("passage_id", sa.String),  # forgotten with the passage
    sa.Column("version", sa.Integer, nullable=False),
    sa.Index("changes_by_version", "namespace", "version"),
)

ENTITIES_READ = "entities read"
"""Status of an extraction whose entities are known and whose triples are not yet."""
