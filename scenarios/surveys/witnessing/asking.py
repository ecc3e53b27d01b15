"""Asking witnesses for cosignatures of a checkpoint, within a time limit."""

from __future__ import annotations

import functools
import http.client
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import trio

from parties.actor import Outside
from parties.keeping.checkpoints import checkpoint_note
from parties.keeping.record_names import checkpoint_path
from parties.keeping.writing import write_whole
from protocol.audit.proofs.consistency import log_hashes
from protocol.crypto.merkle import consistency_path
from protocol.errors import LocalProtocolError, UsageError
from protocol.messages import Message
from protocol.session.charter import Charter
from protocol.session.roles import Gather
from protocol.session.roster import Identity
from protocol.transcript.certifying import Certificate, Witnesses, to_cosign
from protocol.transcript.checkpoints import read_note
from protocol.transcript.consistency import Consistency, encode_consistency
from protocol.transcript.cosignatures import (
    WitnessKey,
    cosignature_line,
    read_witness_key,
    with_lines,
)
from protocol.transcript.recorder import Recorder
from protocol.transcript.witnessing import ADD_CHECKPOINT
from scenarios.errors import WitnessError, say
from scenarios.files.transcripts import Transcript
from scenarios.surveys.operating.operation import Operation
from transports.background import running
from transports.dialing import plain_reason

WITHIN = 10.0
"""Seconds that all witnesses together may take."""

SOON, LATE = 1.0, 10.0
"""The first and the longest pause between two requests to a witness, in seconds."""

_LATER = (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS)

CERTIFYING = 20.0
"""Seconds for which witnesses are asked again to certify a statement.

By then, parties have paid for their messages.
"""

_LARGEST = 1 << 14
_SIZE = re.compile(rb"(0|[1-9][0-9]{0,18})\n")
_SHOWN = 120
_NO_HTTP = "what answers there does not speak HTTP: check the address, and whether it is https"


class WitnessAt(msgspec.Struct, frozen=True):
    """A witness with its address.

    Args:
        url: its submission prefix, ``http`` or ``https``.
        key: its verifier key.
    """

    url: str
    key: WitnessKey


class Asked(msgspec.Struct, frozen=True):
    """A witness's answer.

    Args:
        line: the line of its cosignature; None without one.
        why: why there is no cosignature.
        again: whether another request may help, as the witness was busy or out of reach.
        other: whether it has cosigned a checkpoint that conflicts with this one.
    """

    witness: WitnessAt
    line: str | None
    why: str = ""
    again: bool = False
    other: bool = False


class _NotCosignedError(Exception):
    def __init__(self, why: str, *, again: bool = False, other: bool = False) -> None:
        super().__init__(why)
        self.again = again
        self.other = other


class _Place(NamedTuple):
    secure: bool
    host: str
    port: int | None
    path: str


def witness_at(url: str, key: str) -> WitnessAt:
    """A witness by its URL and verifier key.

    Raises:
        UsageError: the URL or the key is malformed.
    """
    try:
        _place(url)
        return WitnessAt(url, read_witness_key(key))
    except ValueError as error:
        raise UsageError(f"--witness: {error}") from error


def cosign_checkpoint(transcript: Path, witnesses: Sequence[WitnessAt]) -> list[Asked]:
    """Ask witnesses to cosign the checkpoint of a finished transcript, and add their lines to it.

    Args:
        transcript: a transcript that no other program is writing.

    Returns:
        Each witness's answer, in order.

    Raises:
        UsageError, OSError: the checkpoint cannot be read or written.
    """
    path = checkpoint_path(transcript)
    note = checkpoint_note(path)
    asked = ask_witnesses(note, log_hashes(Transcript(transcript).chunks), witnesses)
    lines = [each.line for each in asked if each.line is not None]
    if lines:
        write_whole(path, with_lines(note, lines), private=True)
    return asked


def ask_witnesses(
    note: str,
    hashes: Sequence[bytes],
    witnesses: Sequence[WitnessAt],
    *,
    within: float = WITHIN,
) -> list[Asked]:
    """Ask all witnesses at once; a failing or late one only lacks its cosignature.

    Args:
        note: the checkpoint's note.
        hashes: leaf hashes of the log, for consistency proofs.
        within: seconds for all of them.

    Returns:
        Each witness's answer, in order.
    """
    return trio.run(functools.partial(ask_all, note, hashes, witnesses, within=within))


async def ask_all(
    note: str,
    hashes: Sequence[bytes],
    witnesses: Sequence[WitnessAt],
    *,
    within: float = WITHIN,
) -> list[Asked]:
    """``ask_witnesses`` inside a trio program."""
    asked = [Asked(each, None, f"no answer within {within:.3g} s", True) for each in witnesses]

    async def ask(place: int, witness: WitnessAt) -> None:
        def call() -> Asked:
            return _ask(note, hashes, witness, within)

        # The thread of a late witness is abandoned.
        asked[place] = await trio.to_thread.run_sync(call, abandon_on_cancel=True)

    with trio.move_on_after(within):
        async with trio.open_nursery() as nursery:
            for place, witness in enumerate(witnesses):
                nursery.start_soon(ask, place, witness)
    return asked


