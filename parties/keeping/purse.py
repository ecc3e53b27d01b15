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
    answer_key,
    come_to,
    heard_digest,
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
"""The file of payments in a purse's folder. It only grows."""

PURSE_SECRET = "secret"
"""The file with the secret that people's marks are keyed with. The file of a purse merged into this
one has a name that begins so."""


class Purse:
    """Payments of people in all surveys, as a folder has them at one moment.

    People are stored by marks, not by names or ids. A mark is a hash keyed with the purse's secret:
    one of the id as spelled, and one of its canonical form. People with one canonical form count as
    one person until they are told apart. Answers are not here, but in each party's own folder
    (``attempts.Answers``).

    Args:
        folder: the purse's folder.
        secrets: the secrets that marks are keyed with, the purse's own first.
        lines: the lines of its file.

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
        self._told = [line for line in lines if isinstance(line, Told)]
        try:
            self.groups = [line.spellings for line in self.people]
            marked: list[People | Told] = [*self.people, *self._told]
            if any(line.under >= len(self.secrets) for line in marked):
                raise ValueError("people under a secret that it does not name")
            if any(line.group is not None and line.group >= len(self.groups) for line in self.paid):
                raise ValueError("a payment by people who are not in it")
            self.registers = list(map(self._register, range(len(self.secrets))))
        except ValueError as error:
            raise unknown(self.folder / PAID, error) from error

    def _register(self, under: int) -> Register:
        """The register of the people under a secret, by its number."""
        people = zip(self.people, self.groups, strict=True)
        told = [line for line in self._told if line.under == under]
        return Register(
            self.secrets[under],
            [group for line, group in people if line.under == under],
            same=[line.array for line in told if line.one],
            apart=[line.array for line in told if not line.one],
        )

    def payers(self, ids: Sequence[str] | None) -> Payers:
        """Payers with these ids; without ids, one payer that stands for all."""
        if ids is None:
            return Payers(None)
        return Question(ids, self.registers, self.folder).payers

    def everybody(self) -> list[Payers]:
        """All payers with ids, for each secret; those of two secrets may be the same people."""
        return [
            Payers(tuple(register.seen if register is one else None for one in self.registers))
            for register in self.registers
            if len(register.seen)
        ]

    @property
    def charged(self) -> list[Payment]:
        """The payments that count: folders' recollections are left out if a payment covers them."""
        known = _by_answer(line for line in self.paid if not isinstance(line, Recalled))

        def is_superseded(line: Payment) -> bool:
            return isinstance(line, Recalled) and come_to(
                known.get(answer_key(line), ()), line.cost
            )

        return [line for line in self.paid if not is_superseded(line)]

    def spent(
        self,
        payers: Payers,
        counted: Callable[[Release], bool] = lambda release: True,
        *,
        as_one: bool = False,
    ) -> Spent:
        """The sums that each of the payers has spent.

        A payment without ids counts for everybody, since it may have been for anybody. A payer that
        stands for all has spent everything. Payments of ids that read alike count, unless they were
        told apart. The sum rests on the assumptions of all its figures.

        Args:
            payers: the payers.
            counted: true for the releases that count.
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
        inside = {group: self._membership(payers, group, as_one=as_one) for group in groups}
        for each in releases.values():
            # Everybody pays once for a release, even if they may be in several groups of payers.
            paid = np.zeros_like(total)
            for group, costs in each.items():
                in_group, cost = inside[group], largest(costs)
                for sums, nats in zip(paid, (cost.epsilon, cost.delta), strict=True):
                    np.maximum(sums, np.where(in_group, nats, 0.0), out=sums)
                if in_group.any():
                    honest.update(cost.honest)
            total += paid
        return Spent(total[0], total[1], tuple(sorted(honest)))

    def told_apart(self, payers: Payers) -> int:
        """Number of payers told apart from somebody with an id that reads alike."""
        found = np.zeros(len(payers), np.bool_)
        for register, known in zip(self.registers, payers.marks or (), strict=False):
            if known is not None:
                near = register.reading_like(known)
                alike, spellings = np.unique(near.alike, return_counts=True)
                found |= register.is_apart(known) & are_among(known.alike, alike[spellings > 1])
        return int(found.sum())

    def check_spellings(self, ids: Sequence[str]) -> None:
        """Refuse ids that read like others, if it is not noted whether they are one person.

        Args:
            ids: the ids of all rows of a file, as spelled.

        Raises:
            UsageError: as ``Question.answered``.
        """
        Question(ids, self.registers, self.folder).answered()

    def lacking(self, recalled: Iterable[Recalled]) -> list[Recalled]:
        """Recollections of which this purse does not have as much."""
        known = _by_answer(self.paid)
        return [
            each for each in recalled if not come_to(known.get(answer_key(each), ()), each.cost)
        ]

    def check_knows(self, recalled: Sequence[Recalled], folder: Path) -> None:
        """Refuse to pay for a party if its folder knows of spending that this purse lacks.

        Args:
            recalled: the spending that the folder knows of.
            folder: the party's folder.

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
        """Refuse a survey for which somebody has too little left, before any connection.

        People that have spent nothing elsewhere are not refused, whatever the budget: the party
        then declines as it would without a purse.

        Args:
            payers: the people that answer it.
            survey: its id; spending in it does not count here.

        Raises:
            PrivacyError: gives the number of those that cannot pay, without names.
        """
        elsewhere = self.spent(payers, lambda release: release.survey != survey)
        payers.check_left(elsewhere, needed=payers.needed(payers.allowance))

    def check_paid(self, payers: Payers, release: Release, epsilon: float | None) -> None:
        """Refuse to send a release again unless all its people have paid for it.

        Args:
            payers: the people.
            release: the release.
            epsilon: its cost; None is infinite.

        Raises:
            PrivacyError: gives the number of those that have not paid, without names.
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

        Spending in other surveys either has no effect or makes the party decline, so others do not
        learn how much it was.

        Args:
            payers: the people that pay.
            release: the release.
            heard: the concatenated digests of the session's messages that the party's folder knows.

        Raises:
            PrivacyError: somebody has too little left, or the party has given another answer in
                this session, or one to messages that its folder does not know.
        """
        self._check_same(release, heard)
        here = self.spent(payers, lambda paid: paid.survey == release.survey and paid != release)
        others = self.spent(payers, lambda paid: paid != release)
        free = payers.allowance.rest(here.most)
        payers.check_left(others, needed=payers.needed(free))
        return payers.allowance.rest(others.most)

    def paid_for(self, release: Release, group: int | None) -> Cost | None:
        """The cost that a group has paid for a release, maybe 0; None without a payment."""
        found = [each.cost for each in self._paid_lines(release) if each.group == group]
        return largest(found) if found else None

    def has_noted(self, release: Release, heard: bytes) -> bool:
        """Check whether the last payment for a release covers all received messages."""
        noted = max((line.heard for line in self._paid_lines(release)), default=-1)
        return noted * DIGEST_BYTES >= len(heard)

    def unpaid(self, payers: Payers, release: Release, epsilon: float) -> int:
        """Number of payers that have not paid this much for a release.

        A payment without ids was for everybody. One with ids was for those ids alone, so it is not
        enough for a file without ids.
        """
        paid = np.zeros(len(payers), np.bool_)
        for line in self.charged:
            if line.release != release or line.cost.epsilon < epsilon:
                continue
            if line.group is None or payers.marks is not None:
                paid |= self._membership(payers, line.group, surely=True)
        return int((~paid).sum())

    def group_number(self, payers: Payers) -> int | None:
        """The number of the payers' group; the next free one if they are not in the file."""
        if payers.marks is None:
            return None
        own = _own_marks(payers.marks)
        same = (
            place
            for place, (line, group) in enumerate(zip(self.people, self.groups, strict=True))
            if line.under == 0 and group.is_same(own)
        )
        return next(same, len(self.groups))

    def payment_lines(
        self, payers: Payers, release: Release, *, cost: Cost, heard: bytes
    ) -> list[People | Payment]:
        """The lines to add for a payment, with one for the payers if they are new."""
        lines: list[People | Payment] = []
        group = self.group_number(payers)
        if payers.marks is not None and group == len(self.groups):
            own = _own_marks(payers.marks)
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
                digest=heard_digest(heard),
            )
        )
        return lines

    def _paid_lines(self, release: Release) -> list[Payment]:
        return [line for line in self.paid if line.release == release]

    def _check_same(self, release: Release, heard: bytes) -> None:
        """Refuse a second answer of the party in a session, or one to unknown messages."""
        answer = (release.session, release.party)
        before = [line for line in self.paid if answer_key(line) == answer]
        if any(line.release != release or not line.follows(heard) for line in before):
            raise PrivacyError(
                f"{self.folder}: this party has answered in this session with what its folder "
                "does not know of: it was restored or copied, or the records are others"
            )

    def _membership(
        self, payers: Payers, group: int | None, *, surely: bool = False, as_one: bool = False
    ) -> Bools:
        """Mask of the payers that may be in a group, or surely are."""
        if payers.marks is None or group is None:
            return np.ones(len(payers), np.bool_)
        under, among = self.people[group].under, self.groups[group]
        # These payers have no marks under a secret that was joined meanwhile.
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
        """The payers, once it is settled and noted which ids are one person.

        A noted answer is not asked for again. That ids are one person holds for all later
        spellings, and that they are not for these spellings alone.

        Args:
            ids: the ids of all rows of a file, as spelled; None for one payer that stands for all.
            same, different: the answers, as for ``Question.answered``.

        Raises:
            UsageError: as ``Question.answered``.
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
            secrets: secrets of other purses, in the order of the ``Joined`` lines.

        Raises:
            OSError: the purse cannot be written; names the file.
        """
        for secret in secrets:
            # A program that died may have left the file.
            with suppress(FileExistsError):
                write_once(self.folder / _joined_name(secret_check(secret)), secret)
        self.secrets += tuple(secrets)
        if lines:
            self._lines.add(*lines)
            self._read(self._lines.values)

    def pay(self, payers: Payers, release: Release, *, cost: Cost, heard: bytes) -> None:
        """Note the payment of each payer and the received messages, before anything is sent.

        Args:
            payers: the people that pay.
            release: the release.
            cost: the most that will have been spent on the release.
            heard: as for ``left``.

        Raises:
            PrivacyError: somebody has spent elsewhere in the meantime, or a copy of the party's
                folder has answered in this session.
            OSError: the purse cannot be written; names the file.
        """
        self._check_same(release, heard)
        paid = self.paid_for(release, self.group_number(payers))
        if paid is None or largest((paid, cost)) != paid:
            others = self.spent(payers, lambda paid: paid != release).most
            allowed = payers.allowance
            if cost.epsilon > allowed.rest(others).epsilon or not is_within(
                others.delta + cost.delta, allowed.delta
            ):
                raise PrivacyError("somebody has spent their budget on another survey meanwhile")
        elif self.has_noted(release, heard):
            return
        self.add(self.payment_lines(payers, release, cost=cost, heard=heard))


