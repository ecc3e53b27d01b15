"""What becomes of an acknowledgement in a party's folder."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.crypto.merkle import joint_root, leaf_hash
from protocol.messages import AGGREGATOR, DONE
from protocol.transcript.checkpoints import sign_checkpoint
from protocol.transcript.log import log_leaf
from protocol.transcript.receipts import Acknowledgement, receipt_for
from scenarios.deployment import answering
from scenarios.deployment.members import read_member
from scenarios.deployment.receipts import Kept, keep_receipt, receipt_in
from scenarios.operation.operation import Operation
from tests.protocol.transcript.test_acknowledgements import acknowledged, head_of
from tests.recorded.signed import ONE, setting
from tests.scenarios.command import Said, complaint, sottovoce
from tests.scenarios.deployment.conftest import AnswerFrom
from tests.scenarios.deployment.test_attempts import silent
from tests.scenarios.deployment.test_deployment import ScriptedLink, question
from tests.scenarios.operation.held import hold
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import ROWS, aggregating, make_folders, people_table, table
from transports.lasting.link import LastingLink, connect_lasting
from transports.testing import HANGS

CHARTER = setting().charter
SESSION = CHARTER.session.hex()


def keep(folder: Path, given: Acknowledgement) -> Kept:
    return keep_receipt(folder, CHARTER, head_of(ONE), given)


def given(every: int = 5) -> Acknowledgement:
    return acknowledged(every).given[ONE]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def checked(kept: Kept) -> int:
    return sottovoce(*kept.check.split()[1:]).code


def test_a_receipt_is_kept_with_its_checkpoint(tmp_path: Path) -> None:
    kept = keep(tmp_path, given())
    assert kept.problems == ()
    assert set(contents(tmp_path)) == {f"receipt-{SESSION}", f"checkpoint-{SESSION}"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert checked(kept) == 0


def test_one_that_holds_stays(tmp_path: Path) -> None:
    """Also if the next one is of another checkpoint, as it is after a restart."""
    keep(tmp_path, given(5))
    before = contents(tmp_path)
    assert given(1000).size > given(5).size
    kept = keep(tmp_path, given(1000))
    assert kept.problems == ()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("there", ["receipt", "checkpoint"])
@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_one_that_does_not_hold_is_replaced(
    there: str, content: bytes | None, tmp_path: Path
) -> None:
    """A program may have died between the two files."""
    keep(tmp_path, given())
    path = tmp_path / f"{there}-{SESSION}"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert checked(keep(tmp_path, given())) == 0


def test_an_acknowledgement_that_does_not_hold_is_kept_apart(tmp_path: Path) -> None:
    keep(tmp_path, given())
    before = contents(tmp_path)
    kept = keep(tmp_path, msgspec.structs.replace(given(), at=given().at + 1))
    assert kept.problems == ("an entry of the receipt is not in the log of the checkpoint",)
    after = contents(tmp_path)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {kept.receipt.name, kept.checkpoint.name}
    assert kept.receipt.name == f"refused-receipt-{SESSION}"
    assert checked(kept) == 1


def test_two_checkpoints_of_one_size_are_evidence(tmp_path: Path) -> None:
    """An aggregator that runs again without its record signs other entries under an old number."""
    keep(tmp_path, given())
    size, index = given().size, given().index
    forged = msgspec.structs.replace(given(), at=given().at + 1)
    root = root_with(forged)
    assert root != given().root
    signed = sign_checkpoint(
        setting().identities[AGGREGATOR], session=CHARTER.session, size=size, root=root
    )
    forged = msgspec.structs.replace(forged, root=root, signature=signed.signature)
    assert forged.index == index
    kept = keep(tmp_path, forged)
    assert kept.problems == (f"the aggregator has signed two checkpoints of size {size}",)
    said = sottovoce("check", tmp_path / f"evidence-{SESSION}")
    assert said.code == 0
    assert f"the checkpoint of size {size} was signed twice" in said.out


class Unheard(ScriptedLink):
    """A link that is lost before anything is acknowledged."""

    async def acknowledgement(self) -> Acknowledgement | None:
        return None


def test_who_has_a_receipt_is_done_though_nobody_is_there(
    two_surveys: list[Path],
    tmp_path: Path,
    answer_from: AnswerFrom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that was killed after its receipt came finds nobody when it is started again."""
    folder = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    asked = question(two_surveys[0])

    def alone(*options: object, records: Path = records) -> Said:
        monkeypatch.setattr(answering, "connect_lasting", connect_lasting)
        answer = ("answer", folder, "--connect", "127.0.0.1:1", "--waiting", 0, "--id", "who")
        return sottovoce(*answer, "--purse", tmp_path / "purse", "--records", records, *options)

    assert "127.0.0.1:1" in complaint(alone())
    first, _ = answer_from(folder, records, asked)
    assert (first.ending, first.earlier) == (DONE, False)
    again, _ = answer_from(folder, records, asked, link_class=Unheard)
    assert (again.ending, again.earlier) == (DONE, True)
    assert again.receipt == first.receipt
    assert again.spent == pytest.approx(2.0)
    said = alone()
    assert said.code == 0
    assert said.out.startswith("done; epsilon 2 spent per respondent\nreceipt: ")
    assert "done with attempt 1 before" in said.err
    # Other people did not answer.
    complaint(alone("--budget", 9, records=people_table(tmp_path / "o.csv", "ann,yes,old")))
    # In an attempt that it is told of it answers; it is not done with that.
    later = question(two_surveys[0], attempt=2)
    unheard, _ = answer_from(folder, records, later, attempt=2, link_class=Unheard, budget=9.0)
    assert unheard.ending.startswith("not acknowledged")
    assert unheard.attempt == 2
    # Nor is it without its receipt of the last one.
    complaint(alone("--budget", 9))


