"""Everything else that is read, such as receipts, checkpoints, letters, charters, plans, records.

All belong to one survey, whose true files lie in a folder.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from protocol.transcript.receipts import MAGIC
from tests.hostile.drafts import pack
from tests.hostile.transcripts import damaged
from tests.hostile.values import INTEGERS, TEXTS, changed
from tests.recorded.checkpointed import checkpoints_of, record, resigned
from tests.recorded.signed import signed_run
from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import ANALYSIS, PLAN, make_folders

TRUE = "true"
"""The folder of the true files, beside those of the corpus."""

_TOKEN = re.compile(r"[A-Za-z0-9_.+-]+|[^\sA-Za-z0-9]")
_NUMBERS = ("inf", "nan", "-1", "0", "1e999", "1e-999", "0x10", "9" * 5000, "1" * 400, "-0.0")
_BRACKETS = ("[" * 50, "[" * 20_000, "]", "{", "{" * 3000, '"', "'''", "=", "a.b.c=1\n", "#", "\n")


def lay_out(folder: Path) -> None:
    """Write the true files: a transcript and what is made of it, members' folders, a plan."""
    folder.mkdir()
    run = signed_run()
    transcript, notes = folder / "run.svt", folder / "notes"
    transcript.write_bytes(run.content)
    (folder / "records.csv").write_text(_records_of(run))
    done = [
        sottovoce("prove", transcript, "party-1", "--out", folder / "receipt"),
        sottovoce("verify", transcript, "--checkpoints", notes),
    ]
    many = folder / "many.svt"
    many.write_bytes(record())
    early, *_, last = checkpoints_of(record())
    (folder / "early").write_text(early.note)
    (folder / "late").write_text(last.note)
    (folder / "last").write_text(checkpoints_of(run.content)[-1].note)
    fork = msgspec.structs.replace(last, root=bytes(32))
    (folder / "fork").write_text(resigned(fork).note)
    proof = "prove", many, "--since", folder / "early", "--out", folder / "consistency"
    done.append(sottovoce(*proof))
    evidence = "--checkpoint", folder / "fork", "--evidence", folder / "evidence.json"
    assert sottovoce("verify", many, *evidence).code == 1
    make_folders(folder)
    enrolment, party = folder / "enrolment", folder / "dora"
    named = ("--party", "dora", "--party", "emil")
    done.append(sottovoce("invite", folder / "plan.toml", *named, "--out", enrolment))
    for name, out in (("dora", party), ("emil", folder / "emil")):
        invitation = enrolment / "invitations" / f"{name}.json"
        done.append(sottovoce("join", invitation, "--out", out))
        done.append(sottovoce("admit", enrolment, out / "request.json"))
    again = folder / "again"
    done.append(sottovoce("join", enrolment / "invitations" / "dora.json", "--out", again))
    assert sottovoce("admit", enrolment, again / "request.json").code == 1
    done.append(sottovoce("seal", enrolment))
    assert [said.code for said in done] == [0] * len(done), done


def _records_of(run: Any) -> str:
    held = run.setting.holdings.values()
    survey = run.charter.variant.survey
    lines = [",".join(survey.names)]
    for records in held:
        for row in records.codes:
            cells = zip(survey.attributes, row, strict=True)
            lines.append(",".join(attribute.categories[code] for attribute, code in cells))
    return "\n".join(lines) + "\n"


Case = tuple[str, dict[str, bytes], tuple[str, ...]]
"""What it is; the files to write, by name; a command, in which ``@`` stands for their folder."""


def another(random: Random, true: Path) -> Case:
    """A changed file of any of these kinds, and the command that reads it."""
    return random.choice(_KINDS)(random, true)


@functools.cache
def _true(path: Path) -> bytes:
    return path.read_bytes()


def _receipt(random: Random, true: Path) -> Case:
    content = _true(true / "receipt")
    if random.random() < 0.8:
        value = changed(msgspec.msgpack.decode(content[len(MAGIC) :]), random)
        if random.random() < 0.5:
            value = changed(value, random)
        content = MAGIC + pack(value)
    else:
        content = damaged(content, random)
    more = ("--member", f"{true}/keys/anna") if random.random() < 0.1 else ()
    command = "check", "@/receipt", "--checkpoint", f"{true}/last", *more
    return "receipt", {"receipt": content}, (*command, *_json(random))


def _report(random: Random, true: Path) -> Case:
    command = "check", f"{true}/receipt", "--checkpoint", f"{true}/last", "--report", "@/report"
    return "report", {"report": random.randbytes(random.choice((0, 10, 9999)))}, command


def _consistency(random: Random, true: Path) -> Case:
    content = _text(_true(true / "consistency"), random)
    command = "consistency", "@/proof", "--since", f"{true}/early", "--checkpoint", f"{true}/late"
    return "consistency proof", {"proof": content}, (*command, *_json(random))


def _checkpoint(random: Random, true: Path) -> Case:
    content = _text(_true(true / "last"), random)
    commands = (
        ("check", f"{true}/receipt", "--checkpoint", "@/note"),
        ("verify", f"{true}/run.svt", "--checkpoint", "@/note", "--evidence", "@/evidence"),
        ("prove", f"{true}/run.svt", "--since", "@/note", "--out", "@/proof"),
        ("prove", f"{true}/run.svt", "party-2", "--checkpoint", "@/note", "--out", "@/proof"),
    )
    return "checkpoint", {"note": content}, random.choice(commands)


