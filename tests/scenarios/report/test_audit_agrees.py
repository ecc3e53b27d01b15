"""Terminal, JSON and page say the same of every check of an audit, whatever is broken."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from protocol.messages import AGGREGATOR, Envelope, Message
from protocol.session.exchange import Exchange
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.local import run_locally
from protocol.session.variant import Variant
from protocol.simulation.setting import Setting, setting_of
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.header import header_of
from protocol.transcript.reader import RULES
from protocol.transcript.recorder import Recorder
from protocol.variants import RRBA, RRClusters, RRIndependent, SecureSumVariant
from protocol.variants.reports.reports import JointEstimate
from scenarios.files.checkpoints import checkpoint_values
from tests.every_variant import BITS, PARTIES
from tests.protocol.sessions import answers
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.forgeries import Forgery
from tests.scenarios.command import sottovoce

SIMPLE = RRIndependent.with_keep(BITS, 0.6)
ROUNDS = RRBA(survey=BITS, p=0.5, k=1, mix=0.5, block=2)
LOST = "party-2"


# What is wrong with the file is among the findings, by the rule that is broken.
_FAULTY = re.compile(
    r"^  (the record is incomplete|the run did not come to its end"
    rf"|(byte \d+, )?(entry \d+, )?({'|'.join(RULES)}): )",
    re.MULTILINE,
)


class Unreadable(RRIndependent, frozen=True):
    """Publishes what it cannot read itself."""

    name = "unreadable"

    def estimate(self, result: Message) -> JointEstimate:
        raise ValueError("no idea")


def losing(envelope: Envelope) -> Fate:
    lost = envelope.kind == "Report" and envelope.sender == LOST
    return Fate(Verdict.DROP, 0.0) if lost else PASS


@functools.cache
def place(variant: Variant, seed: int) -> Setting:
    return setting_of(variant, answers(BITS, PARTIES), seed=seed)


@functools.cache
def recorded(
    variant: Variant = SIMPLE,
    *,
    seed: int = 1,
    seeded: bool = True,
    unsigned: tuple[str, ...] = (),
    signer: bool = True,
    lossy: bool = False,
    complete: bool = True,
) -> bytes:
    """A run's file."""
    setting = place(variant, seed)
    parts: list[bytes] = []
    recorder = Recorder(
        parts.append,
        header_of(setting.charter, seed=seed if seeded else None),
        signer=setting.identities[AGGREGATOR] if signer else None,
    )
    run_locally(
        Exchange(setting.charter, recorder=recorder, fate=losing if lossy else lambda _: PASS),
        setting.streams,
        setting.holdings,
        identities={n: key for n, key in setting.identities.items() if n not in unsigned},
    )
    recorder.close(complete=complete, reason="" if complete else "QuorumError")
    return b"".join(parts)


def last_of(file: bytes) -> SignedCheckpoint:
    return checkpoints_of(file)[-1]


def forged(change: Callable[[Forgery], object]) -> bytes:
    """A record that somebody has written afresh."""
    forgery = Forgery(recorded(signer=False))
    change(forgery)
    return forgery.write()


def unpublished(forgery: Forgery) -> None:
    pooled = [e for e in forgery.entries if e[0] == "Sent" and e[2][4] == "Pooled"]
    forgery.entries = [entry for entry in forgery.entries if entry not in pooled]


def another_result(forgery: Forgery) -> None:
    [pooled] = [e[2] for e in forgery.entries if e[0] == "Sent" and e[2][4] == "Pooled"]
    # Its last number, the last count, in four bytes.
    more = int.from_bytes(pooled[5][-4:], "little") + 1
    pooled[5] = pooled[5][:-4] + more.to_bytes(4, "little")


def one_left_out(forgery: Forgery) -> None:
    """The aggregator pretends that a party was late, and publishes what follows from that."""
    theirs = Forgery(recorded(signer=False, lossy=True))
    said = (
        [e[2] for e in each.entries if e[0] == "Sent" and e[2][1] == AGGREGATOR]
        for each in (forgery, theirs)
    )
    for mine, other in zip(*said, strict=True):
        mine[:] = other


class Case(NamedTuple):
    """An audit, and how its checks come out.

    Args:
        file: the record.
        differs: the checks that come out otherwise than those of a sound simulation.
        digest, checkpoint: what was published.
        records: everybody's, to replay with.
        variant: its class, in this file.
    """

    file: Callable[[], bytes]
    differs: dict[str, str]
    digest: str | None = None
    checkpoint: Callable[[], SignedCheckpoint] | None = None
    records: str | None = None
    variant: str | None = None


SOUND = {
    "accepted": "good",
    "The record": "good",
    "What was published": "care",
    "The count": "good",
    "The result": "good",
    "Replayed words": "",
    "Simulation": "care",
    "Privacy": "note",
    "Claims": "note",
    "signed by parties": "all",
    "signed at the end": "yes",
}
REFUSED = {"accepted": "bad"}
BROKEN = {"accepted": "bad", "The record": "bad"}
FORGED = {"signed at the end": "no"}
DIFFERS = {"What was published": "bad", **BROKEN}

