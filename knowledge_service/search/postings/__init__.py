"""The inverted index: segments, their codec and merge policy, the reader and its cache."""
