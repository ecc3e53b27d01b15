"""``python -m tests.hostile``: a corpus of hostile files, and how the commands end.

The corpus follows from the seed: ``--only N`` makes one file again, ``--keep FOLDER`` leaves it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.hostile.corpus import Corpus, run
from tests.hostile.judging import Ended, judge_apart, table


def main() -> int:
    """Make the files, call the commands, print a table and what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.hostile")
    parser.add_argument("--files", type=int, default=2000, help="how many mutated files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--apart", type=int, default=0, help="how many also as processes")
    parser.add_argument("--bombs", metavar="REGEX", help="the large files so named, as processes")
    parser.add_argument("--only", type=int, help="one file alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(given.seed, Path(folder))
        if given.only is not None:
            print(judge_apart(given.only, corpus.case(given.only), Path(folder) / "only"))
            return 0
        ended: list[Ended] = []
        for title, some in run(corpus, given.files, given.apart, given.jobs, bombs=given.bombs):
            print(f"\n{title}")
            print(*table(some), sep="\n", flush=True)
            ended += some
    wrong = [each for each in ended if each.wrong]
    for each in wrong[:40]:
        print(f"\n{each.case}: {each.what}\n  {' '.join(each.command)}\n  {each.wrong[-500:]}")
    slow = sorted(ended, key=lambda each: -each.seconds)[:5]
    for each in slow:
        print(f"slow: {each.case}: {each.seconds:.2f} s {each.what}: {' '.join(each.command)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
