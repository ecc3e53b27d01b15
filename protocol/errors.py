"""The errors of the protocol layer: each names the side at fault and its subject."""

from __future__ import annotations

from collections.abc import Sequence


class ProtocolError(Exception):
    """The base of all errors of this package."""


class LocalProtocolError(ProtocolError):
    """This side broke the rules: a bug in a role or in the code that drives it.

    Args:
        message: what is wrong.
        party: the member whose role it is.
        role: ``party`` or ``aggregator``.
        round: the number of waits that had returned.
        line: file and line of the variant's code, ``FILE:LINE``.
    """

    def __init__(
        self,
        message: str,
        *,
        party: str | None = None,
        role: str | None = None,
        round: int | None = None,
        line: str | None = None,
    ) -> None:
        where = []
        if party is not None:
            where.append(f"party {party!r}")
        if role is not None:
            where.append(f"role {role!r}")
        if round is not None:
            where.append(f"round {round}")
        if line is not None:
            where.append(line)
        super().__init__(f"{', '.join(where)}: {message}" if where else message)
        self.party = party
        self.role = role
        self.round = round
        self.line = line


class WithheldError(LocalProtocolError):
    """A replayed role wants randomness or a key that the record does not hold."""


class RemoteProtocolError(ProtocolError):
    """Somebody else broke the rules: a message to refuse; ``field`` names the wrong field."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class QuorumError(ProtocolError):
    """Fewer messages came than the role needs; ``missing`` names the other senders."""

    def __init__(self, *, kind: str, answered: int, at_least: int, missing: Sequence[str]) -> None:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        super().__init__(
            f"{answered} of {answered + len(missing)} sent {kind!r}, at least {at_least} needed; "
            f"missing: {shown}"
        )
        self.kind = kind
        self.answered = answered
        self.at_least = at_least
        self.missing = tuple(missing)


class PrivacyError(ProtocolError):
    """A party refuses to send a message that costs more than it agreed to."""


class UnsupportedEventError(PrivacyError):
    """An accountant met an event that it does not know how to judge."""


class CannotTabulateError(ProtocolError):
    """A variant's respondents cannot be counted in cohorts; the message says why."""


class NoLikelihoodError(ProtocolError, ValueError):
    """A published result has no likelihood that can be maximized; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"no EM: {why}")


class SurveyError(ProtocolError, ValueError):
    """A survey's definition or data is wrong; ``row`` and ``column`` say where.

    Rows count from 1, and a header is not counted.
    """

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        where = []
        if row is not None:
            where.append(f"row {row}")
        if column is not None:
            where.append(f"column {column!r}")
        super().__init__(f"{', '.join(where)}: {message}" if where else message)
        self.row = row
        self.column = column


class TranscriptError(ProtocolError):
    """A transcript cannot be read any further; ``offset`` is the byte at which reading stopped."""

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"byte {offset}: {message}")
        self.offset = offset


class UsageError(Exception):
    """Bad input from a person: the message names the fault, its place, and the expected input."""


class UnopenedError(TranscriptError):
    """A file cannot be unpacked, so its content is unknown."""


class OtherCodeError(ProtocolError):
    """A variant is in another file than the one that a session binds; nothing is judged by it."""

    def __init__(self, agreed: bytes, given: bytes | None) -> None:
        found = "in no file" if given is None else f"in one with SHA-256 {given.hex()}"
        super().__init__(
            "the variant is not the one that was agreed, which is in a file with SHA-256 "
            f"{agreed.hex()}: this one is {found}; nothing was judged by it"
        )
