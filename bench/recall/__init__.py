"""How well recall finds what answers a question, beside plain FTS5 on the same texts."""

from bench.recall.evaluation import run

__all__ = ["run"]
