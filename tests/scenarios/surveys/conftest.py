"""A survey that waits for its parties, and parties whose hub says what it likes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from protocol import AGGREGATOR
from protocol.messages import Envelope
from scenarios.surveys.answering import Answered
from scenarios.surveys.members import read_member
from tests.scenarios.survey_folders import aggregating, answer_alone, make_folders
from tests.scenarios.surveys.test_deployment import ScriptedLink


@pytest.fixture(scope="package")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Path, str]]:
    """Folders of a survey in its first attempt, and where its aggregator waits for parties."""
    folder = tmp_path_factory.mktemp("waiting")
    keys = make_folders(folder)
    with aggregating(keys, folder / "out", "--joining", 3600) as (_, where, _):
        yield keys, where


AnswerFrom: TypeAlias = Callable[..., tuple[Answered, list[Envelope]]]


@pytest.fixture
def answer_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnswerFrom:
    """How a party ends, and what it says, when a hub says this to it."""

    def answer(
        folder: Path,
        records: Path,
        *says: Envelope,
        attempt: int = 1,
        link_class: type[ScriptedLink] = ScriptedLink,
        **options: object,
    ) -> tuple[Answered, list[Envelope]]:
        link = link_class(says, read_member(folder.parent / AGGREGATOR), attempt)

        @asynccontextmanager
        async def connected(
            *_: object, join: Callable[[int], object], **others: object
        ) -> AsyncGenerator[ScriptedLink]:
            join(attempt)
            yield link

        monkeypatch.setattr("scenarios.surveys.answering.connect_lasting", connected)
        settings = {"budget": None, "purse": tmp_path / "purse", "ids": "who", **options}
        member = read_member(folder)
        ended = answer_alone(
            member,
            host="h",
            port=1,
            records=records,
            **settings,
        )
        return ended, link.said

    return answer


@pytest.fixture
def two_surveys(tmp_path: Path) -> list[Path]:
    """Folders of two surveys that have nothing in common but what they ask."""
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        found.append(make_folders(tmp_path / name))
    return found
