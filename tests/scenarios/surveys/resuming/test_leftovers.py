"""What ``aggregate`` finds in the place of its record is removed only if it is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from parties.keeping.attempts import counting
from parties.keeping.packing import record_start
from parties.keeping.record_names import partial_path
from parties.keeping.records import make_way
from protocol import AGGREGATOR
from scenarios.surveys.holding.attempts import make_ready
from scenarios.surveys.members import read_member
from tests.recorded.forgeries import plain
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import make_folders

SECRET = bytes(range(32))
OTHER = record_start(SECRET)
"""The first bytes of another record."""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """An aggregator whose attempt has a number and has not begun, and how its record starts."""
    folder = make_folders(tmp_path_factory.mktemp("survey")) / AGGREGATOR
    with counting(folder) as counter:
        counter.take(lambda number: b"header %d" % number)
        return folder, record_start(counter.secret())


@pytest.mark.parametrize(
    ("length", "zeros"),
    [(0, 0), (1, 0), (40, 0), (None, 0), (0, 1), (0, 5000), (None, 1), (None, 5000)],
)
def test_a_start_of_its_own_record_is_removed(
    taken: tuple[Path, bytes], tmp_path: Path, length: int | None, zeros: int
) -> None:
    folder, start = taken
    transcript = tmp_path / "transcript.svt.zst"
    partial_path(transcript).write_bytes(start[:length] + bytes(zeros))
    assert not make_ready(read_member(folder), transcript, resume=False)
    assert not partial_path(transcript).exists()


@pytest.mark.parametrize(
    "content",
    [
        b"notes",
        OTHER,
        OTHER[:-1],
        plain([b"a header, cut short"])[:-1],
        b"\0" + OTHER[1:],
        OTHER[:40] + bytes(5000),
        OTHER + b"damaged",
    ],
)
def test_whatever_else_is_there_stays(
    taken: tuple[Path, bytes], tmp_path: Path, content: bytes
) -> None:
    folder, _ = taken
    partial = partial_path(tmp_path / "transcript.svt.zst")
    partial.write_bytes(content)
    said = sottovoce("aggregate", folder, "--listen", "127.0.0.1:0", "--out", tmp_path)
    assert complaint(said)
    assert partial.read_bytes() == content
    assert not make_ready(read_member(folder), tmp_path / "transcript.svt.zst", resume=False)
    moved = make_way(tmp_path / "transcript.svt.zst", force=True)
    assert moved is not None
    assert (moved / partial.name).read_bytes() == content
