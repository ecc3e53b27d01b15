"""What a party's role notes for it alone: a private file, there whatever it holds."""

from __future__ import annotations

import math
import shutil
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

from parties.keeping.members import Member
from parties.keeping.remembered import BLOCK, noting
from protocol import Me, PartyId
from protocol.accounting.spending import Cost
from protocol.session.variant import plain_parameters
from protocol.sharing.messages import Totals
from protocol.sharing.sums import CONTRADICTED
from protocol.variants import SecureSumVariant
from protocol.variants.sums.tallies import Tally
from scenarios.surveys.answering import Answered
from scenarios.surveys.endings import DONE_NOW
from scenarios.surveys.holding.aggregating import aggregate_survey
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import answer_alone, make_folders, table
from transports.testing import HANGS

WHO = ("anna", "bert", "carl")
WARNING = "Keep it to yourself."


class Lying(SecureSumVariant, frozen=True):
    """Tells everybody of a total in which nobody smokes less than all."""

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Tally:
        summed = await self.sums.collect(
            me,
            survey=self.survey.digest,
            groups=self.layout.groups,
            max_records=self.max_records,
            within=self.patience,
            quorum=self.quorum_of(len(me.roster.parties)),
            everyone=False,
        )
        false = np.array([0, 3, 1, 1, 1], np.uint32)
        await me.broadcast(summed.survivors, Totals(summed.respondents, false))
        await self.sums.carry(me, summed, within=self.patience, quorum=self.quorum_of(len(parties)))
        everybody = me.roster.bitmap(summed.survivors)
        totals = summed.totals.astype(np.uint32)
        return Tally(summed.respondents, everybody, me.roster.bitmap(summed.accused), totals)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Folders of a survey by secure sum; no plan makes one so far."""
    keys = make_folders(tmp_path)
    planned = read_member(keys / "aggregator").charter.variant
    variant = SecureSumVariant(survey=planned.survey, everyone=True, quorum=3)
    for path in keys.glob("*/charter.json"):
        charter = msgspec.json.decode(path.read_bytes())
        charter |= {"variant": variant.name, "parameters": plain_parameters(variant)}
        path.write_bytes(msgspec.json.encode(charter))
    return keys


def lying(member: Member) -> Member:
    """The aggregator, with another role than its charter says."""
    charter = member.charter
    terms = {field: getattr(charter.variant, field) for field in charter.variant.__struct_fields__}
    return msgspec.structs.replace(
        member, charter=msgspec.structs.replace(charter, variant=Lying(**terms))
    )


def survey(folders: Path, out: Path) -> dict[str, Answered]:
    """Run it over TLS. anna alone does not smoke, and the total leaves her out."""
    out.mkdir()
    listening, where = threading.Event(), []

    def heard(address: str) -> None:
        where.append(address)
        listening.set()

    records = {
        name: table(out / f"{name}.csv", row)
        for name, row in zip(WHO, ("no,young", "yes,middle", "yes,old"), strict=True)
    }
    with ThreadPoolExecutor(4) as pool:
        aggregating = pool.submit(
            aggregate_survey,
            lying(read_member(folders / "aggregator")),
            host="127.0.0.1",
            port=0,
            transcript=out / "transcript.svt.zst",
            joining=60.0,
            listening=heard,
        )
        aggregating.add_done_callback(lambda _: listening.set())
        assert listening.wait(HANGS)
        host, port = where[0].rsplit(":", 1)
        answering = {
            name: pool.submit(
                answer_alone,
                read_member(folders / name),
                host=host,
                port=int(port),
                records=records[name],
                budget=None,
            )
            for name in WHO
        }
        found = {name: answer.result(HANGS) for name, answer in answering.items()}
        aggregating.result(HANGS)
    return found


def notices(folders: Path, name: str) -> Path:
    [path] = (folders / name).glob("notices-*")
    return path


def test_a_notice_is_in_the_folder_and_nowhere_else(folders: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for answered in survey(folders, out).values():
        assert answered.receipt is not None
        found = msgspec.structs.replace(answered, receipt=None)
        assert found == Answered(
            how=DONE_NOW, ending="done", attempt=1, spent=Cost(math.inf), before=Cost()
        )
    for name in WHO:
        path = notices(folders, name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.stat().st_size == BLOCK
        text = path.read_text()
        assert text.count(WARNING) == 1
        assert text.count(CONTRADICTED) == (name == "anna")
        assert text.count("- nothing") == (name != "anna")
    assert CONTRADICTED.encode() not in (out / "transcript.svt.zst").read_bytes()


def test_who_cannot_keep_notices_does_not_answer(waiting: tuple[Path, str], tmp_path: Path) -> None:
    keys, where = waiting
    anna = Path(shutil.copytree(keys / "anna", tmp_path / "anna"))
    path = anna / f"notices-{read_member(anna).charter.session.hex()}"
    path.mkdir()
    records = table(tmp_path / "r.csv", "no,young")
    for _ in range(2):
        # It never joins, so it can come again.
        said = sottovoce("answer", anna, "--connect", where, "--records", records)
        assert complaint(said).startswith(f"{path}: ")


@pytest.mark.parametrize(
    "noted",
    [(), ("a",), ("ä" * 300,), ("one", "two", "three")],
    ids=["none", "short", "long", "several"],
)
def test_the_size_does_not_tell_what_was_noted(noted: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "notices"
    noting(path)(noted)
    assert path.stat().st_size == BLOCK
    noting(path)(("x" * BLOCK,))
    assert path.stat().st_size == 2 * BLOCK
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_text()
    assert "- nothing" not in content
    for text in (*noted, "x" * BLOCK):
        assert content.count(f"\n- {text}\n") == 1


@pytest.mark.parametrize("runs", [[()], [("a",), ()], [(), ("a", "ä")], [("a",), ("ä",), ("a",)]])
def test_answering_again_and_again_does_not_make_the_file_grow(
    runs: list[tuple[str, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "notices"
    for noted in runs * 3:
        noting(path)(noted)
        assert path.stat().st_size == BLOCK
    found = [line for line in path.read_text().splitlines() if line.startswith("- ")]
    assert found == [f"- {text}" for text in dict.fromkeys(sum(runs, ())) or ("nothing",)]
