"""Full-text search over arrays: text, query, postings and ranking. Stores keep the rows; no SQL."""
