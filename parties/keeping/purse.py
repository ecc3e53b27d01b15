"""What people have spent over all surveys: a purse that outlives the folders of single surveys."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from parties.keeping.attempts import nats_of, rest_of
from parties.keeping.lines import Lines, lines_in, open_lines, unknown
from parties.keeping.members import secret_in
from parties.keeping.remembered import DIGEST_BYTES
from parties.keeping.user_folders import user_folder
from parties.keeping.writing import make_folder, write_once
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import PrivacyError, UsageError
from protocol.messages import PartyId

PAID = "paid"
"""The file in a purse's folder that says who has paid what. It only ever grows."""

PURSE_SECRET = "secret"
"""The file in a purse's folder that people's marks are keyed with."""

_MARK = b"sottovoce respondent 1\0"
_CHECK = b"sottovoce purse 1\0"
_MARKS = np.dtype("<u8")

Marks = NDArray[np.uint64]
Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of one party: what is paid for once, however often it is said.

    Args:
        survey: the survey's id.
        session: the id of the attempt at it.
        party: who answered.
        drawn: what the answer's randomness follows from, hashed; two answers of one party in one
            session differ in it.
    """

    survey: Digest
    session: Digest
    party: PartyId
    drawn: Digest


class Opened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="purse"):
    """The first line: a hash of the secret that all marks are keyed with.

    A program that died before the secret was on disk has left such a line too, and another follows.
    """

    check: Digest


class People(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="people"):
    """People who pay together, by their marks."""

    marks: bytes

    def __repr__(self) -> str:
        return "<People>"  # A mark is the same wherever a person pays.


class Payment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="paid"):
    """What each of a group has paid for a release, or was about to when the party died.

    Args:
        release: what for.
        group: the number of the group among the file's, from 0; None for whoever pays from this
            purse.
        epsilon: the most that it may have cost each of them; None is infinite.
        heard: how many messages of the session the party had taken in by then.
        digest: of the digests of those messages.
    """

    release: Release
    group: Annotated[int, Meta(ge=0)] | None
    epsilon: Annotated[float, Meta(ge=0)] | None
    heard: Annotated[int, Meta(ge=0)]
    digest: Digest

    def follows(self, heard: bytes) -> bool:
        """Whether a party that has heard this had heard the same when it paid."""
        return self.digest == _digest_of(heard[: self.heard * DIGEST_BYTES])


Line = Opened | People | Payment
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Payers:
    """Payers of an answer, and the most that each may spend.

    Args:
        marks: of people, (k,) sorted and distinct; None for all who pay from a purse as one.
        budget: the most that each may have spent in all surveys, in nats; None if that was not
            said, infinite for any amount.
        most: what the survey can cost at most (``Variant.most``).
    """

    marks: Marks | None
    budget: float | None = None
    most: float = math.inf

    def __len__(self) -> int:
        return 1 if self.marks is None else len(self.marks)

    def __repr__(self) -> str:
        return f"<Payers: {len(self)}>"

    def up_to(self, budget: float | None, most: float) -> Payers:
        """The same people, with a budget for a survey."""
        return replace(self, budget=budget, most=most)

    def rest(self, spent: float) -> float:
        """What is left of the budget once so much was spent, not below 0."""
        return rest_of(math.inf if self.budget is None else self.budget, spent)

    def check_left(self, spent: NDArray[np.float64], *, needed: float) -> None:
        """Refuse if somebody has less left of the budget than is needed.

        Args:
            spent: what each has spent elsewhere, shape (k,).
            needed: per respondent.

        Raises:
            PrivacyError: says how many, not who.
        """
        short = [each for each in map(float, spent) if each and self.rest(each) < needed]
        if not short:
            return
        most = max(short)
        who = f"{len(short)} of {len(spent)} respondents" if len(spent) > 1 else "this purse"
        enough = "no budget is enough"
        if math.isfinite(most + needed):
            enough = f"a budget of {math.ceil((most + needed) * 1e4) / 1e4:.12g} is enough for all"
        have = "have" if len(short) > 1 else "has"
        raise PrivacyError(
            f"{who} {have} too little left: up to {most:.6g} of {self.budget:.6g} spent elsewhere, "
            f"{needed:.6g} needed; {enough}"
        )


class Purse:
    """Payments of people in all surveys, as a folder has them at one moment.

    Nobody is in it by name or id, only by a mark, a hash keyed with the purse's secret. A party's
    own folder has its answers, attempt by attempt (``attempts.Answers``).

    Args:
        folder: of the purse.
        secret: that marks are keyed with.
        lines: of its file.

    Raises:
        UsageError: the file is malformed.
    """

    def __init__(self, folder: Path, secret: bytes, lines: Sequence[Line]) -> None:
        self.folder = folder
        self.paid = [line for line in lines if isinstance(line, Payment)]
        self._secret = secret
        people = [line.marks for line in lines if isinstance(line, People)]
        try:
            self.groups: list[Marks] = [np.frombuffer(marks, _MARKS) for marks in people]
            if any(line.group is not None and line.group >= len(people) for line in self.paid):
                raise ValueError("a payment by people who are not in it")
        except ValueError as error:
            raise unknown(folder / PAID, error) from error

    def payers(self, ids: Sequence[str] | None) -> Payers:
        """Those who pay, by marks, which do not show ids; without ids, all of them as one."""
        if ids is None:
            return Payers(None)
        each = (hmac.digest(self._secret, _MARK + one.encode(), "sha256")[:8] for one in ids)
        # Two people of one mark, should there ever be two, pay together.
        return Payers(np.unique(np.frombuffer(b"".join(each), _MARKS)))

    def spent(
        self, payers: Payers, counted: Callable[[Release], bool] = lambda release: True
    ) -> NDArray[np.float64]:
        """What each of the payers has spent, in nats, shape (k,).

        What was paid without ids may have been paid for anybody, so it counts for everybody; and
        for all as one counts whatever anybody has paid.

        Args:
            payers: who.
            counted: which releases count.
        """
        total = np.zeros(len(payers))
        releases: dict[Release, dict[int | None, float]] = {}
        for line in self.paid:
            if counted(line.release):
                each = releases.setdefault(line.release, {})
                each[line.group] = max(each.get(line.group, 0.0), nats_of(line.epsilon))
        for each in releases.values():
            # Of one release everybody pays once, in how many groups of payers they may be.
            cost = np.zeros(len(payers))
            for group, epsilon in each.items():
                np.maximum(cost, np.where(self._are_in(payers, group), epsilon, 0.0), out=cost)
            total += cost
        return total

    def check(self, payers: Payers, survey: bytes | None) -> None:
        """Refuse a survey for which somebody has too little left, before anybody is connected to.

        Who has spent nothing elsewhere is not refused, whatever the budget: the party then declines
        as it would without a purse.

        Args:
            payers: who answers it.
            survey: its id; attempts at it do not count here.

        Raises:
            PrivacyError: says how many cannot pay, not who.
        """
        elsewhere = self.spent(payers, lambda release: release.survey != survey)
        payers.check_left(elsewhere, needed=min(payers.rest(0.0), payers.most))

    def check_paid(self, payers: Payers, release: Release, epsilon: float | None) -> None:
        """Refuse to say a release again about people who have not all paid for it.

        Args:
            payers: who they are.
            release: what is to be said again.
            epsilon: what it has cost; None is infinite.

        Raises:
            PrivacyError: says how many have not paid, not who.
        """
        unpaid = self.unpaid(payers, release, nats_of(epsilon))
        if unpaid:
            raise PrivacyError(
                f"{self.folder}: {unpaid} of {len(payers)} who pay from it have not paid for the "
                "report that is to be given again; give the same people, by the same --id and from "
                "the same --purse"
            )

    def left(
        self, payers: Payers, release: Release, *, before: Mapping[bytes, float], heard: bytes
    ) -> float:
        """The most that may be spent on a release, per respondent.

        What was spent in other surveys lets the party answer as if it had not been, or not at all:
        how much it was is not seen from outside.

        Args:
            payers: who pays.
            release: what for.
            before: what the party's folder says was spent per respondent in each session of
                earlier attempts. What this purse does not know of counts for everybody.
            heard: the digests of the messages of the session that the party's folder knows of, one
                after the other.

        Raises:
            PrivacyError: somebody has too little left; or the party has answered in this session
                otherwise, or to something else than its folder knows of.
        """
        self._check_same(release, heard)
        unknown = self._unknown(release.party, before)
        here = self.spent(payers, lambda paid: paid.survey == release.survey and paid != release)
        others = self.spent(payers, lambda paid: paid != release)
        free = payers.rest(float(here.max()) + unknown)
        payers.check_left(others + unknown, needed=min(free, payers.most))
        return payers.rest(float(others.max()) + unknown)

    def paid_for(self, release: Release, group: int | None) -> float | None:
        """What a group has paid for a release, which may be 0; None if it was never said."""
        found = [nats_of(each.epsilon) for each in self._of(release) if each.group == group]
        return max(found, default=None)

    def has_noted(self, release: Release, heard: bytes) -> bool:
        """Whether the last payment for a release has noted all that was heard."""
        noted = max((line.heard for line in self._of(release)), default=-1)
        return noted * DIGEST_BYTES >= len(heard)

    def unpaid(self, payers: Payers, release: Release, epsilon: float) -> int:
        """How many of the payers have not paid so much for a release.

        What was paid without ids was paid for anybody; what was paid by ids, for those ids alone,
        so it is not enough for a file without ids.
        """
        paid = np.zeros(len(payers), np.bool_)
        for line in self._of(release):
            if line.group is None or payers.marks is not None:
                paid |= (nats_of(line.epsilon) >= epsilon) & self._are_in(payers, line.group)
        return int((~paid).sum())

    def group_of(self, payers: Payers) -> int | None:
        """The number of the payers' group, which is the next one if they are not in the file."""
        marks = payers.marks
        if marks is None:
            return None
        same = (place for place, group in enumerate(self.groups) if np.array_equal(group, marks))
        return next(same, len(self.groups))

    def lines_of(
        self, payers: Payers, release: Release, *, epsilon: float, heard: bytes
    ) -> list[People | Payment]:
        """The lines to add for a payment, one for the payers if they are not in the file."""
        lines: list[People | Payment] = []
        group = self.group_of(payers)
        if payers.marks is not None and group == len(self.groups):
            lines.append(People(payers.marks.tobytes()))
        # In JSON, infinite is null.
        lines.append(
            Payment(
                release=release,
                group=group,
                epsilon=epsilon,
                heard=len(heard) // DIGEST_BYTES,
                digest=_digest_of(heard),
            )
        )
        return lines

    def _of(self, release: Release) -> list[Payment]:
        return [line for line in self.paid if line.release == release]

    def _check_same(self, release: Release, heard: bytes) -> None:
        """Refuse another answer of the party in a session, or one to what it has not heard."""
        before = self._paid_in(release.session, release.party)
        if any(line.release != release or not line.follows(heard) for line in before):
            raise PrivacyError(
                f"{self.folder}: this party has answered in this session with what its folder "
                "does not know of: it was restored or copied, or the records are others"
            )

    def _paid_in(self, session: bytes, party: PartyId) -> list[Payment]:
        """The lines that a party has paid for in a session."""
        what = (session, party)
        return [line for line in self.paid if (line.release.session, line.release.party) == what]

    def _unknown(self, party: PartyId, before: Mapping[bytes, float]) -> float:
        """What a party has spent in sessions in which nobody has paid as much from this purse."""
        total = 0.0
        for session, spent in before.items():
            paid = max(
                (nats_of(line.epsilon) for line in self._paid_in(session, party)), default=0.0
            )
            total += spent if spent > paid else 0.0
        return total

    def _are_in(self, payers: Payers, group: int | None) -> NDArray[np.bool_]:
        if payers.marks is None or group is None:
            return np.ones(len(payers), np.bool_)
        return np.isin(payers.marks, self.groups[group], assume_unique=True)