def _evidence(random: Random, true: Path) -> Case:
    content = _true(true / "evidence.json")
    if random.random() < 0.5:
        content = _json_of(changed(json.loads(content), random))
    else:
        content = _text(content, random)
    return "evidence", {"evidence": content}, ("evidence", "@/evidence", *_json(random))


def _charter(random: Random, true: Path) -> Case:
    folder = true / "keys" / random.choice(("anna", "anna", "aggregator"))
    files = {path.name: _true(path) for path in folder.iterdir() if path.is_file()}
    listed = "roster.json" if "roster.json" in files else "place.json"
    if random.random() < 0.15:
        name = random.choice(list(files))
        files[name] = damaged(files[name], random)
    elif random.random() < 0.3:
        files[listed] = _json_of(changed(json.loads(files[listed]), random))
    elif random.random() < 0.7:
        value = changed(json.loads(files["charter.json"]), random)
        files["charter.json"] = _json_of(changed(value, random))
    else:
        files["charter.json"] = _text(files["charter.json"], random)
    commands = (
        ("check", f"{true}/receipt", "--checkpoint", f"{true}/last", "--member", "@"),
        ("audit", f"{true}/run.svt", "--member", "@", "--json"),
        ("answer", "@", "--connect", "127.0.0.1:1", "--records", f"{true}/records.csv"),
    )
    return "charter", files, random.choice(commands)


def _letter(random: Random, true: Path) -> Case:
    enrolment, party = true / "enrolment", true / "dora"
    kind, path = random.choice(
        (
            ("invitation", enrolment / "invitations" / "dora.json"),
            ("request", party / "request.json"),
            ("admission", enrolment / "sealed" / "admissions" / "dora.json"),
            ("refusal", next((enrolment / "refusals").iterdir())),
        )
    )
    content = _true(path)
    if random.random() < 0.8:
        content = _json_of(changed(json.loads(content), random))
    else:
        content = _text(content, random)
    files = {"letter": content}
    if kind == "invitation":
        return kind, files, ("join", "@/letter", "--out", "@/new")
    if kind == "request":
        kept = [enrolment / name for name in ("enrolment.json", "identity.key", "requests.jsonl")]
        files |= {each.name: _true(each) for each in kept}
        return kind, files, ("admit", "@", "@/letter")
    files |= {each.name: _true(each) for each in party.iterdir()}
    return kind, files, ("accept", "@", "@/letter")


def _plan(random: Random, true: Path) -> Case:
    text = (PLAN + (ANALYSIS if random.random() < 0.5 else "")).encode()
    content = _text(text, random)
    return "plan", {"plan.toml": content}, ("keys", "@/plan.toml", "--count", "3", "--out", "@/k")


def _survey(random: Random, true: Path) -> Case:
    attributes = "\n".join(PLAN.split("\n\n")[1:])
    content = _text(f'title = "t"\n{attributes}'.encode(), random)
    # Every kind is unknown, so that no contract is tried.
    variant = random.choice(("rr-independent", "rr-joint", "secure-sum", "rrba", "marg-ht"))
    command = "test", variant, "--survey", "@/survey.toml", "--rare", "Nothing"
    return "survey", {"survey.toml": content}, command


def _records(random: Random, true: Path) -> Case:
    content = _text(_true(true / "records.csv"), random)
    command = "audit", f"{true}/run.svt", "--records", "@/records.csv", "--json"
    return "records", {"records.csv": content}, command


_KINDS = (
    *(_receipt,) * 4,
    _report,
    *(_consistency,) * 2,
    *(_checkpoint,) * 3,
    *(_evidence,) * 2,
    *(_charter,) * 4,
    *(_letter,) * 4,
    *(_plan,) * 3,
    *(_survey,) * 2,
    *(_records,) * 2,
)


def _json(random: Random) -> tuple[str, ...]:
    return ("--json",) if random.random() < 0.5 else ()


def _json_of(value: Any) -> bytes:
    def plain(held: object) -> object:
        return bytes(held).decode("latin-1") if isinstance(held, bytes | msgspec.Raw) else [held]

    return json.dumps(value, default=plain).encode("utf-8", "surrogatepass")


def _text(content: bytes, random: Random) -> bytes:
    """A text with a token, a line or a few bytes changed."""
    what = random.random()
    if what < 0.2:
        return damaged(content, random)
    lines = content.decode("utf-8", "replace").splitlines(keepends=True) or [""]
    place = random.randrange(len(lines))
    if what < 0.4:
        lines[place : place + 1] = random.choice(
            ([], [lines[place]] * 2, [lines[place]] * 500, [lines[random.randrange(len(lines))]])
        )
        return "".join(lines).encode()
    for _ in range(random.choice((1, 1, 2))):
        place = random.randrange(len(lines))
        found = list(_TOKEN.finditer(lines[place]))
        if found:
            token = random.choice(found)
            integers = map(str, INTEGERS)
            pool = random.choice((TEXTS, _NUMBERS, _BRACKETS, tuple(integers)))
            line = lines[place]
            lines[place] = line[: token.start()] + random.choice(pool) + line[token.end() :]
    return "".join(lines).encode("utf-8", "surrogatepass")
