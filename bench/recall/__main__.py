"""`python -m bench.recall`: figures to look at while recall is changed, of the tuning sets alone.

`python -m bench recall` has those that are reported.
"""

from bench.recall import evaluation

if __name__ == "__main__":
    print(evaluation.tuned())
