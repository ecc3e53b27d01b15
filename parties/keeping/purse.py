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

from parties.keeping.attempts import Allowance, Honest, nats_of
from parties.keeping.lines import Lines, lines_in, open_lines, unknown
from parties.keeping.members import secret_in
from parties.keeping.remembered import DIGEST_BYTES
from parties.keeping.user_folders import user_folder
from parties.keeping.writing import make_folder, write_once
from protocol.accounting.spending import DELTA, Cost, is_within, largest, together
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import PrivacyError, UsageError
from protocol.messages import PartyId
from protocol.session.variant import Variant

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
        delta: the most delta that it may have cost each.
        honest: what that rests on, as of a ``Cost``.
        heard: how many messages of the session the party had taken in by then.
        digest: of the digests of those messages.
    """

    release: Release
    group: Annotated[int, Meta(ge=0)] | None
    epsilon: Annotated[float, Meta(ge=0)] | None
    delta: Annotated[float, Meta(ge=0)]
    honest: Honest
    heard: Annotated[int, Meta(ge=0)]
    digest: Digest

    @property
    def cost(self) -> Cost:
        """The cost that each has paid."""
        return Cost(nats_of(self.epsilon), self.delta, self.honest)

    def follows(self, heard: bytes) -> bool:
        """Whether a party that has heard this had heard the same when it paid."""
        return self.digest == _digest_of(heard[: self.heard * DIGEST_BYTES])


Line = Opened | People | Payment
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


UNBOUNDED = Cost(math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Spent:
    """Sums of what each of some payers has spent.

    Args:
        epsilon: in nats, shape (k,).
        delta: shape (k,).
        honest: what any of that rests on, as of a ``Cost``.
    """

    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]
    honest: tuple[int, ...] = ()

    @property
    def most(self) -> Cost:
        """The largest sums, which may be of two of them."""
        return Cost(float(self.epsilon.max()), float(self.delta.max()), self.honest)

    def plus(self, cost: Cost) -> Spent:
        """The same if each had spent this too."""
        honest = largest((self.most, cost)).honest
        return Spent(self.epsilon + cost.epsilon, self.delta + cost.delta, honest)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Payers:
    """Payers of an answer, and the most that each may spend.

    Args:
        marks: of people, (k,) sorted and distinct; None for all who pay from a purse as one.
        budget: the most epsilon that each may have spent in all surveys, in nats; None if that was
            not said, infinite for any amount.
        delta: the most delta; 0 for a purse of pure epsilon. None is 0 beside a budget, and any
            without one.
        most: what the survey can cost at most (``Variant.most_among``).
    """

    marks: Marks | None
    budget: float | None = None
    delta: float | None = None
    most: Cost = UNBOUNDED

    def __len__(self) -> int:
        return 1 if self.marks is None else len(self.marks)

    def __repr__(self) -> str:
        return f"<Payers: {len(self)}>"

    def up_to(self, budget: float | None, most: Cost, *, delta: float | None = None) -> Payers:
        """The same people, with an allowance for all surveys."""
        return replace(self, budget=budget, delta=delta, most=most)

    def asked(
        self,
        variant: Variant,
        *,
        budget: float | None = None,
        honest: int | None = None,
        delta: float | None = None,
    ) -> Payers:
        """The same people, asked by a variant.

        Args:
            budget: the most epsilon that each may have spent in all surveys; None if not said.
            honest: how many parties of a sum they take to be honest, where nothing else bounds what
                they tell; None for no such figure.
            delta: the most delta that each may have spent so; None for ``DELTA``.

        Raises:
            UsageError: there is a delta, and nobody is taken to be honest.
        """
        if honest is None:
            if delta is not None:
                raise UsageError(
                    f"--delta {delta:g}: expected --honest, since a figure at a delta takes others "
                    "to be honest"
                )
            return self.up_to(budget, variant.most_among(0, 0.0))
        allowed = DELTA if delta is None else delta
        most = variant.most_among(honest, min(DELTA, allowed))
        return self.up_to(budget, most, delta=allowed)

    @property
    def allowance(self) -> Allowance:
        """The most that each may have spent in all surveys."""
        delta = self.delta
        if delta is None:
            delta = math.inf if self.budget is None else 0.0
        return Allowance(math.inf if self.budget is None else self.budget, delta)

    def needed(self, free: Allowance) -> Cost:
        """The least that must be left of an allowance for the survey to go as with all of it.

        Args:
            free: the allowance, less what others know to be spent.
        """
        delta = min(free.delta, self.most.delta or DELTA)
        if math.isfinite(self.most.epsilon) and free.delta >= self.most.delta:
            return Cost(min(free.epsilon, self.most.epsilon), self.most.delta, self.most.honest)
        return Cost(free.epsilon, delta, self.most.honest)

    def check_left(self, spent: Spent, *, needed: Cost) -> None:
        """Refuse if somebody has less left than is needed.

        Args:
            spent: what each has spent elsewhere.
            needed: per respondent.

        Raises:
            PrivacyError: says how many, not who.
        """
        delta = self.allowance.delta
        sums = zip(spent.epsilon.tolist(), spent.delta.tolist(), strict=True)
        short = [
            each
            for each in (Cost(*some) for some in sums if any(some))
            if self.allowance.rest(each).epsilon < needed.epsilon
            or not is_within(each.delta + needed.delta, delta)
        ]
        if not short:
            return
        most = Cost(
            max(each.epsilon for each in short), max(each.delta for each in short), spent.honest
        )
        who = f"{len(short)} of {len(spent.epsilon)} respondents"
        if len(spent.epsilon) == 1:
            who = "this purse"
        have = "have" if len(short) > 1 else "has"
        raise PrivacyError(f"{who} {have} too little left: {self._why(most, needed)}")

    def _why(self, spent: Cost, needed: Cost) -> str:
        epsilon, delta = self.allowance
        enough = together((spent, needed))
        budget = (
            f"a budget of {math.ceil(enough.epsilon * 1e4) / 1e4:.12g}"
            if math.isfinite(enough.epsilon)
            else ""
        )
        if not enough.delta:
            return (
                f"up to {spent.epsilon:.6g} of {epsilon:.6g} spent elsewhere, "
                f"{needed.epsilon:.6g} needed; "
                f"{f'{budget} is enough for all' if budget else 'no budget is enough'}"
            )
        return (
            f"spent elsewhere, at most: {spent}; needed: {Cost(needed.epsilon, needed.delta)}; "
            f"allowed: epsilon {epsilon:.6g}, delta {delta:.6g}; "
            + (
                f"{budget} and, with --honest, a delta of {enough.delta:.6g} are enough for all"
                if budget
                else "no budget is enough"
            )
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
    ) -> Spent:
        """The costs that each of the payers has spent.

        What was paid without ids may have been paid for anybody, so it counts for everybody; and
        for all as one counts whatever anybody has paid. Of figures with different assumptions the
        sum rests on all of them, and it says so.

        Args:
            payers: who.
            counted: which releases count.
        """
        total = np.zeros((2, len(payers)))
        honest: set[int] = set()
        releases: dict[Release, dict[int | None, list[Cost]]] = {}
        for line in self.paid:
            if counted(line.release):
                each = releases.setdefault(line.release, {})
                each.setdefault(line.group, []).append(line.cost)
        for each in releases.values():
            # Of one release everybody pays once, in how many groups of payers they may be.
            paid = np.zeros_like(total)
            for group, costs in each.items():
                are, cost = self._are_in(payers, group), largest(costs)
                for sums, nats in zip(paid, (cost.epsilon, cost.delta), strict=True):
                    np.maximum(sums, np.where(are, nats, 0.0), out=sums)
                if are.any():
                    honest.update(cost.honest)
            total += paid
        return Spent(total[0], total[1], tuple(sorted(honest)))

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
        payers.check_left(elsewhere, needed=payers.needed(payers.allowance))

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
        self, payers: Payers, release: Release, *, before: Mapping[bytes, Cost], heard: bytes
    ) -> Allowance:
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
        others = self.spent(payers, lambda paid: paid != release).plus(unknown)
        free = payers.allowance.rest(here.plus(unknown).most)
        payers.check_left(others, needed=payers.needed(free))
        return payers.allowance.rest(others.most)

    def paid_for(self, release: Release, group: int | None) -> Cost | None:
        """The cost that a group has paid for a release, maybe 0; None if it was never said."""
        found = [each.cost for each in self._of(release) if each.group == group]
        return largest(found) if found else None

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
                paid |= (line.cost.epsilon >= epsilon) & self._are_in(payers, line.group)
        return int((~paid).sum())

    def group_of(self, payers: Payers) -> int | None:
        """The number of the payers' group, which is the next one if they are not in the file."""
        marks = payers.marks
        if marks is None:
            return None
        same = (place for place, group in enumerate(self.groups) if np.array_equal(group, marks))
        return next(same, len(self.groups))

    def lines_of(
        self, payers: Payers, release: Release, *, cost: Cost, heard: bytes
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
                epsilon=cost.epsilon,
                delta=cost.delta,
                honest=cost.honest,
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

    def _unknown(self, party: PartyId, before: Mapping[bytes, Cost]) -> Cost:
        """What a party has spent in sessions in which nobody has paid as much from this purse."""
        unknown = []
        for session, spent in before.items():
            paid = largest(line.cost for line in self._paid_in(session, party))
            if spent.epsilon > paid.epsilon or spent.delta > paid.delta:
                unknown.append(spent)
        return together(unknown)

    def _are_in(self, payers: Payers, group: int | None) -> NDArray[np.bool_]:
        if payers.marks is None or group is None:
            return np.ones(len(payers), np.bool_)
        return np.isin(payers.marks, self.groups[group], assume_unique=True)


class OpenPurse(Purse):
    """A purse that is locked, to pay from."""

    def __init__(self, folder: Path, secret: bytes, lines: Lines[Line]) -> None:
        super().__init__(folder, secret, lines.values)
        self._lines = lines

    def pay(self, payers: Payers, release: Release, *, cost: Cost, heard: bytes) -> None:
        """Note what each of the payers pays, and what was heard, before anything is said.

        Args:
            payers: who pays.
            release: what for.
            cost: the most that will have been spent on the release.
            heard: as ``left`` has it.

        Raises:
            PrivacyError: somebody has paid for something else in the meantime; or a copy of the
                party's folder has answered in this session.
            OSError: the purse cannot be written; names the file.
        """
        self._check_same(release, heard)
        paid = self.paid_for(release, self.group_of(payers))
        if paid is None or largest((paid, cost)) != paid:
            others = self.spent(payers, lambda paid: paid != release).most
            allowed = payers.allowance
            if cost.epsilon > allowed.rest(others).epsilon or not is_within(
                others.delta + cost.delta, allowed.delta
            ):
                raise PrivacyError("somebody has spent their budget on another survey meanwhile")
        elif self.has_noted(release, heard):
            return
        self._lines.add(*self.lines_of(payers, release, cost=cost, heard=heard))


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
