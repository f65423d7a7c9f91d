"""Embeddings from an OpenAI-compatible endpoint; nothing of this runs unless one is configured."""
