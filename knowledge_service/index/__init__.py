"""The full-text index as arrays.

Analyser, postings, scorer. The stores keep the blocks; no SQL here.
"""
