"""Spending of people over all surveys: a purse that outlives the folders of single surveys."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from parties.keeping.attempts import Allowance, json_nats
from parties.keeping.lines import Lines, lines_in, open_lines, unknown
from parties.keeping.members import secret_in
from parties.keeping.paying.payers import Payers, Spent
from parties.keeping.paying.payments import (
    LINE,
    Joined,
    Line,
    Opened,
    Payment,
    People,
    Recalled,
    Release,
    Told,
    answer_of,
    come_to,
    digest_of,
    secret_check,
)
from parties.keeping.paying.people import Bools, Register, Spellings, are_among
from parties.keeping.paying.questions import Question
from parties.keeping.remembered import DIGEST_BYTES
from parties.keeping.user_folders import user_folder
from parties.keeping.writing import make_folder, write_once
from protocol.accounting.spending import Cost, is_within, largest
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import PrivacyError, UsageError
from protocol.messages import PartyId

PAID = "paid"
"""The file in a purse's folder that says who has paid what. It only ever grows."""

PURSE_SECRET = "secret"
"""The file in a purse's folder that people's marks are keyed with. That of another purse, which was
merged into this one, has a name that begins so."""


class Purse:
    """Payments of people in all surveys, as a folder has them at one moment.

    Nobody is in it by name or id, only by marks, hashes keyed with the purse's secret: one of the
    id as it is spelled, and one of its canonical form. Those who read alike count as one person
    until they are told apart. A party's own folder has its answers, attempt by attempt
    (``attempts.Answers``).

    Args:
        folder: of the purse.
        secrets: that marks are keyed with, the purse's own first.
        lines: of its file.

    Raises:
        UsageError: the file is malformed.
    """

    def __init__(self, folder: Path, secrets: Sequence[bytes], lines: Sequence[Line]) -> None:
        self.folder = folder
        self.secrets = tuple(secrets)
        self._read(lines)

    def _read(self, lines: Sequence[Line]) -> None:
        self.lines = tuple(lines)
        self.paid = [line for line in lines if isinstance(line, Payment)]
        self.people = [line for line in lines if isinstance(line, People)]
        told = [line for line in lines if isinstance(line, Told)]
        try:
            self.groups = [line.spellings for line in self.people]
            under = [line.under for line in lines if isinstance(line, People | Told)]
            if any(number >= len(self.secrets) for number in under):
                raise ValueError("people under a secret that it does not name")
            if any(line.group is not None and line.group >= len(self.groups) for line in self.paid):
                raise ValueError("a payment by people who are not in it")
            self.registers = [
                Register(
                    secret,
                    [
                        group
                        for line, group in zip(self.people, self.groups, strict=True)
                        if line.under == under
                    ],
                    same=[each.array for each in told if each.one and each.under == under],
                    apart=[each.array for each in told if not each.one and each.under == under],
                )
                for under, secret in enumerate(self.secrets)
            ]
        except ValueError as error:
            raise unknown(self.folder / PAID, error) from error

    def payers(self, ids: Sequence[str] | None) -> Payers:
        """Those who pay, by marks, which do not show ids; without ids, all of them as one."""
        if ids is None:
            return Payers(None)
        return Question(ids, self.registers, self.folder).payers

    def everybody(self) -> list[Payers]:
        """All who have paid by ids; those under different secrets may be the same people."""
        return [
            Payers(tuple(register.seen if register is one else None for one in self.registers))
            for register in self.registers
            if len(register.seen)
        ]

    @property
    def charged(self) -> list[Payment]:
        """The payments that count, without what folders recall that people have paid."""
        known = _by_answer(line for line in self.paid if not isinstance(line, Recalled))

        def is_superseded(line: Payment) -> bool:
            return isinstance(line, Recalled) and come_to(known.get(answer_of(line), ()), line.cost)

        return [line for line in self.paid if not is_superseded(line)]

    def spent(
        self,
        payers: Payers,
        counted: Callable[[Release], bool] = lambda release: True,
        *,
        as_one: bool = False,
    ) -> Spent:
        """The costs that each of the payers has spent.

        What was paid without ids may have been paid for anybody, so it counts for everybody; and
        for all as one counts whatever anybody has paid. What was paid by who reads alike counts
        too, unless both were told apart. Of figures with different assumptions the sum rests on all
        of them, and it says so.

        Args:
            payers: who.
            counted: which releases count.
            as_one: count as if nobody had been told apart.
        """
        total = np.zeros((2, len(payers)))
        honest: set[int] = set()
        releases: dict[Release, dict[int | None, list[Cost]]] = {}
        for line in self.charged:
            if counted(line.release):
                each = releases.setdefault(line.release, {})
                each.setdefault(line.group, []).append(line.cost)
        groups = {group for each in releases.values() for group in each}
        inside = {group: self._are_in(payers, group, as_one=as_one) for group in groups}
        for each in releases.values():
            # Of one release everybody pays once, in how many groups of payers they may be.
            paid = np.zeros_like(total)
            for group, costs in each.items():
                are, cost = inside[group], largest(costs)
                for sums, nats in zip(paid, (cost.epsilon, cost.delta), strict=True):
                    np.maximum(sums, np.where(are, nats, 0.0), out=sums)
                if are.any():
                    honest.update(cost.honest)
            total += paid
        return Spent(total[0], total[1], tuple(sorted(honest)))

    def told_apart(self, payers: Payers) -> int:
        """Number of payers who read like somebody else who has paid, and were told apart."""
        found = np.zeros(len(payers), np.bool_)
        for register, known in zip(self.registers, payers.marks or (), strict=False):
            if known is not None:
                near = register.reading_like(known)
                alike, spellings = np.unique(near.alike, return_counts=True)
                found |= register.is_apart(known) & are_among(known.alike, alike[spellings > 1])
        return int(found.sum())

    def check_spellings(self, ids: Sequence[str]) -> None:
        """Refuse people who read like others, if nobody said whether they are one.

        Args:
            ids: as they are spelled, of all rows of a file.

        Raises:
            UsageError: as ``Question.answered``.
        """
        Question(ids, self.registers, self.folder).answered()

    def lacking(self, recalled: Iterable[Recalled]) -> list[Recalled]:
        """Those of which this purse does not have as much."""
        known = _by_answer(self.paid)
        return [each for each in recalled if not come_to(known.get(answer_of(each), ()), each.cost)]

    def check_knows(self, recalled: Sequence[Recalled], folder: Path) -> None:
        """Refuse to pay for a party whose folder knows of spending that this purse lacks.

        Args:
            recalled: what the folder knows of.
            folder: the party's.

        Raises:
            PrivacyError: names both, and says what to do.
        """
        lacking = self.lacking(recalled)
        if lacking:
            most = largest(each.cost for each in lacking)
            command = shlex.join(
                ["sottovoce", "purse", "--purse", str(self.folder), "--merge", str(folder)]
            )
            raise PrivacyError(
                f"{self.folder}: lacks what was spent from {folder}, up to "
                f"{Cost(most.epsilon, most.delta)} in one attempt: it is another purse, or an "
                f"older copy; merge what is missing into it: {command}"
            )

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
        unpaid = self.unpaid(payers, release, json_nats(epsilon))
        if unpaid:
            raise PrivacyError(
                f"{self.folder}: {unpaid} of {len(payers)} who pay from it have not paid for the "
                "report that is to be given again; give the same people, by the same --id and from "
                "the same --purse"
            )

    def left(self, payers: Payers, release: Release, *, heard: bytes) -> Allowance:
        """The most that may be spent on a release, per respondent.

        What was spent in other surveys lets the party answer as if it had not been, or not at all:
        how much it was is not seen from outside.

        Args:
            payers: who pays.
            release: what for.
            heard: the digests of the messages of the session that the party's folder knows of, one
                after the other.

        Raises:
            PrivacyError: somebody has too little left; or the party has answered in this session
                otherwise, or to something else than its folder knows of.
        """
        self._check_same(release, heard)
        here = self.spent(payers, lambda paid: paid.survey == release.survey and paid != release)
        others = self.spent(payers, lambda paid: paid != release)
        free = payers.allowance.rest(here.most)
        payers.check_left(others, needed=payers.needed(free))
        return payers.allowance.rest(others.most)

    def paid_for(self, release: Release, group: int | None) -> Cost | None:
        """The cost that a group has paid for a release, maybe 0; None if it was never said."""
        found = [each.cost for each in self._of(release) if each.group == group]
        return largest(found) if found else None

    def has_noted(self, release: Release, heard: bytes) -> bool:
        """Check whether the last payment for a release has noted all that was heard."""
        noted = max((line.heard for line in self._of(release)), default=-1)
        return noted * DIGEST_BYTES >= len(heard)

    def unpaid(self, payers: Payers, release: Release, epsilon: float) -> int:
        """Number of the payers that have not paid so much for a release.

        What was paid without ids was paid for anybody; what was paid by ids, for those ids alone,
        so it is not enough for a file without ids.
        """
        paid = np.zeros(len(payers), np.bool_)
        for line in self.charged:
            if line.release != release or line.cost.epsilon < epsilon:
                continue
            if line.group is None or payers.marks is not None:
                paid |= self._are_in(payers, line.group, surely=True)
        return int((~paid).sum())

    def group_of(self, payers: Payers) -> int | None:
        """The number of the payers' group, which is the next one if they are not in the file."""
        if payers.marks is None:
            return None
        own = _own(payers.marks)
        same = (
            place
            for place, (line, group) in enumerate(zip(self.people, self.groups, strict=True))
            if line.under == 0 and group.is_same(own)
        )
        return next(same, len(self.groups))

    def lines_of(
        self, payers: Payers, release: Release, *, cost: Cost, heard: bytes
    ) -> list[People | Payment]:
        """The lines to add for a payment, one for the payers if they are not in the file."""
        lines: list[People | Payment] = []
        group = self.group_of(payers)
        if payers.marks is not None and group == len(self.groups):
            own = _own(payers.marks)
            lines.append(People(marks=own.exact.tobytes(), alike=own.alike.tobytes()))
        # In JSON, infinite is null.
        lines.append(
            Payment(
                release=release,
                group=group,
                epsilon=cost.epsilon,
                delta=cost.delta,
                honest=cost.honest,
                heard=len(heard) // DIGEST_BYTES,
                digest=digest_of(heard),
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

    def _are_in(
        self, payers: Payers, group: int | None, *, surely: bool = False, as_one: bool = False
    ) -> Bools:
        """Return whether each of the payers is in a group, or may be."""
        if payers.marks is None or group is None:
            return np.ones(len(payers), np.bool_)
        under, among = self.people[group].under, self.groups[group]
        # Of secrets that were joined meanwhile, these payers have no marks.
        who = payers.marks[under] if under < len(payers.marks) else None
        if who is None:
            return np.full(len(payers), not surely)
        if as_one:
            return are_among(who.alike, among.alike)
        register = self.registers[under]
        return register.is_surely(who, among) if surely else register.may_be(who, among)


class OpenPurse(Purse):
    """A purse that is locked, to pay from."""

    def __init__(self, folder: Path, secrets: Sequence[bytes], lines: Lines[Line]) -> None:
        super().__init__(folder, secrets, lines.values)
        self._lines = lines

    def settle(
        self, ids: Sequence[str] | None, *, same: bool = False, different: str | None = None
    ) -> Payers:
        """Those who pay, once it is known who is who; what is said of that is noted.

        What was noted is not asked again. That people are one holds for however they are spelled
        later; that they are not, for these spellings alone.

        Args:
            ids: as they are spelled, of all rows of a file; None for all as one.
            same, different: what is said, as ``Question.answered`` has it.

        Raises:
            UsageError: as there.
            OSError: the purse cannot be written; names the file.
        """
        if ids is None:
            return self.payers(None)
        asked = Question(ids, self.registers, self.folder)
        self.add(asked.answered(same=same, different=different))
        return asked.payers

    def add(self, lines: Sequence[Line], secrets: Sequence[bytes] = ()) -> None:
        """Add lines in one write, after the secrets that they name.

        Args:
            lines: to add.
            secrets: of other purses, in the order in which the lines join them.

        Raises:
            OSError: the purse cannot be written; names the file.
        """
        for secret in secrets:
            # A program that died may have left it.
            with suppress(FileExistsError):
                write_once(self.folder / _joined_name(secret_check(secret)), secret)
        self.secrets += tuple(secrets)
        if lines:
            self._lines.add(*lines)
            self._read(self._lines.values)

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
        self.add(self.lines_of(payers, release, cost=cost, heard=heard))


@contextmanager
def open_purse(folder: Path) -> Generator[OpenPurse]:
    """The purse in a folder, made on first use and locked while the block runs, so keep it short.

    A party may answer several surveys at once from one purse: each looks anew before it pays.

    Raises:
        UsageError: its files do not belong together, or one is malformed.
        OSError: it cannot be written; names the file.
    """
    make_folder(folder)
    with open_lines(folder / PAID, LINE, None) as lines:
        if _is_new(lines.values, folder):
            secret = os.urandom(SECRET_BYTES)
            # In this order: a secret without a line would be that of a file that was lost.
            lines.add(Opened(secret_check(secret)))
            write_once(folder / PURSE_SECRET, secret)
        yield OpenPurse(folder, _read_secrets(folder, lines.values), lines)


def purse_in(folder: Path) -> Purse | None:
    """The purse in a folder, for reading; None if there is none.

    Raises:
        UsageError: its files do not belong together, or one is malformed.
        OSError: one cannot be read; names it.
    """
    lines = lines_in(folder / PAID, LINE)
    return None if _is_new(lines, folder) else Purse(folder, _read_secrets(folder, lines), lines)


def usual_purse() -> Path:
    """Path of a user's purse, by the XDG base directory specification.

    Raises:
        UsageError: the user has no home.
    """
    try:
        return user_folder("XDG_STATE_HOME", ".local/state") / "purse"
    except RuntimeError as error:
        raise UsageError("no home folder was found for the purse; expected --purse DIR") from error


def _is_new(lines: Sequence[Line], folder: Path) -> bool:
    """True if nobody can have paid yet: the secret is missing.

    Every line was left by a program that died before it wrote a secret.
    """
    return not (folder / PURSE_SECRET).exists() and all(isinstance(line, Opened) for line in lines)


def _read_secrets(folder: Path, lines: Sequence[Line]) -> list[bytes]:
    """The secrets of a purse with these lines."""
    path, secret = folder / PAID, secret_in(folder / PURSE_SECRET)
    if not lines:
        raise unknown(path, f"is missing or empty, but the {PURSE_SECRET} beside it is there")
    opens = [isinstance(line, Opened) for line in lines]
    if not opens[0] or opens != sorted(opens, reverse=True):
        raise unknown(path, "its first line, and no later one, opens a purse")
    found = [(PURSE_SECRET, secret, lines[sum(opens) - 1])]
    for line in lines:
        if isinstance(line, Joined):
            name = _joined_name(line.check)
            found.append((name, secret_in(folder / name), line))
    for name, secret, line in found:
        if not isinstance(line, Opened | Joined) or line.check != secret_check(secret):
            raise UsageError(
                f"{path}: belongs to another {name} than the one beside it, so nobody is known in "
                "it"
            )
    return [secret for _, secret, _ in found]


def _joined_name(check: bytes) -> str:
    """The file with the secret of a purse that was merged into another."""
    return f"{PURSE_SECRET}-{check.hex()[:16]}"


def _by_answer(lines: Iterable[Payment]) -> dict[tuple[bytes, PartyId], list[Payment]]:
    found: dict[tuple[bytes, PartyId], list[Payment]] = {}
    for line in lines:
        found.setdefault(answer_of(line), []).append(line)
    return found


def _own(marks: Sequence[Spellings | None]) -> Spellings:
    """The marks of payers under the purse's own secret."""
    own = marks[0]
    assert own is not None, "who pays is known by ids"
    return own
