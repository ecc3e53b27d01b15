"""The corpus of hostile files: each follows from a seed and its number; and how it is judged."""

from __future__ import annotations

import multiprocessing
import multiprocessing.pool
import resource
import shutil
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from tests.hostile import others
from tests.hostile.bombs import bombs as all_bombs
from tests.hostile.judging import Case, Ended, judge_apart, judge_here
from tests.hostile.transcripts import OBSERVERS, mutated, sources

OTHERS = 8
"""One file in so many is of another kind than a transcript."""

_CHUNK = 250
_MOST = 3 << 30
"""The most memory of a process that judges, in bytes: so much is wrong in any case."""


class Corpus:
    """The files of a seed.

    Args:
        seed: decides all of them.
        folder: for the true files, and for those of the corpus while they are judged.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self.folder = folder
        self._true = folder / others.TRUE
        folder.mkdir(parents=True, exist_ok=True)
        others.lay_out(self._true)
        sources()

    def case(self, number: int) -> Case:
        """A file, and a command that reads it."""
        random = Random(f"{self._seed}-{number}")
        if number % OTHERS == 0:
            return Case(*others.another(random, self._true))
        what, content = mutated(random)
        return Case(what, {"t.svt": content}, _command(random))


def _command(random: Random) -> tuple[str, ...]:
    """A command for a transcript; an audit reads it in the most ways."""
    what = random.random()
    if what < 0.25:
        options = random.choice(((), ("--json",), ("--checkpoints", "@/notes")))
        return "verify", "@/t.svt", *options
    if what < 0.7:
        return "audit", "@/t.svt", *_asked(random)
    if what < 0.8:
        return "show", "@/t.svt"
    if what < 0.87:
        question = random.choice(("SELECT count(*) FROM sent", "SELECT * FROM delivered LIMIT 3"))
        return "query", "@/t.svt", question, "--json"
    if what < 0.9:
        return "export", "@/t.svt", "--to", "@/tables"
    party = f"party-{random.randrange(1, 7)}"
    return "prove", "@/t.svt", party, "--out", "@/receipt"


def _asked(random: Random) -> tuple[str, ...]:
    choices = (
        ("--json",),
        ("--json", "--observer", "aggregator,party-1"),
        ("--json", "--observer", "party-2,party-3", "--tap", "aggregator:party-4"),
        ("--json", "--worst", random.choice("012")),
        ("--json", "--observer", random.choice(OBSERVERS), "--replay"),
        ("--observer", "aggregator", "--key", "party-1", "--worst", "1", "--html", "@/page.html"),
        ("--trail", "party-1", "--observer", random.choice(OBSERVERS)),
        (),
    )
    return random.choice((*choices[:5], *choices))


def _work(corpus: Corpus, numbers: range) -> list[Ended]:
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST, _MOST))
    folder = corpus.folder / f"{numbers.start}"
    ended = [judge_here(number, corpus.case(number), folder) for number in numbers]
    shutil.rmtree(folder, ignore_errors=True)
    return ended


def judged(corpus: Corpus, files: int, jobs: int) -> list[Ended]:
    """How the commands end, called in processes that fork from this one.

    Raises:
        RuntimeError: such a process died.
    """
    chunks = [range(i, min(i + _CHUNK, files)) for i in range(0, files, _CHUNK)]
    if jobs == 1:
        return [each for chunk in chunks for each in _work(corpus, chunk)]
    found: list[Ended] = []
    context = multiprocessing.get_context("fork")
    going: list[tuple[BaseProcess, Connection, range]] = []
    while chunks or going:
        while chunks and len(going) < jobs:
            chunk = chunks.pop(0)
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(there, corpus, chunk))
            process.start()
            there.close()
            going.append((process, here, chunk))
        process, here, chunk = going.pop(0)
        try:
            found += here.recv()
        except EOFError:
            process.join()
            raise RuntimeError(f"files {chunk}: a process died: {process.exitcode}") from None
        process.join()
    return found


def _send(pipe: Connection, corpus: Corpus, chunk: range) -> None:
    pipe.send(_work(corpus, chunk))


def run(
    corpus: Corpus, files: int, apart: int, jobs: int, *, bombs: str | None
) -> Iterator[tuple[str, list[Ended]]]:
    """Judge the files: what they are, and how the commands ended."""
    if files:
        yield f"{files:,} mutated files", judged(corpus, files, jobs)
    if apart:
        numbers = range(0, max(files, apart), max(1, max(files, apart) // apart))
        each = [judge_apart(n, corpus.case(n), corpus.folder / "apart") for n in numbers]
        yield f"{len(each):,} of them as processes", each
    if bombs is not None:
        yield "bombs, as processes", list(_bombs(corpus, bombs))


def _bombs(corpus: Corpus, pattern: str) -> Iterator[Ended]:
    for number, case in enumerate(all_bombs(pattern)):
        ended = judge_apart(-1 - number, case, corpus.folder / "bomb")
        print(
            f"{case.what}: {' '.join(case.command)}: exit {ended.code}, {ended.seconds:.1f} s,"
            f" {ended.megabytes:.0f} MB {ended.wrong[-300:]}",
            flush=True,
        )
        yield ended
