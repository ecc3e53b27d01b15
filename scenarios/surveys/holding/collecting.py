"""The aggregator's side of a survey that people answer from a page, until it closes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

import trio

from parties.keeping.attempts import counting
from parties.keeping.members import Member
from parties.keeping.places import linked
from protocol.audit.proofs.making_receipts import NotCountedError
from protocol.errors import UsageError
from protocol.session.charter import Charter
from protocol.session.variant import Variant
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import encode_receipt
from scenarios.files.transcripts import Transcript
from scenarios.running.outcomes import Outcome
from scenarios.surveys.holding.attempts import Opening, check_aggregator
from scenarios.surveys.holding.serving import Serving
from scenarios.surveys.holding.waiting import Pages, await_answers, check_open
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.operating.signals import heeding
from scenarios.wording.formatting import some
from transports.web.gateway import Gateway, OnRecord, Page

_NAMED = 20  # Maximum number of named parties.


def check_collected(member: Member) -> None:
    """Check that a member is the aggregator of a survey with links.

    Raises:
        UsageError: the folder is a party's, or the survey has no links.
    """
    check_aggregator(member)
    if not linked(member.charter):
        raise UsageError(
            f"{member.folder}: nobody has a link to this survey; 'sottovoce links' makes them, and "
            "'sottovoce aggregate' holds this one"
        )


def check_answerable(member: Member, parties: tuple[str, int] | None) -> None:
    """Check that all can answer: by links until the survey closes, and by folders.

    Args:
        parties: as in ``collect_survey``.

    Raises:
        UsageError: ordinary parties have nowhere to connect, or no attempt has begun before the
            survey closed; or another program is at it.
        OSError: its attempts cannot be read.
    """
    charter = member.charter
    places = frozenset(linked(charter))
    others = [name for name in charter.roster.parties if name not in places]
    if others and parties is None:
        raise UsageError(
            f"expected --parties HOST:PORT, where those connect who have no link: "
            f"{some(others, len(others), _NAMED)}"
        )
    check_open(member)


def is_over(member: Member) -> bool:
    """Return whether the last attempt that the aggregator has begun is over.

    Raises:
        UsageError: another program is at it.
        OSError: its attempts cannot be read.
    """
    with counting(member.folder) as counter:
        return counter.last is not None and counter.last.state == "over"


def collect_survey(
    member: Member,
    *,
    page: Page,
    serving: Serving,
    parties: tuple[str, int] | None,
    listening: Callable[[str], object],
    publish: Callable[[Outcome[Variant]], object] | None = None,
    **opening: Unpack[Opening],
) -> Outcome[Variant]:
    """Hold a survey with links: ask, take answers until it closes, publish, and record.

    Args:
        page: the page for browsers.
        serving: the server.
        parties: address for parties over TLS, if there are any.
        listening: called with the page's address, and that for parties if there are any.

    All else is as for ``aggregate_survey``.
    """
    check_collected(member)
    serving.context()  # A mismatch is reported before anything begins.
    opening["operation"] = operation = opening.get("operation") or Operation()
    said = OnRecord(linked(member.charter))
    operation.follow_too(said.take)

    def pages(charter: Charter) -> Pages:
        return Pages(Gateway(charter, said, page, proxied=serving.proxied), serving)

    return await_answers(
        member,
        parties=parties,
        pages=pages,
        listening=listening,
        publish=publish,
        **opening,
    )


def serve_receipts(
    member: Member,
    *,
    page: Page,
    serving: Serving,
    transcript: Path,
    listening: Callable[[str], object],
) -> None:
    """Show places after the end whether they were counted, until a signal comes.

    Args:
        transcript: path of a finished attempt at the member's survey.
        listening: called with the page's address, and how many receipts there are.

    Raises:
        StoppedError: a signal came.
        UsageError: the transcript is of another survey.
        OSError: it cannot be read, or the address cannot be listened at.
        ProtocolError: the record proves nothing.
    """
    check_collected(member)
    opened, said = Transcript(transcript), OnRecord(linked(member.charter))
    reader = TranscriptReader(opened.chunks())
    charter = member.charter.again(reader.header.attempt)
    if charter.session != reader.header.session:
        raise UsageError(f"{transcript}: is not of the survey of {member.folder}")
    for entry in reader:
        said.take(entry)
    proved, covering = opened.prove_each(type(charter.variant), sorted(said.answered))
    gateway = Gateway(charter, said, page, proxied=serving.proxied)
    gateway.receipts = {
        name: (encode_receipt(found), covering.note)
        for name, found in proved
        if not isinstance(found, NotCountedError)
    }
    gateway.close(covering.note)

    async def serve() -> None:
        async with serving.served(gateway) as where:
            listening(f"{where}, with {len(gateway.receipts):,} receipts")
            await trio.sleep_forever()

    trio.run(heeding, serve)
