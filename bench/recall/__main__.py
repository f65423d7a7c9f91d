"""`python -m bench.recall`: figures to look at while recall is changed, of the tuning sets alone.

`python -m bench.recall weights` learns the weights of the ranking features from these sets, and
writes their file. `python -m bench.recall features` shows what each of them brings on questions
that none was learned from: meetings, and with `--locomo FILE...` and `--faqs DIR` those of the
commands below. `python -m bench.recall faqs DIR` judges the thesaurus by the FAQs of other
projects, which it clones into a folder, and `python -m bench.recall headings DIR [judged]` each
source and group of it by headings of documentation as well. `python -m bench.recall locomo
FILE...` has the figures of a public set of conversations. `python -m bench.recall vectors DIR`
makes the word vectors from the documentation of further projects, and
`python -m bench.recall distil DIR` those for turns, with a sentence encoder.
`python -m bench recall` has the figures that are reported.
"""

import argparse
import sys
from pathlib import Path

from bench.recall import (
    ablation,
    distilled_vectors,
    evaluation,
    faqs,
    headings,
    locomo,
    training,
    word_vectors,
)

if __name__ == "__main__":
    if sys.argv[1:] == ["weights"]:
        training.FILE.write_bytes(training.learn())
        print(f"wrote {training.FILE}")
    elif sys.argv[1:2] == ["features"]:
        parser = argparse.ArgumentParser("python -m bench.recall features")
        parser.add_argument("--locomo", nargs="+", type=Path, default=[], metavar="FILE")
        parser.add_argument("--faqs", type=Path, metavar="DIR")
        options = parser.parse_args(sys.argv[2:])
        print(ablation.run(options.locomo, options.faqs))
    elif sys.argv[1:2] == ["faqs"]:
        if len(sys.argv) != 3:
            sys.exit("usage: python -m bench.recall faqs DIR")
        print(faqs.run(Path(sys.argv[2])))
    elif sys.argv[1:2] == ["headings"]:
        if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["judged"]):
            sys.exit("usage: python -m bench.recall headings DIR [judged]")
        print(headings.run(Path(sys.argv[2]), sys.argv[3] if sys.argv[3:] else "tuning"))
    elif sys.argv[1:2] == ["locomo"]:
        if len(sys.argv) < 3:
            sys.exit("usage: python -m bench.recall locomo FILE...")
        print(locomo.run([Path(name) for name in sys.argv[2:]]))
    elif sys.argv[1:2] == ["vectors"]:
        if len(sys.argv) != 3:
            sys.exit("usage: python -m bench.recall vectors DIR")
        print(f"wrote {word_vectors.write(Path(sys.argv[2]))}")
    elif sys.argv[1:2] == ["distil"]:
        if len(sys.argv) != 3:
            sys.exit("usage: python -m bench.recall distil DIR")
        print(f"wrote {distilled_vectors.write(Path(sys.argv[2]))}")
    else:
        print(evaluation.run_tuning())
