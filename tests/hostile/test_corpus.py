"""A sample of hostile files: every command ends in a verdict or one line, within its budget."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from tests.hostile.bombs import bombs
from tests.hostile.corpus import OTHERS, Corpus
from tests.hostile.judging import Ended, judge_apart, judge_here, wrong_with
from tests.recorded.hostile import asked, header, write
from tests.scenarios.command import Said, complaint, sottovoce

BOMBS = (
    "^header of empty lists ",
    "^header of empty members",
    "^a charter nested",
    "^a plan nested and closed",
    "^undelivered, signed",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(1, tmp_path_factory.mktemp("hostile") / "corpus")


def judged(corpus: Corpus, numbers: range) -> list[Ended]:
    folder = corpus.folder / "case"
    # Most of this process's memory is not the command's.
    found = [
        judge_here(number, corpus.case(number), folder, megabytes=math.inf) for number in numbers
    ]
    shutil.rmtree(folder, ignore_errors=True)
    return found


def wrong(ended: list[Ended]) -> list[Ended]:
    return [each for each in ended if each.wrong]


@pytest.mark.slow
def test_a_sample_ends_in_a_verdict_or_one_line(corpus: Corpus) -> None:
    ended = judged(corpus, range(16 * OTHERS))
    assert wrong(ended) == []
    assert {each.code for each in ended} >= {0, 1, 2}
    commands = {each.command[0] for each in ended}
    assert commands >= {"verify", "audit", "show", "query", "export", "prove"}


@pytest.mark.slow
def test_a_file_of_the_corpus_follows_from_seed_and_number(corpus: Corpus) -> None:
    assert corpus.case(3) == corpus.case(3) != corpus.case(4)


def test_parameters_that_fail_only_when_they_are_used(tmp_path: Path) -> None:
    """What a variant makes of its parameters later is made when the header is read."""
    path = write(tmp_path / "t.svt", header("rrba", asked(3), {"p": 1e-300, "k": 2}))
    assert "rounds to 0 or 1" in complaint(sottovoce("audit", path))


@pytest.mark.slow
def test_many_end_in_a_verdict_or_one_line(corpus: Corpus) -> None:
    assert wrong(judged(corpus, range(2000))) == []


@pytest.mark.slow
@pytest.mark.parametrize("pattern", BOMBS)
def test_a_bomb_ends_so_within_its_memory(pattern: str, corpus: Corpus) -> None:
    ended = [judge_apart(0, case, corpus.folder / "bomb") for case in bombs(pattern)]
    assert ended
    assert wrong(ended) == []
    if "undelivered" in pattern:
        assert {each.code for each in ended} == {1}


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (Said(70, "", "Traceback\n"), "exit 70"),
        (Said(-9, "", ""), "exit -9"),
        (Said(2, "", "sottovoce: a\nsottovoce: b\n"), "2 lines"),
        (Said(2, "half\n", "sottovoce: a\n"), "exit 2 with"),
        (Said(1, "", "a warning\n"), "stderr"),
        (Said(1, "", ""), "nothing was said"),
        (Said(1, "\x1b[2J\n", ""), "control"),
        (Said(1, "{\n", ""), "not JSON"),
    ],
)
def test_what_is_wrong_is_seen(said: Said, what: str) -> None:
    assert what in wrong_with(said, ("audit", "--json"))
    assert wrong_with(Said(2, "", "sottovoce: no\n"), ("audit",)) == ""
    assert wrong_with(Said(3, "could not finish\n", ""), ("audit",)) == ""
