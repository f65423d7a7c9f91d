"""Ranking: BM25, the features that adjust a score, and near-duplicate detection."""