CASES = {
    "sound": Case(recorded, {}),
    "its checkpoint": Case(
        recorded, {"What was published": "good"}, checkpoint=lambda: last_of(recorded())
    ),
    "its digest": Case(recorded, {"What was published": "good"}, digest="own"),
    "another digest": Case(recorded, DIFFERS, digest="00" * 32),
    "another record's checkpoint": Case(
        recorded, DIFFERS, checkpoint=lambda: last_of(recorded(seed=2))
    ),
    "its digest and another checkpoint": Case(
        recorded, DIFFERS, digest="own", checkpoint=lambda: last_of(recorded(seed=2))
    ),
    "its checkpoint and another digest": Case(
        recorded, DIFFERS, digest="00" * 32, checkpoint=lambda: last_of(recorded())
    ),
    "an earlier checkpoint": Case(
        lambda: recorded(ROUNDS),
        {"Claims": "care"},
        checkpoint=lambda: checkpoints_of(recorded(ROUNDS))[0],
    ),
    "an earlier checkpoint of another record": Case(
        lambda: recorded(ROUNDS),
        {**DIFFERS, "Claims": "care"},
        checkpoint=lambda: checkpoints_of(recorded(ROUNDS, seed=2))[0],
    ),
    "a flipped bit in the last entries": Case(
        lambda: recorded()[:-40] + bytes([recorded()[-40] ^ 1]) + recorded()[-39:],
        {**BROKEN, "Privacy": "bad"},
    ),
    "torn in the closing record": Case(lambda: recorded()[:-5], {**BROKEN, "Privacy": "bad"}),
    "a run that failed": Case(lambda: recorded(complete=False), BROKEN),
    "a run with a loss": Case(lambda: recorded(lossy=True), {"The count": "care"}),
    "one left out": Case(lambda: forged(one_left_out), {**REFUSED, "The count": "bad", **FORGED}),
    "nothing published": Case(
        lambda: forged(unpublished), {**REFUSED, "The result": "bad", **FORGED}
    ),
    "another result": Case(
        lambda: forged(another_result), {**REFUSED, "The result": "bad", **FORGED}
    ),
    "a result that cannot be read": Case(
        lambda: recorded(Unreadable.with_keep(BITS, 0.6)),
        {**REFUSED, "The result": "bad"},
        variant="Unreadable",
    ),
    "a result that cannot be followed": Case(
        lambda: recorded(SecureSumVariant(survey=BITS), seeded=False),
        {**REFUSED, "The result": "open", "Simulation": "", "Privacy": "care", "Claims": ""},
    ),
    "no simulation": Case(lambda: recorded(seeded=False), {"Simulation": ""}),
    "no bound, and nothing claimed": Case(
        lambda: recorded(SecureSumVariant(survey=BITS)), {"Privacy": "care", "Claims": ""}
    ),
    "no bound where one is claimed": Case(
        lambda: recorded(RRClusters(survey=BITS, p=0.6, tv=4, td=0.1, dependence="secure-sum")),
        {"Privacy": "care", "Claims": "care"},
    ),
    "more than is claimed": Case(lambda: recorded(ROUNDS), {"Claims": "care"}),
    "two parties without keys": Case(
        lambda: recorded(unsigned=("party-1", LOST)), {"signed by parties": "some"}
    ),
    "no signature at all": Case(
        lambda: recorded(unsigned=tuple(place(SIMPLE, 1).identities), signer=False),
        {"signed by parties": "none", **FORGED},
    ),
    "replayed with the true records": Case(recorded, {"Replayed words": "good"}, records="true"),
    "replayed with others": Case(recorded, {**REFUSED, "Replayed words": "bad"}, records="others"),
}


def in_json(found: Any) -> dict[str, str]:
    """How the checks come out by what ``--json`` prints."""
    verification, privacy = found["verification"], found["privacy"]
    counts = found["completeness"]
    wrong = any(closing["left_out"] or closing["unheard"] for closing in counts["closings"])
    everybody = counts["counted"] == counts["parties"]
    result, replay = found["result"], found["replay"]
    states = {True: "good", False: "bad", None: "open"}
    follows = states[result["follows"]] if result["published"] else "bad"
    if result["follows"] and result["respondents"] is None:
        follows = "bad"
    others = [other["follows"] for other in replay["others"]]
    words = "bad" if False in others else "open" if None in others else "good"
    unbounded = any(claim["unbounded"] for claim in privacy["claims"])
    exceeded = any((claim["factor"] or 0) > 1 + 1e-9 for claim in privacy["claims"])
    partial = any("could not be read whole" in why for why in privacy.get("unbounded", ()))
    return {
        "accepted": states[found["accepted"]],
        "The record": states[verification["intact"]],
        "What was published": {
            "not given": "care",
            "begins": "care",
            "fits": "good",
            "differs": "bad",
        }[verification["published"]],
        "The count": "bad" if wrong else "good" if everybody else "care",
        "The result": follows,
        "Replayed words": words if replay["parties"] else "",
        "Simulation": "care" if found["simulated"] else "",
        "Privacy": "bad" if partial else "care" if "unbounded" in privacy else "note",
        "Claims": "care" if unbounded or exceeded else "note" if privacy["claims"] else "",
        "signed by parties": verification["signed"]["parties"],
        "signed at the end": "yes" if verification["signed"]["at_the_end"] else "no",
    }