def begin(
    recorder: Recorder,
    witnesses: Sequence[WitnessAt],
    *,
    needed: int,
    within: float = 0.0,
    operation: Operation | None = None,
) -> str:
    """Have the first checkpoint of a record cosigned, and record the cosignatures.

    Witnesses that are busy or out of reach are asked again after growing pauses.

    Args:
        recorder: recorder of a survey that has not begun.
        needed: the number of cosignatures needed.
        within: seconds for which witnesses are asked again; each is asked at least once.
        operation: reports progress.

    Returns:
        The note with its cosignatures.

    Raises:
        WitnessError: too few witnesses have cosigned; names the others with reasons.
        LocalProtocolError: something has been recorded.
    """
    first = recorder.checkpoint
    if first is None:
        raise LocalProtocolError("the record has no checkpoint")
    asked = trio.run(_ask_to_begin, first.note, witnesses, needed, within, operation or Operation())
    lines = [each.line for each in asked if each.line is not None]
    if len(lines) < needed:
        raise WitnessError(f"the survey has not begun: {_missing(asked, needed)}")
    note = with_lines(first.note, lines)
    recorder.cosigned(note)
    return note


async def _ask_to_begin(
    note: str, witnesses: Sequence[WitnessAt], needed: int, within: float, operation: Operation
) -> list[Asked]:
    """Ask repeatedly for the first checkpoint, and report progress."""
    said = False

    def report(asked: Sequence[Asked], left: float) -> None:
        nonlocal said
        if not said:
            say(f"{_missing(asked, needed)}; asked again for {left:.0f} s")
        said = True
        operation.progress.witnessing(_count_cosigned(asked), needed, left)

    async with running(*operation.early):
        return await _ask_repeatedly(note, witnesses, needed, within, report)


async def _ask_repeatedly(
    note: str,
    witnesses: Sequence[WitnessAt],
    needed: int,
    within: float,
    report: Callable[[Sequence[Asked], float], object],
) -> list[Asked]:
    """Ask until enough witnesses have cosigned, enough no longer can, or time is up.

    Args:
        report: called before each pause with all answers and the seconds left.
    """
    end, pause = trio.current_time() + within, SOON
    asked = [Asked(each, None, again=True) for each in witnesses]
    while True:
        places = [place for place, each in enumerate(asked) if each.again]
        left = max(1.0, min(WITHIN, end - trio.current_time())) if pause > SOON else WITHIN
        found = await ask_all(note, (), [witnesses[place] for place in places], within=left)
        for place, each in zip(places, found, strict=True):
            asked[place] = each
        cosigned = _count_cosigned(asked)
        left = end - trio.current_time()
        possible = cosigned + sum(each.again for each in asked)
        if cosigned >= needed or possible < needed or left <= 0:
            return asked
        report(asked, left)
        await trio.sleep(min(pause, left))
        pause = min(2 * pause, LATE)


def _missing(asked: Sequence[Asked], needed: int) -> str:
    """Sentence on the number of cosignatures, with the reasons of the other witnesses."""
    why = "; ".join(f"{each.witness.key.name}: {each.why}" for each in asked if each.line is None)
    return (
        f"{_count_cosigned(asked)} of {len(asked)} witnesses have cosigned the first checkpoint, "
        f"expected {needed}: {why}"
    )


def _count_cosigned(asked: Sequence[Asked]) -> int:
    return sum(each.line is not None for each in asked)


def certifying(
    charter: Charter,
    signer: Identity,
    witnesses: Sequence[WitnessAt],
    *,
    durable: Callable[[], Awaitable[object]],
) -> Outside:
    """An aggregator's source of certificates: it asks witnesses.

    Args:
        charter: the session's charter.
        signer: the aggregator with its key.
        durable: waits until the record is durable. An aggregator that forgot a certified statement
            would ask for another one in its place, and witnesses would refuse.
    """

    async def certify(asked: Gather) -> Message | None:
        named = _named_witnesses(charter)
        if asked.kind is not Certificate or asked.round is None or named is None:
            return None
        await durable()
        checkpoint = to_cosign(
            signer, session=charter.session, number=asked.round, statement=asked.about
        )
        own = [each for each in witnesses if each.key in named.read]
        answers = await _ask_repeatedly(checkpoint.note, own, named.quorum, CERTIFYING, report)
        lines = [each.line for each in answers if each.line is not None]
        if len(lines) < named.quorum:
            report(answers, 0.0)
            return None
        return Certificate(asked.round, with_lines(checkpoint.note, lines))

    def report(answers: Sequence[Asked], left: float) -> None:
        for each in answers:
            if each.line is None:
                say(f"witness {each.witness.key.name} has NOT certified: {each.why}")

    return certify