@contextmanager
def open_purse(folder: Path) -> Generator[OpenPurse]:
    """The purse in a folder, made on first use and locked while the block runs, so keep it short.

    Several answers may be paid from one purse at once: each reads it again before it pays.

    Raises:
        UsageError: its files do not belong together, or one is malformed.
        OSError: it cannot be written; names the file.
    """
    make_folder(folder)
    with open_lines(folder / PAID, LINE, None) as lines:
        if _is_new(lines.values, folder):
            secret = os.urandom(SECRET_BYTES)
            # In this order, since a secret without a line means that the file was lost.
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
    """True if nobody can have paid yet: there is no secret.

    Programs that died before they wrote one may have left ``Opened`` lines.
    """
    return not (folder / PURSE_SECRET).exists() and all(isinstance(line, Opened) for line in lines)


def _read_secrets(folder: Path, lines: Sequence[Line]) -> list[bytes]:
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
    """Name of the file with the secret of a merged purse."""
    return f"{PURSE_SECRET}-{check.hex()[:16]}"


def _by_answer(lines: Iterable[Payment]) -> dict[tuple[bytes, PartyId], list[Payment]]:
    found: dict[tuple[bytes, PartyId], list[Payment]] = {}
    for line in lines:
        found.setdefault(answer_key(line), []).append(line)
    return found


def _own_marks(marks: Sequence[Spellings | None]) -> Spellings:
    """The marks of payers under the purse's own secret."""
    own = marks[0]
    assert own is not None, "who pays is known by ids"
    return own