def in_words(said: str) -> dict[str, str]:
    """How the checks come out by what the command prints."""

    def among(*sentences: tuple[str, str], otherwise: str = "?") -> str:
        return next((state for part, state in sentences if part in said), otherwise)

    counted, parties = map(int, re.findall(r"^(\d+) of (\d+) part.* counted", said, re.M)[0])
    return {
        "accepted": among(("NOT accepted\n", "bad"), ("accepted\n", "good")),
        "The record": "bad" if _FAULTY.search(said) else "good",
        "What was published": among(
            ("It fits the digest or the checkpoint", "good"),
            ("It does not fit the digest", "bad"),
            ("It extends the checkpoint that was published, but", "care"),
            ("cannot be told from the original without", "care"),
        ),
        "The count": "bad"
        if re.search("was delivered in time and not counted|before it was delivered", said)
        else "good"
        if counted == parties
        else "care",
        "The result": among(
            ("no result was published", "bad"),
            ("the result does not follow", "bad"),
            ("cannot be read", "bad"),
            ("whether the result follows cannot be told", "open"),
            ("follows from the reports on record", "good"),
        ),
        "Replayed words": _replayed(said),
        "Simulation": among(("The transcript holds its seed", "care"), otherwise=""),
        "Privacy": among(
            ("no bound: the record", "bad"),
            ("no epsilon bounds what", "care"),
            ("learned about each respondent at most", "note"),
        ),
        "Claims": among(
            ("times the claim", "care"),
            ("infinitely many times", "care"),
            ("on record: infinite", "care"),
            ("claimed by", "note"),
            otherwise="",
        ),
        "signed by parties": among(
            ("their senders: the words of all", "all"),
            ("their senders: the words of no", "none"),
            ("their senders: the words of", "some"),
        ),
        "signed at the end": among(("aggregator: checkpoint", "yes"), otherwise="no"),
    }


def _replayed(said: str) -> str:
    found = re.findall(r"(\d+) of (\d+) parties whose keys and records", said)
    if not found:
        return ""
    [(follow, many)] = found
    return "good" if follow == many else "open" if "of them it cannot be told" in said else "bad"


def on_the_page(html: str) -> dict[str, str]:
    """How the checks come out by the marks and facts of the page."""
    marks = dict(
        (about, state)
        for state, about in re.findall(
            r'<li class="(\w+)">(?:(?!</li>).)*?<strong>([^<]+)\.</strong>', html, re.DOTALL
        )
    )
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd[^>]*><bdi>([^<]+)</bdi>", html))
    by = facts["Signed by their senders"]
    accepted = re.search(r'<section id="verdict" class="verdict (\w+)"', html)
    assert accepted is not None
    return {
        "accepted": "good" if accepted[1] == "yes" else "bad",
        **{name: marks.get(name, "") for name in SOUND if name[0].isupper()},
        "signed by parties": "all"
        if by.startswith("all")
        else "none"
        if by.startswith("the words of 0")
        else "some",
        "signed at the end": "yes"
        if facts["Signed by the aggregator"].startswith("the whole record")
        else "no",
    }


@pytest.mark.parametrize("name", CASES)
def test_all_three_say_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path, page = tmp_path / "t.svt", tmp_path / "page.html"
    path.write_bytes(case.file())
    asked: list[object] = ["audit", path]
    if case.digest is not None:
        verified = json.loads(sottovoce("verify", path, "--json").out)
        asked += ["--digest", verified["digest"] if case.digest == "own" else case.digest]
    if case.checkpoint is not None:
        published = tmp_path / "published.json"
        published.write_bytes(msgspec.json.encode(checkpoint_values(case.checkpoint())))
        asked += ["--checkpoint", published]
    if case.records is not None:
        records = answers(BITS, PARTIES if case.records == "true" else 2 * PARTIES)
        csv = tmp_path / "records.csv"
        csv.write_text(records.to_csv(), encoding="utf-8")
        asked += ["--records", csv]
    if case.variant is not None:
        asked += ["--variant", f"{__file__}:{case.variant}"]
    words, values = sottovoce(*asked, "--html", page), sottovoce(*asked, "--json")
    expected = {**SOUND, **case.differs}
    assert {
        "words": in_words(words.out),
        "json": in_json(json.loads(values.out)),
        "page": on_the_page(page.read_text(encoding="utf-8")),
    } == dict.fromkeys(("words", "json", "page"), expected)
    assert words.code == values.code == (0 if expected["accepted"] == "good" else 1)