def _named_witnesses(charter: Charter) -> Witnesses | None:
    """The witnesses that certify a survey's sums, if it names any."""
    from protocol.sharing.sums import find_secure_sum  # Few surveys sum.

    sums = find_secure_sum(charter.variant)
    return None if sums is None else sums.certifying


def check_named(charter: Charter, asked: Sequence[WitnessAt]) -> None:
    """Check that enough of the witnesses named by a survey's sums are asked.

    Raises:
        UsageError: too few are; names the others.
    """
    named = _named_witnesses(charter)
    if named is None:
        return
    keys = [each.key for each in asked]
    others = [key.text for key in named.read if key not in keys]
    if len(named.keys) - len(others) < named.quorum:
        raise UsageError(
            f"--witness: {named.quorum} of {len(named.keys)} witnesses have to certify this "
            f"survey's sums; expected a URL for each of them, and there is none for {others[0]}"
            + (f" and {len(others) - 1} more" if len(others) > 1 else "")
        )


def check_newest(recorder: Recorder, witnesses: Sequence[WitnessAt]) -> None:
    """Refuse a record that is older than a witness's last cosignature.

    The witnesses cosign the record's last checkpoint, which is on disk. Failing ones are ignored.

    Args:
        recorder: recorder of a resumed survey; it is ``acknowledging``.

    Raises:
        UsageError: a witness knows a newer or a different record; names the witness.
    """
    last = recorder.checkpoint
    if last is None:
        return
    for each in ask_witnesses(last.note, recorder.hashes(), witnesses):
        if each.other:
            raise UsageError(
                f"this record is older than what witness {each.witness.key.name} knows: {each.why}"
            )


def _ask(note: str, hashes: Sequence[bytes], witness: WitnessAt, within: float) -> Asked:
    try:
        return Asked(witness, _cosignature(note, hashes, witness, within))
    except _NotCosignedError as error:
        return Asked(witness, None, str(error), error.again, error.other)
    except ValueError as error:
        return Asked(witness, None, str(error))
    except OSError as error:
        return Asked(witness, None, plain_reason(error), True)
    except http.client.HTTPException:
        return Asked(witness, None, _NO_HTTP, True)


def _cosignature(note: str, hashes: Sequence[bytes], witness: WitnessAt, within: float) -> str:
    checkpoint = read_note(note)
    status, body = _post(witness.url, encode_consistency(_proof(note, hashes, 0)), within)
    found = _SIZE.fullmatch(body)
    if status == http.client.CONFLICT and found is not None:
        old = int(found[1])
        if old > checkpoint.size:
            raise _NotCosignedError(
                f"it has cosigned size {old}, the checkpoint has {checkpoint.size}: another record "
                "of this session, or an earlier checkpoint",
                other=True,
            )
        status, body = _post(witness.url, encode_consistency(_proof(note, hashes, old)), within)
        if status in (http.client.CONFLICT, http.client.UNPROCESSABLE_ENTITY):
            raise _NotCosignedError(
                f"it has cosigned another log of size {old}: a fork of this record",
                other=True,
            )
    text = body.decode("utf-8", "replace")
    if status != http.client.OK:
        said = " ".join(text[:_SHOWN].split())
        again = status in _LATER or status >= http.client.INTERNAL_SERVER_ERROR
        raise _NotCosignedError(f"it answered {status}: {said}", again=again)
    return cosignature_line(text, note, witness.key)


def _proof(note: str, hashes: Sequence[bytes], old: int) -> Consistency:
    later = read_note(note)
    path = consistency_path(hashes[: later.size], old) if 0 < old < later.size else ()
    return Consistency(old=old, path=path, later=later)


def _post(url: str, body: bytes, within: float) -> tuple[int, bytes]:
    """Post to a witness. Redirections are not followed.

    Raises:
        _NotCosignedError: the answer is too long.
        OSError, HTTPException: the witness cannot be reached, or breaks off.
    """
    place = _place(url)
    kind = http.client.HTTPSConnection if place.secure else http.client.HTTPConnection
    connection = kind(place.host, place.port, timeout=within)
    try:
        connection.request("POST", place.path + ADD_CHECKPOINT, body, {"Connection": "close"})
        response = connection.getresponse()
        content = response.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise _NotCosignedError(f"an answer of more than {_LARGEST} bytes")
        return response.status, content
    finally:
        connection.close()


def _place(url: str) -> _Place:
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ValueError(f"{url!r:.120}: expected a URL http://HOST[:PORT][/PATH], or with https")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"{url!r:.120}: expected printable ASCII without spaces")
    return _Place(parts.scheme == "https", parts.hostname, parts.port, parts.path.rstrip("/"))