class OpenPurse(Purse):
    """A purse that is locked, to pay from."""

    def __init__(self, folder: Path, secret: bytes, lines: Lines[Line]) -> None:
        super().__init__(folder, secret, lines.values)
        self._lines = lines

    def pay(self, payers: Payers, release: Release, *, epsilon: float, heard: bytes) -> None:
        """Note what each of the payers pays, and what was heard, before anything is said.

        Args:
            payers: who pays.
            release: what for.
            epsilon: the most that will have been spent on the release.
            heard: as ``left`` has it.

        Raises:
            PrivacyError: somebody has paid for something else in the meantime; or a copy of the
                party's folder has answered in this session.
            OSError: the purse cannot be written; names the file.
        """
        self._check_same(release, heard)
        paid = self.paid_for(release, self.group_of(payers))
        if paid is None or epsilon > paid:
            others = self.spent(payers, lambda paid: paid != release)
            if epsilon > payers.rest(float(others.max())):
                raise PrivacyError("somebody has spent their budget on another survey meanwhile")
        elif self.has_noted(release, heard):
            return
        self._lines.add(*self.lines_of(payers, release, epsilon=epsilon, heard=heard))


@contextmanager
def open_purse(folder: Path) -> Generator[OpenPurse]:
    """The purse in a folder, made on first use and locked while the block runs, so keep it short.

    A party may answer several surveys at once from one purse: each looks anew before it pays.

    Raises:
        UsageError: its files do not belong together, or one is malformed.
        OSError: it cannot be written; names the file.
    """
    make_folder(folder)
    with open_lines(folder / PAID, _LINE, None) as lines:
        if _is_new(lines.values, folder):
            secret = os.urandom(SECRET_BYTES)
            # In this order: a secret without a line would be that of a file that was lost.
            lines.add(Opened(_check_of(secret)))
            write_once(folder / PURSE_SECRET, secret)
        yield OpenPurse(folder, _secret_of(folder, lines.values), lines)


