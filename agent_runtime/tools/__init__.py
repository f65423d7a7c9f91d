"""The tools of minds: plain functions, whose docstrings the model reads."""