def test_the_receipt_of_who_has_declined_does_not_make_it_done(
    two_surveys: list[Path], tmp_path: Path, answer_from: AnswerFrom
) -> None:
    folder = two_surveys[0] / "anna"
    records = people_table(tmp_path / "r.csv", "ann,no,young", "bob,yes,old")
    asked = question(two_surveys[0])
    for link_class in (ScriptedLink, Unheard):
        ended, said = answer_from(folder, records, asked, budget=0.5, link_class=link_class)
        assert [each.kind for each in said] == ["Declined", "Head"]
        assert ended.ending != DONE
        assert not ended.earlier
    assert [path.name for path in folder.glob("*receipt-*")] == [
        f"declined-receipt-{read_member(folder).charter.session.hex()}"
    ]


def test_which_receipt_is_ones_own(tmp_path: Path) -> None:
    kept = keep(tmp_path, given())
    assert receipt_in(tmp_path, CHARTER, ONE) == kept
    other = next(name for name in CHARTER.roster.parties if name != ONE)
    assert receipt_in(tmp_path, CHARTER, other) is None
    # Under the name of another session, and damaged.
    again = CHARTER.again(2)
    for path in (kept.receipt, kept.checkpoint):
        copied = path.name.replace(SESSION, again.session.hex())
        (tmp_path / copied).write_bytes(path.read_bytes())
    assert receipt_in(tmp_path, again, ONE) is None
    kept.checkpoint.write_bytes(b"")
    assert receipt_in(tmp_path, CHARTER, ONE) is None


def root_with(forged: Acknowledgement) -> bytes:
    """The root that an acknowledgement's leaf and path lead to."""
    receipt, _ = receipt_for(CHARTER, head_of(ONE), forged)
    shown = receipt.ended
    assert shown is not None
    leaf = leaf_hash(log_leaf(shown.salt, shown.content))
    root = joint_root({shown.index: leaf}, count=forged.size, path=shown.path)
    assert root is not None
    return root


@pytest.mark.slow
def test_a_resumed_aggregator_gives_a_receipt_again(tmp_path: Path) -> None:
    """Anna was done when it was killed; her folder has lost the receipt, and she asks again."""
    keys, out = make_folders(tmp_path), tmp_path / "out"
    anna, records = keys / "anna", table(tmp_path / "records.csv", *ROWS)

    def answering(where: str, *names: str) -> None:
        purses = [("--purse", tmp_path / f"{name}.purse") for name in names]
        said = [
            Program("answer", keys / name, "--connect", where, "--records", records, *purse)
            for name, purse in zip(names, purses, strict=True)
        ]
        for each in said:
            out, error = each.communicate(timeout=HANGS)
            assert each.returncode == 0, error
            assert out.startswith("done; epsilon 2 spent per respondent\nreceipt: ")

    with (
        aggregating(keys, out, over=False) as (aggregator, where, _),
        silent(keys / "bert", where),
        silent(keys / "carl", where),
    ):
        answering(where, "anna")
        aggregator.kill()
        aggregator.wait(timeout=HANGS)
    found = []
    for what in ("receipt", "checkpoint"):
        [path] = anna.glob(f"{what}-*")
        path.rename(tmp_path / what)
        found.append(path)
    with aggregating(keys, out, "--resume") as (aggregator, where, _):
        answering(where, "anna")
        answering(where, "bert", "carl")
        assert aggregator.wait(timeout=HANGS) == 0
    for receipt, checkpoint in (found, (tmp_path / "receipt", tmp_path / "checkpoint")):
        assert sottovoce("check", receipt, "--checkpoint", checkpoint, "--member", anna).code == 0
        verify = ("verify", out / "transcript.svt", "--checkpoint", checkpoint, "--json")
        assert sottovoce(*verify).json["extends_checkpoint"] is True


def test_a_receipt_is_kept_before_the_goodbye(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a party that is killed between the two finds nobody to ask for it again."""
    done: list[str] = []
    kept, closed = answering.keep_receipt, LastingLink.aclose

    def keep(*given: Any, **options: Any) -> Kept:
        done.append("receipt")
        return kept(*given, **options)

    async def close(link: LastingLink) -> None:
        done.append("goodbye")
        await closed(link)

    monkeypatch.setattr(answering, "keep_receipt", keep)
    monkeypatch.setattr(LastingLink, "aclose", close)
    keys = make_folders(tmp_path)
    _, answers = hold(keys, tmp_path / "out", Operation(), ["anna", "bert", "carl"])
    assert answers["anna"].receipt is not None
    assert (done.count("receipt"), done[0], done[-1]) == (3, "receipt", "goodbye")
    assert all(done[:n].count("goodbye") <= done[:n].count("receipt") for n in range(len(done)))