def purse_in(folder: Path) -> Purse | None:
    """The purse in a folder, for reading; None if there is none.

    Raises:
        UsageError: its files do not belong together, or one is malformed.
        OSError: one cannot be read; names it.
    """
    lines = lines_in(folder / PAID, _LINE)
    return None if _is_new(lines, folder) else Purse(folder, _secret_of(folder, lines), lines)


def usual_purse() -> Path:
    """Where a user's purse is, by the XDG base directory specification.

    Raises:
        UsageError: the user has no home.
    """
    try:
        return user_folder("XDG_STATE_HOME", ".local/state") / "purse"
    except RuntimeError as error:
        raise UsageError("no home folder was found for the purse; expected --purse DIR") from error


def _is_new(lines: Sequence[Line], folder: Path) -> bool:
    """Whether nobody can have paid yet: the secret is missing, and every line was left by a program
    that died before it wrote one."""
    return not (folder / PURSE_SECRET).exists() and all(isinstance(line, Opened) for line in lines)


def _secret_of(folder: Path, lines: Sequence[Line]) -> bytes:
    """The secret of a purse with these lines."""
    path, secret = folder / PAID, secret_in(folder / PURSE_SECRET)
    if not lines:
        raise unknown(path, f"is missing or empty, but the {PURSE_SECRET} beside it is there")
    opens = [isinstance(line, Opened) for line in lines]
    if not opens[0] or opens != sorted(opens, reverse=True):
        raise unknown(path, "its first line, and no later one, opens a purse")
    if lines[sum(opens) - 1] != Opened(_check_of(secret)):
        raise UsageError(
            f"{path}: belongs to another {PURSE_SECRET} than the one beside it, so nobody is known "
            "in it"
        )
    return secret


def _check_of(secret: bytes) -> bytes:
    return hmac.digest(secret, _CHECK, "sha256")


def _digest_of(heard: bytes) -> bytes:
    return hashlib.sha256(heard).digest()
