"""A sum among processes over TLS: anybody can audit its record, unless its plan withholds that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scenarios.wording.withstanding import WITHHELD
from tests.scenarios.command import Said, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import PLANS, ROWS, aggregating, make_folders, table
from transports.testing import HANGS

WHO = ("anna", "bert", "carl")


def held(folder: Path, opening: str) -> tuple[Path, Path, list[str]]:
    """The folders and the transcript of a survey, and what its parties said."""
    sums = f'sums = {{ opening = "{opening}" }}\n'
    plan = PLANS["secure-sum"].replace("quorum = 4\n", sums)
    keys, out = make_folders(folder, plan), folder / "out"
    says = []
    with aggregating(keys, out) as (aggregator, where, _):
        answering = [
            Program(
                *("answer", keys / name, "--connect", where, "--purse", folder / f"{name}.purse"),
                *("--records", table(folder / f"{name}.csv", row)),
            )
            for name, row in zip(WHO, ROWS, strict=True)
        ]
        for answer in answering:
            said, complained = answer.communicate(timeout=HANGS)
            assert answer.returncode == 0, complained
            says.append(said + complained)
        _, complained = aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == 0, complained
    return keys, out / "transcript.svt.zst", says


def without_keys(keys: Path, transcript: Path) -> Said:
    """What an audit says once all folders of members are gone."""
    shutil.rmtree(keys)
    return sottovoce("audit", transcript, "--details")


@pytest.mark.parametrize("opening", ["published", "withheld"])
def test_whether_the_record_alone_is_enough(opening: str, tmp_path: Path) -> None:
    keys, transcript, says = held(tmp_path, opening)
    readers = " or any reader of the record" if opening == "published" else ""
    for said in says:
        assert f"may conspire with the aggregator{readers}: of the secure sum" in said
        assert (WITHHELD in said) == (opening == "withheld")
    keyed = sottovoce("audit", transcript, "--member", keys / "aggregator")
    assert keyed.code == 0, keyed.out
    found = without_keys(keys, transcript)
    assert found.code == (0 if opening == "published" else 4)
    word = "sound" if opening == "published" else "unchecked"
    assert f"\nRecord: {word}. " in found.out
    assert ("The published result of 3 respondents follows" in found.out) == (word == "sound")
