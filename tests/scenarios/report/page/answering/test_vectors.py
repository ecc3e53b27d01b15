"""The page makes the very bytes that the program makes, of the same terms, codes and words."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.pages.file import FILE, content, read
from tests.vectors.pages.making import made
from tests.vectors.pages.settings import settings
from tests.verifier.bundles import needs_node, run

SCRIPT = Path(__file__).parent / "vectors.js"
MADE_OF = ("name", "codes", "words")


def by_the_page(surveys: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the page makes of the surveys' vectors."""
    given = [
        {
            **{name: survey[name] for name in ("terms", "place", "link")},
            "reports": [{name: each[name] for name in MADE_OF} for each in survey["reports"]],
        }
        for survey in surveys
    ]
    found: list[dict[str, Any]] = json.loads(
        run(SCRIPT.read_text(encoding="utf-8"), json.dumps(given).encode())
    )
    return found


def differences(surveys: Sequence[dict[str, Any]]) -> list[str]:
    """Where the page makes something else, by the names of surveys and reports."""
    wrong = []
    for survey, found in zip(surveys, by_the_page(surveys), strict=True):
        names = ("session", "digest")
        wrong += [f"{survey['name']}: {name}" for name in names if survey[name] != found[name]]
        epsilon = math.inf if found["epsilon"] == "infinite" else found["epsilon"]
        if epsilon != survey["epsilon"]:
            wrong.append(f"{survey['name']}: epsilon {epsilon}, not {survey['epsilon']}")
        if found["told"] != pytest.approx(survey["told"], abs=1e-9, rel=0):
            wrong.append(f"{survey['name']}: told {found['told']}, not {survey['told']}")
        for report, other in zip(survey["reports"], found["reports"], strict=True):
            same = ("used", "report", "post", "shown")
            wrong += [f"{report['name']}: {each}" for each in same if report[each] != other[each]]
    return wrong


@needs_node
def test_the_page_makes_reports_of_every_variant() -> None:
    firsts = {survey["variant"]: survey for survey in reversed(read())}
    assert differences([*firsts.values()]) == []


@needs_node
@pytest.mark.slow
def test_the_page_makes_the_reports_of_all_vectors() -> None:
    assert differences(read()) == []


@needs_node
@pytest.mark.slow
def test_the_page_makes_large_reports() -> None:
    assert differences([made(case) for case in settings() if not case.kept]) == []


def test_what_the_file_has_of_every_variant_is_what_its_maker_makes() -> None:
    surveys = {survey["name"]: survey for survey in read()}
    cases = [case for case in settings() if case.kept]
    assert [*surveys] == [case.name for case in cases]
    for case in {case.variant.name: case for case in reversed(cases)}.values():
        assert json.loads(json.dumps(made(case))) == surveys[case.name]


@pytest.mark.slow
def test_the_file_is_what_its_maker_makes() -> None:
    assert gzip.decompress(FILE.read_bytes()) == gzip.decompress(content())


def test_every_variant_has_many_vectors() -> None:
    reports = Counter[str]()
    refused = Counter[str]()
    for survey in read():
        reports[survey["variant"]] += len(survey["reports"])
        used = [report["used"] for report in survey["reports"]]
        refused[survey["variant"]] += sum(each > min(used) for each in used)
    assert set(reports) == {
        *("rr-independent", "rr-joint", "rr-ind-joint", "spl", "smp", "rs-fd", "numeric-mean"),
        *("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht", "privkv"),
    }
    assert min(reports.values()) >= 200
    # A word can be refused wherever a number is drawn that is not of a power of two.
    assert {name for name, number in refused.items() if not number} <= {"inp-rr", "inp-ps"}
    assert FILE.stat().st_size < 10**6
