"""Spending that a party's folder recalls, for a purse that was lost or is an older copy."""

from __future__ import annotations

from collections.abc import Iterator

from parties.keeping.attempts import answers_in
from parties.keeping.members import Member
from parties.keeping.paying.payments import Recalled, Release, heard_digest
from parties.keeping.receipts import DECLINED, LATE_NOTE, RECEIPT, REFUSED
from parties.keeping.remembered import DIGEST_BYTES, noted_in
from protocol.accounting.spending import Cost
from protocol.session.charter import Charter

_SAID = ("said", *(kind for kind, _ in (RECEIPT, LATE_NOTE, DECLINED, REFUSED)))
"""Beginnings of files that a party has only of sessions in which it has said something."""


def recalled_in(member: Member) -> list[Recalled]:
    """All spending in attempts that a party's folder knows of, from any purse.

    For attempts with only sent messages or a receipt in the folder, it is the most that one attempt
    can cost.

    Raises:
        UsageError: a file is malformed.
        OSError: one cannot be read; names it.
    """
    charter, answers = member.charter, answers_in(member.folder)
    most = charter.variant.most_among(0, 0.0)
    costs = {attempt: answers.spent(attempt) for attempt in answers.attempts}
    for attempt in _attempts_sent(member):
        costs.setdefault(attempt, most)
    return [
        _recalled(member, charter.again(attempt), cost)
        for attempt, cost in sorted(costs.items())
        if cost.epsilon or cost.delta
    ]


def _attempts_sent(member: Member) -> Iterator[int]:
    """The attempts in which the party has sent something of its own, by the files in its folder."""
    for path in sorted(member.folder.iterdir()):
        kind, _, session = path.name.rpartition("-")
        attempt = _find_attempt(member.charter, session) if kind in _SAID else None
        if attempt is None:
            continue
        id_ = member.charter.again(attempt).session
        if kind != "said" or noted_in(member.folder, "said", id_)[1]:
            yield attempt


def _find_attempt(charter: Charter, session: str) -> int | None:
    try:
        return charter.find_attempt(bytes.fromhex(session))
    except ValueError:
        return None


def _recalled(member: Member, charter: Charter, cost: Cost) -> Recalled:
    drawn, heard = noted_in(member.folder, "heard", charter.session)
    release = Release(
        survey=charter.survey_id,
        session=charter.session,
        party=member.identity.name,
        # Without its memory the party cannot answer there again, which this release sees to.
        drawn=drawn or bytes(DIGEST_BYTES),
    )
    return Recalled(
        release=release,
        group=None,
        epsilon=cost.epsilon,
        delta=cost.delta,
        honest=cost.honest,
        heard=len(heard),
        digest=heard_digest(b"".join(heard)),
    )
