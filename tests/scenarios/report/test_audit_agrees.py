"""Terminal, JSON and page say the same of every check of an audit, whatever is broken."""

from __future__ import annotations

import ast
import functools
import html
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from protocol import (
    AGGREGATOR,
    JointReports,
    LinearEstimate,
    Message,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    SecureSum,
    Seen,
    Variant,
)
from protocol.estimators.analysis import Analysis
from protocol.session.fates import Fate, Verdict
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.cosignatures import WitnessKey, cosign, with_lines
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRBA, RRClusters, RRIndependent, SecureSumVariant
from protocol.variants.reports.reports import Report
from scenarios.statement.audits import checks, lies, of_file
from scenarios.statement.audits.checks import OF_THE_AUDIT
from scenarios.statement.audits.of_file import OF_THE_FILE
from scenarios.statement.statement import WORDS
from tests.every_variant import BITS, PARTIES
from tests.protocol.sessions import answers
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.forgeries import Forgery, header_of_file, packed, unreadable_after_header
from tests.recorded.runs import Run, fate_of, recorded, written
from tests.scenarios.command import sottovoce
from tests.tiers import thinned

SIMPLE = RRIndependent.with_keep(BITS, 0.6)
ROUNDS = RRBA(survey=BITS, p=0.5, k=1, mix=0.5, block=2)
PAIR = SecureSumVariant(survey=BITS, sums=SecureSum(corrupt=0.0))
LOST = "party-2"


class Unreadable(RRIndependent, frozen=True):
    """Publishes what it cannot read itself."""

    name = "unreadable"

    def estimate(self, result: Message) -> LinearEstimate[JointReports]:
        raise ValueError("no idea")


class Outspoken(RRIndependent, frozen=True):
    """Says of itself that its reports are the answers."""

    name = "outspoken"

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return Plain(self.survey.names) if isinstance(message, Report) else Public()


@functools.cache
def finished_run(
    variant: Variant = SIMPLE,
    *,
    seed: int = 1,
    seeded: bool = True,
    unsigned: tuple[str, ...] = (),
    signed: bool = True,
    lossy: bool = False,
) -> Run:
    fate = fate_of(Fate(Verdict.DROP), LOST, "Report") if lossy else None
    return recorded(variant, seed=seed, seeded=seeded, unsigned=unsigned, signed=signed, fate=fate)


def file_of(variant: Variant = SIMPLE, **options: Any) -> bytes:
    """A run's file."""
    return finished_run(variant, **options).content


def unpackable() -> bytes:
    """A run's file, packed, with a bit flipped near its end."""
    content = file_of()
    file = bytearray(packed([content[:-300], content[-300:]]))
    file[-40] ^= 1
    return bytes(file)


def failed() -> bytes:
    """The file of a run that did not come to its end."""
    run = finished_run()
    signer = run.setting.identities[AGGREGATOR]
    header = TranscriptReader(run.content).header
    return written(header, run.entries, signer=signer, complete=False, reason="QuorumError").content


def later() -> bytes:
    """The same run, as it says a moment later."""
    run = finished_run()
    entries = [msgspec.structs.replace(entry, at=entry.at + 1) for entry in run.entries]
    signer = run.setting.identities[AGGREGATOR]
    return written(TranscriptReader(run.content).header, entries, signer=signer).content


def announced(*change: Callable[[Forgery], object]) -> bytes:
    """A run whose analysis was announced: the table of one attribute."""
    analysis = Analysis(tables=((BITS.names[0],),))
    content = recorded(SIMPLE, analysis=analysis, signed=not change).content
    for each in change:
        forgery = Forgery(content)
        each(forgery)
        content = forgery.write()
    return content


def begun_before_a_witness() -> bytes:
    """A run whose first checkpoint a witness has cosigned."""
    run = finished_run()
    signer = run.setting.identities[AGGREGATOR]
    header = TranscriptReader(run.content).header
    return written(
        header, run.entries, signer=signer, cosigned=lambda first: witnessed(first, 1)[0]
    ).content


def last_of(file: bytes) -> SignedCheckpoint:
    return checkpoints_of(file)[-1]


def witnessed(checkpoint: SignedCheckpoint, demanded: int) -> list[str]:
    """The note, cosigned by one witness, and the keys of so many."""
    who = [Identity(PartyId("w"), bytes([i + 1]) * 32) for i in range(demanded)]
    keys = [WitnessKey(f"witness.example/{i}", each.public) for i, each in enumerate(who)]
    lines = [
        cosign(each, name=key.name, text=checkpoint.signed, time=1)
        for each, key in zip(who[:1], keys, strict=False)
    ]
    return [with_lines(checkpoint.note, lines), *(key.text for key in keys)]


