"""A mistake in a party's role is shown with its file and line, not what followed from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protocol import Attribute, LocalProtocolError, Records, Survey, Variant
from protocol.testing import check_variant
from scenarios import find_variant, simulate
from scenarios.running.simulation import TransportName
from tests.scenarios.command import complaint, sottovoce

SOURCE = '''
import contextlib

from protocol import Attribute, FrequencyOracle, MatrixRandomizer, QuorumError, Records, Survey
from scenarios import Context, Positive, Scenario

PILLS = Survey("Pills", (Attribute(name="took some", categories=("no", "yes")),))


class Slip(FrequencyOracle, frozen=True):
    """A party that fails, and an aggregator that takes for granted that it does not."""

    name = "slip"

    @property
    def randomizer(self) -> MatrixRandomizer:
        """Half of the answers are kept."""
        return MatrixRandomizer.from_probabilities([[0.75, 0.25], [0.25, 0.75]])

    async def party(self, me, records):
        if me.id != "party-1":
            {}["answer"]  # LINE
        await super().party(me, records)

    async def aggregator(self, me, parties):
        with contextlib.suppress(QuorumError):
            await super().aggregator(me, parties)
        raise ValueError("too few answers")  # LAST


def people(context: Context, people: Positive = 40) -> Records:
    """Some people.

    Args:
        people: how many.
    """
    takes = context.stream("people").words(people) % 2
    return Records(PILLS, takes.astype("u1").reshape(-1, 1))


SCENARIOS = (Scenario.of(Slip, name="slip", summary="A slip.", records=people),)
'''
WORDS = "party 'party-2', role 'party', round 0, {}: KeyError: 'answer'"


@pytest.fixture
def slip(tmp_path: Path) -> Path:
    path = tmp_path / "slip.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def line_of(path: Path, mark: str) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return f"{path}:{number}"


def made(path: Path, people: int = 40) -> tuple[Variant, Records]:
    """The variant in a file, and records for it."""
    survey = Survey("Pills", (Attribute(name="took some", categories=("no", "yes")),))
    records = Records(survey, np.arange(people).reshape(-1, 1) % 2)
    return find_variant(f"{path}:Slip")(survey=survey), records


@pytest.mark.parametrize("transport", ["local", "memory", "tcp"])
def test_the_first_partys_mistake_is_shown(slip: Path, transport: TransportName) -> None:
    variant, records = made(slip)
    with pytest.raises(LocalProtocolError) as caught:
        simulate(variant, records, parties=4, transport=transport)
    assert str(caught.value) == WORDS.format(line_of(slip, "LINE"))
    [note] = caught.value.__notes__
    assert note.startswith("3 of 4 parties failed, and then the aggregator: ")
    assert note.endswith(f"{line_of(slip, 'LAST')}: ValueError: too few answers")


@pytest.mark.parametrize("transport", ["local", "memory", "tcp"])
def test_a_run_says_the_first_partys_mistake(slip: Path, transport: str) -> None:
    said = complaint(sottovoce("run", slip, "--set", "parties=4", "--transport", transport), code=1)
    assert said.startswith(WORDS.format(line_of(slip, "LINE")))


@pytest.mark.slow
def test_a_run_in_workers_says_the_first_partys_mistake(slip: Path) -> None:
    said = complaint(sottovoce("run", slip, "--set", "parties=4", "--workers", 2), code=1)
    assert said.startswith(WORDS.format(line_of(slip, "LINE")))


def test_the_contract_says_the_first_partys_mistake(slip: Path) -> None:
    variant, records = made(slip, 10)
    with pytest.raises(AssertionError, match="the variant does not run: ") as caught:
        check_variant(variant, records, executors={}, parties=4)
    assert WORDS.format(line_of(slip, "LINE")) in str(caught.value)


def test_a_mistake_that_only_the_aggregator_makes_is_its_own(slip: Path) -> None:
    slip.write_text(SOURCE.replace('me.id != "party-1"', "False"), encoding="utf-8")
    variant, records = made(slip)
    with pytest.raises(LocalProtocolError) as caught:
        simulate(variant, records, parties=4, transport="local")
    assert caught.value.party == "aggregator"
    assert caught.value.line == line_of(slip, "LAST")


def test_the_line_of_what_a_role_awaits_wrongly(slip: Path) -> None:
    wrong = "await me.send('nobody', Declined(reason='terms'))  # LINE"
    text = SOURCE.replace('{}["answer"]  # LINE', wrong)
    imports = "from protocol.messages import Declined\nfrom scenarios import Context"
    slip.write_text(text.replace("from scenarios import Context", imports), encoding="utf-8")
    said = complaint(sottovoce("run", slip, "--set", "parties=4"), code=1)
    assert line_of(slip, "LINE") in said
