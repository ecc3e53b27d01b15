"""Surveys that people answer through links: plans, and what `links` makes of them."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path
from typing import NamedTuple

from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import closing_plan, plan_file

URL = "https://survey.example.org/"


class Written(NamedTuple):
    """A line of links.csv."""

    place: str
    link: str
    spare: str


def in_days(days: float) -> str:
    """A moment so many days from now, as a plan says it."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def linked_plan(name: str = "rr-joint", days: float = 10) -> str:
    """A plan of a built-in variant that closes in some days; its quorum is 4."""
    return closing_plan(in_days(days), name)


def linking(folder: Path, *options: object, plan: str = "") -> Path:
    """The folder with links that the command makes."""
    out = folder / "linked"
    file = plan_file(folder, plan or linked_plan())
    said = sottovoce("links", file, "--url", URL, "--out", out, *options)
    assert said.code == 0, said.err
    return out


def written_links(out: Path) -> list[Written]:
    """The lines of links.csv."""
    with (out / "links" / "links.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == Written._fields
    return [Written(*row) for row in rows]