def forged(change: Callable[[Forgery], object]) -> bytes:
    """A record that somebody has written afresh."""
    forgery = Forgery(file_of(signed=False))
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
    theirs = Forgery(file_of(signed=False, lossy=True))
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
        witnesses: how many are demanded; one has cosigned the checkpoint.
        records: everybody's, to replay with.
        variant: its class, in this file.
        options: more of the command's.
    """

    file: Callable[[], bytes]
    differs: dict[str, str]
    digest: str | None = None
    checkpoint: Callable[[], SignedCheckpoint] | None = None
    witnesses: int = 0
    records: str | None = None
    variant: str | None = None
    options: tuple[str, ...] = ()


RECORD, PRIVACY = "the verdict on the record", "the verdict on privacy"

SOUND = {
    RECORD: "sound",
    PRIVACY: "weak",
    "The record": "good",
    "What was published": "care",
    "Signed by parties": "good",
    "Signed by the aggregator": "good",
    "The count": "good",
    "The result": "good",
    "The analysis": "note",
    "Simulation": "care",
    "Privacy": "note",
    "Privacy at a δ": "note",
    "Claims": "note",
    "Linkage": "note",
    "False answers": "note",
}
"""How the checks of a sound simulation come out; those that are not here are not asked."""

ASKING = {checks.__name__, lies.__name__, of_file.__name__}
"""The modules that put questions to a record."""

REFUSED = {RECORD: "broken", PRIVACY: "unknown"}
BROKEN = {**REFUSED, "The record": "bad"}
INCOMPLETE = {**BROKEN, RECORD: "incomplete"}
FORGED = {"Signed by the aggregator": "care"}
UNFINISHED = {RECORD: "unfinished", "The record": "open"}
FOREIGN = {**REFUSED, "What was published": "bad"}
DIFFERS = {"What was published": "bad", **BROKEN}
UNREAD = {**INCOMPLETE, "Privacy": "bad", "Privacy at a δ": "care"}
UNHEARD = {
    **UNREAD,
    "Signed by parties": "open",
    "Signed by the aggregator": "open",
    "The count": "care",
    "The result": "open",
    "Privacy at a δ": "",
    "False answers": "",
}
UNPUBLISHED = {"The result": "bad", "False answers": ""}
UNBOUNDED = {"Privacy": "care", "Privacy at a δ": "", "False answers": "care"}
ALL_BUT_ONE = ",".join(["aggregator", *(f"party-{i}" for i in range(1, PARTIES))])

CASES = {
    "sound": Case(file_of, {}),
    "its checkpoint": Case(
        file_of, {"What was published": "good"}, checkpoint=lambda: last_of(file_of())
    ),
    "its digest": Case(file_of, {"What was published": "good"}, digest="own"),
    "another digest": Case(file_of, DIFFERS, digest="00" * 32),
    "another record's checkpoint": Case(
        file_of, FOREIGN, checkpoint=lambda: last_of(file_of(seed=2))
    ),
    "its digest and another checkpoint": Case(
        file_of, FOREIGN, digest="own", checkpoint=lambda: last_of(file_of(seed=2))
    ),
    "its checkpoint and another digest": Case(
        file_of, DIFFERS, digest="00" * 32, checkpoint=lambda: last_of(file_of())
    ),
    "an earlier checkpoint": Case(
        lambda: file_of(ROUNDS),
        {PRIVACY: "moderate", "Claims": "care"},
        checkpoint=lambda: checkpoints_of(file_of(ROUNDS))[0],
    ),
    "an earlier checkpoint of another record": Case(
        lambda: file_of(ROUNDS),
        {**FOREIGN, "Claims": "care"},
        checkpoint=lambda: checkpoints_of(file_of(ROUNDS, seed=2))[0],
    ),
    "a checkpoint that contradicts the record's": Case(
        file_of,
        {**DIFFERS, "Signed by the aggregator": "bad"},
        checkpoint=lambda: last_of(later()),
    ),
    "a checkpoint that a witness has cosigned": Case(
        file_of,
        {"What was published": "good", "Witnesses": "good", "The beginning": "care"},
        checkpoint=lambda: last_of(file_of()),
        witnesses=1,
    ),
    "a first checkpoint that a witness has cosigned too": Case(
        begun_before_a_witness,
        {"What was published": "good", "Witnesses": "good", "The beginning": "good"},
        checkpoint=lambda: last_of(begun_before_a_witness()),
        witnesses=1,
    ),
    "a checkpoint that one of two witnesses has cosigned": Case(
        file_of,
        {**BROKEN, "What was published": "good", "Witnesses": "bad", "The beginning": "care"},
        checkpoint=lambda: last_of(file_of()),
        witnesses=2,
    ),
    "a flipped bit of a packed file": Case(
        unpackable,
        {**UNREAD, **FORGED, **UNFINISHED},
    ),
    "a flipped bit of a packed file, and another digest": Case(
        unpackable,
        {**UNREAD, **FORGED, **UNFINISHED, "What was published": "open"},
        digest="00" * 32,
    ),
    "unreadable after its header": Case(
        lambda: unreadable_after_header(file_of()),
        {**UNHEARD, **FORGED, **UNFINISHED},
    ),
    "cut after its header": Case(lambda: header_of_file(file_of()), UNHEARD),
    "torn in the last entry": Case(
        lambda: file_of()[: file_of().rindex(b"Ending") + 9], {**UNREAD, **FORGED}
    ),
    "torn in the last checkpoint": Case(lambda: file_of()[:-5], {**INCOMPLETE, **FORGED}),
    "a run that failed": Case(failed, INCOMPLETE),
    "a run with a loss": Case(lambda: file_of(lossy=True), {"The count": "care"}),
    "one left out": Case(lambda: forged(one_left_out), {**REFUSED, "The count": "bad", **FORGED}),
    "nothing published": Case(lambda: forged(unpublished), {**REFUSED, **UNPUBLISHED, **FORGED}),
    "another result": Case(
        lambda: forged(another_result), {**REFUSED, "The result": "bad", **FORGED}
    ),
    "an analysis that was announced": Case(announced, {"The analysis": "good"}),
    "an analysis that was announced, and nothing published": Case(
        lambda: announced(unpublished),
        {**REFUSED, **UNPUBLISHED, "The analysis": "care", **FORGED},
    ),
    "a result that cannot be read": Case(
        lambda: file_of(Unreadable.with_keep(BITS, 0.6)),
        {**REFUSED, **UNPUBLISHED},
        variant="Unreadable",
    ),
    "a result that cannot be followed": Case(
        lambda: file_of(
            SecureSumVariant(survey=BITS, sums=SecureSum(opening="withheld")), seeded=False
        ),
        {RECORD: "unchecked", "The result": "open", "Simulation": "", **UNBOUNDED},
    ),
    "a sum that anybody can follow": Case(
        lambda: file_of(SecureSumVariant(survey=BITS), seeded=False),
        {"Simulation": "", **UNBOUNDED},
    ),
    "a second attempt": Case(
        lambda: recorded(SIMPLE, signed=True, attempt=2).content, {"Attempts": "care"}
    ),
    "no simulation": Case(lambda: file_of(seeded=False), {"Simulation": ""}),
    "no bound, and nothing claimed": Case(
        lambda: file_of(SecureSumVariant(survey=BITS)), UNBOUNDED
    ),
    "no bound where one is claimed": Case(
        lambda: file_of(RRClusters(survey=BITS, p=0.6, tv=4, td=0.1, dependence="secure-sum")),
        {**UNBOUNDED, "Claims": "care"},
    ),
    "more than is claimed": Case(lambda: file_of(ROUNDS), {PRIVACY: "moderate", "Claims": "care"}),
    "the answers themselves": Case(
        lambda: file_of(Outspoken.with_keep(BITS, 0.6)),
        {PRIVACY: "none", "Claims": "care", **UNBOUNDED, "False answers": "note"},
        variant="Outspoken",
    ),
    "reports that are certain": Case(
        lambda: file_of(RRIndependent.with_keep(BITS, 0.9999)), {PRIVACY: "none"}
    ),
    "reports that tell little": Case(
        lambda: file_of(RRIndependent.with_keep(BITS, 0.05)), {PRIVACY: "strong"}
    ),
    "an exact sum over many": Case(
        lambda: recorded(SecureSumVariant(survey=BITS), 12, signed=True).content,
        {PRIVACY: "moderate", **UNBOUNDED},
    ),
    "an exact sum over two": Case(
        lambda: recorded(PAIR, 2, signed=True).content, {PRIVACY: "none", **UNBOUNDED}
    ),
    "two parties without keys": Case(
        lambda: file_of(unsigned=("party-1", LOST)),
        {"Signed by parties": "care", "Privacy of the unsigned": "care"},
    ),
    "no signature at all": Case(
        lambda: file_of(unsigned=tuple(finished_run().setting.identities)),
        {
            "Signed by parties": "care",
            "Privacy of the unsigned": "care",
            "Privacy at a δ": "",
            **FORGED,
        },
    ),
    "replayed with the true records": Case(file_of, {"Replayed words": "good"}, records="true"),
    "replayed with others": Case(file_of, {**REFUSED, "Replayed words": "bad"}, records="others"),
    "replayed where some have declined": Case(
        lambda: recorded(SIMPLE, budget=0.1).content,
        {
            **INCOMPLETE,
            **FORGED,
            "Replayed words": "open",
            "The count": "care",
            **UNPUBLISHED,
            "Privacy at a δ": "",
        },
        records="true",
    ),
    "nothing but a header": Case(
        lambda: written(TranscriptReader(file_of()).header, ()).content,
        {
            **REFUSED,
            **FORGED,
            "Signed by parties": "note",
            "The count": "care",
            **UNPUBLISHED,
            "Privacy at a δ": "",
        },
    ),
    "nobody conspires well": Case(
        lambda: file_of(SecureSumVariant(survey=BITS)),
        {**UNBOUNDED, "Coalition": "note", "The worst coalition": "note"},
        options=("--observer", "party-1", "--worst", "1"),
    ),
    "all but one conspire": Case(
        lambda: file_of(SecureSumVariant(survey=BITS)),
        {**UNBOUNDED, PRIVACY: "none", "Coalition": "care", "The worst coalition": "care"},
        options=("--observer", ALL_BUT_ONE, "--worst", str(PARTIES - 1)),
    ),
    "told twice": Case(
        lambda: file_of(RRClusters(survey=BITS, p=0.6, tv=4, td=0.1, dependence="rr")),
        {"Linkage": "care"},
    ),
}


def by_figures(found: Any) -> dict[str, str]:
    """How some checks come out by the figures beside the statement that ``--json`` prints."""
    verification, privacy = found["verification"], found["privacy"]
    counts = found["completeness"]
    wrong = any(closing["left_out"] or closing["unheard"] for closing in counts["closings"])
    everybody = counts["counted"] == counts["parties"]
    result = found["result"]
    states = {True: "good", False: "bad", None: "open"}
    partial = any("could not be read whole" in why for why in privacy.get("unbounded", ()))
    missing = "open" if partial else "bad"
    follows = states[result["follows"]] if result["published"] else missing
    if result["follows"] and result["respondents"] is None:
        follows = "bad"
    others = [other["follows"] for other in found["replay"]["others"]]
    words = "bad" if False in others else "open" if None in others else "good"
    unbounded = any(claim["unbounded"] for claim in privacy["claims"])
    exceeded = any((claim["factor"] or 0) > 1 + 1e-9 for claim in privacy["claims"])
    published = {"not compared": "care", "begins": "care", "fits": "good", "differs": "bad"}
    published["another session"] = "bad"
    unread = verification["unopened"] is not None
    if unread:
        published["differs"] = "open"
    # A checkpoint of another session says nothing of the file.
    alone = verification["verdict"] == "sound" or verification["published"] == "another session"
    soundness = "broken" if found["findings"] else "sound"
    if verification["verdict"] == "incomplete":
        soundness = "incomplete"
    return {
        RECORD: "unfinished"
        if unread
        else "unchecked"
        if follows == "open" and not partial
        else soundness,
        PRIVACY: protection(found),
        "The record": "open" if unread else states[alone],
        "What was published": published[verification["published"]],
        "Signed by parties": ("open" if partial else "note")
        if not verification["signed"]["of"]
        else "good"
        if verification["signed"]["parties"] == "all"
        else "care",
        "Signed by the aggregator": "bad"
        if verification["equivocation"]
        else "good"
        if verification["signed"]["at_the_end"]
        else "open"
        if partial and not verification["signed"]["checkpoints"]
        else "care",
        "The count": "bad" if wrong else "good" if everybody else "care",
        "The result": follows,
        "Replayed words": words if found["replay"]["parties"] else "",
        "Simulation": "care" if found["simulated"] else "",
        "Attempts": "care" if found["attempt"] > 1 else "",
        "Privacy": "bad" if partial else "care" if "unbounded" in privacy else "note",
        "Privacy of the unsigned": "care" if "unsigned" in privacy else "",
        "Claims": "care" if unbounded or exceeded else "note",
        **{
            about: "care" if found[key]["exposed"]["size"] else "note"
            for about, key in (("Coalition", "coalition"), ("The worst coalition", "worst"))
            if key in found
        },
        "Linkage": "care" if any(g["repeated"] for g in found["linkage"]["groups"]) else "note",
        "False answers": ""
        if result["false_answers"] is None
        else "care"
        if result["false_answers"]["summed"]
        else "note",
    }


def protection(found: Any) -> str:
    """The verdict on privacy by the figures that ``--json`` prints."""
    privacy, verdict = found["privacy"], found["statement"]["privacy"]
    odds = math.inf if verdict["epsilon"] is None else math.exp(verdict["epsilon"])
    crowd = math.inf if verdict["crowd"] is None else verdict["crowd"]
    worst = "none" if odds > 30_000 or crowd < 3 else "weak" if odds > 30 or crowd < 11 else ""
    worst = worst or ("moderate" if odds > 3 or crowd < math.inf else "strong")
    unread = any("could not be read whole" in why for why in privacy.get("unbounded", ()))
    if unread or found["verdict"] in ("broken", "incomplete"):
        return "none" if worst == "none" else "unknown"
    losses = [account["record_epsilon"] for account in privacy["accounts"]]
    if crowd == math.inf and "unsigned" not in privacy and privacy["observer"] == AGGREGATOR:
        assert verdict["epsilon"] == max(losses, default=0.0)
    return worst


STATES = {
    **{"sound": "good", "incomplete": "bad", "broken": "bad"},
    **{"unfinished": "open", "unchecked": "open"},
    **{"none": "bad", "weak": "care", "moderate": "note", "strong": "good", "unknown": "open"},
}
"""How each word of a verdict is to be taken."""

Said = dict[str, tuple[str, str]]
"""Of every check how it came out, and of both verdicts the word; beside it the sentence."""


def in_json(found: Any) -> Said:
    said = found["statement"]
    verdicts = said["record"], said["privacy"]
    assert said["record"]["verdict"] == found["verdict"]
    # It is the verdict on the aggregator's knowledge, and the figures there are the observer's.
    assert "verdict" not in found["privacy"]
    return {
        **{
            about: (each["verdict"], _said(each["says"], each.get("caveat"), *each["reasons"]))
            for about, each in zip((RECORD, PRIVACY), verdicts, strict=True)
        },
        **checks_in_json(said["checks"]),
    }


def checks_in_json(checks: Any) -> Said:
    return {check["about"]: (check["state"], check["says"]) for check in checks}


def in_words(said: str) -> Said:
    found = re.findall(
        r"^(Record|Privacy)(?: of the design)?: (\w+)\. (.+)\n((?:  .+\n)*)", said, re.MULTILINE
    )
    assert [about for about, *_ in found] == ["Record", "Privacy"]
    lines = [[line.strip() for line in more.splitlines()] for *_, more in found]
    # The scale is not one of the reasons.
    scale = lines[1].pop()
    assert (f"[{found[1][1]}]" in scale) == (found[1][1] != "unknown")
    return {
        **{
            key: (word, " ".join((says, *more)))
            for key, (_, word, says, _), more in zip((RECORD, PRIVACY), found, lines, strict=True)
        },
        **checks_in_words(said),
    }


def _said(*sentences: str | None) -> str:
    return " ".join(filter(None, sentences))


def checks_in_words(said: str) -> Said:
    states = {word: state for state, word in WORDS.items()}
    lines = re.findall(rf"^  ({'|'.join(states)}) +([^.]+)\. (.+)$", said, re.MULTILINE)
    return {about: (states[word], says) for word, about, says in lines}


def on_the_page(text: str) -> Said:
    verdicts = re.findall(
        r'<(div|details) id="(record|privacy)" class="verdict (\w+)"(?: open)?>.*?'
        r"<span>(\w+)(?: of the design)?: (\w+)</span>(.*?)</\1>",
        text,
        re.DOTALL,
    )
    assert [(key, about) for _, key, _, about, *_ in verdicts] == [
        ("record", "Record"),
        ("privacy", "Privacy"),
    ]
    assert all(STATES[word] == state for *_, state, _, word, _ in verdicts)
    caveats = re.findall(r'<p class="caveat"><bdi>([^<]+)</bdi>', text)
    checks = re.findall(
        r'<li class="(\w+)">(?:(?!</li>).)*?aria-label="(\w+):"(?:(?!</li>).)*?'
        r"<strong>([^<]+)\.</strong> <bdi>([^<]+)</bdi>",
        text,
        re.DOTALL,
    )
    assert all(WORDS[state] == word for state, word, *_ in checks)
    return {
        **{
            key: (word, html.unescape(_said(*_sentences(body, caveats if key == PRIVACY else []))))
            for key, (*_, word, body) in zip((RECORD, PRIVACY), verdicts, strict=True)
        },
        **{about: (state, html.unescape(says)) for state, _, about, says in checks},
    }


def _sentences(body: str, caveats: list[str]) -> list[str]:
    """What is said of a verdict; on a page its meaning stands above it, and a caveat below all."""
    first, *others = re.findall(r"<bdi>([^<]+)</bdi>", body)
    if '<p class="says">' in body:
        first = others.pop(0)
    return [first, *caveats, *others]


def states_of(answer: object) -> set[str]:
    """The states in which a check can come out, by the source of whoever answers it."""
    if isinstance(answer, Mapping):
        return {state for state, _ in answer.values()}
    if not inspect.isfunction(answer) or answer.__module__ not in ASKING:
        return set()
    nodes = list(ast.walk(ast.parse(inspect.getsource(answer))))
    found = {node.value for node in nodes if isinstance(node, ast.Constant)} & set(WORDS)
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return found.union(*(states_of(answer.__globals__.get(name)) for name in used))


def test_every_check_has_records_in_which_it_comes_out_in_every_way() -> None:
    possible = {
        **{about: states_of(answer) for about, answer in OF_THE_FILE.items()},
        **{about: states_of(question.answer) for about, question in OF_THE_AUDIT.items()},
    }
    seen = {
        about: {{**SOUND, **case.differs}.get(about, "") for case in CASES.values()} - {""}
        for about in possible
    }
    assert seen == possible
    moot = "Simulation", "Attempts", "Privacy of the unsigned"
    assert all(len(states) > 1 or about in moot for about, states in seen.items())


def test_every_word_of_both_verdicts_is_said_of_some_record() -> None:
    for about in (RECORD, PRIVACY):
        seen = {{**SOUND, **case.differs}[about] for case in CASES.values()}
        assert seen <= set(STATES)
    words = {
        {**SOUND, **case.differs}[about] for case in CASES.values() for about in (RECORD, PRIVACY)
    }
    assert words == set(STATES)


@pytest.mark.parametrize("name", thinned(CASES, 8))
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
        note, *keys = witnessed(case.checkpoint(), case.witnesses)
        published.write_text(note)
        asked += ["--checkpoint", published]
        asked += [word for key in keys for word in ("--witness-key", key)]
    if case.records is not None:
        records = answers(BITS, PARTIES if case.records == "true" else 2 * PARTIES)
        csv = tmp_path / "records.csv"
        csv.write_text(records.to_csv(), encoding="utf-8")
        asked += ["--records", csv]
    if case.variant is not None:
        asked += ["--variant", f"{__file__}:{case.variant}"]
    asked += case.options
    words, values = sottovoce(*asked, "--details", "--html", page), sottovoce(*asked, "--json")
    found = json.loads(values.out)
    said = in_json(found)
    assert in_words(words.out) == said
    assert on_the_page(page.read_text(encoding="utf-8")) == said
    expected = {about: state for about, state in {**SOUND, **case.differs}.items() if state}
    assert {about: state for about, (state, _) in said.items()} == expected
    figures = {about: state for about, state in by_figures(found).items() if state}
    assert figures.items() <= expected.items()
    codes = {"sound": 0, "incomplete": 1, "broken": 1, "unfinished": 3, "unchecked": 4}
    code = codes[expected[RECORD]]
    assert words.code == values.code == code
    of_the_file = {about: said[about] for about in OF_THE_FILE if about in said}
    assert checks_in_json(found["verification"]["checks"]) == of_the_file


@pytest.mark.parametrize("name", ["sound", "torn in the last entry", "a run that failed"])
def test_verify_says_what_an_audit_says(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.svt"
    path.write_bytes(CASES[name].file())
    said = in_json(json.loads(sottovoce("audit", path, "--json").out))
    of_the_file = {about: said[about] for about in OF_THE_FILE if about in said}
    assert checks_in_words(sottovoce("verify", path).out) == of_the_file
    found = json.loads(sottovoce("verify", path, "--json").out)
    assert checks_in_json(found["checks"]) == of_the_file
