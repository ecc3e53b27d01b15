"""State of a witness: its key, and the last checkpoint of each survey that it cosigned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from parties.keeping.checkpoints import read_checkpoint, write_evidence
from parties.keeping.members import key_secret
from parties.keeping.writing import lock, make_folder, open_private, write_once, write_whole
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import UsageError
from protocol.messages import PartyId
from protocol.session.roster import Identity
from protocol.session.terms import MOST_ATTEMPTS, attempt_at
from protocol.transcript.certifying import MOST_CERTIFIED, certified_log
from protocol.transcript.checkpoints import SignedCheckpoint, log_origin, read_text, to_base64
from protocol.transcript.cosignatures import WitnessKey, cosign, read_witness_key
from protocol.transcript.witnessing import Decision, decide
from transports.certificates import private_pem

VERIFIER_KEY = "witness.vkey"
"""The file in the folder of the state for the verifier key, locked while the witness runs."""

CHECKPOINT, EVIDENCE = ".checkpoint", ".evidence.json"
"""The suffixes of what is kept of a survey; the names before them are made of its origin."""

_LARGEST = 1 << 12
_EMPTY_ROOT_LINE = to_base64(bytes(32))


def make_witness(key: Path, folder: Path, name: str) -> WitnessKey:
    """Make a witness's private key, and the empty state that belongs to it.

    Args:
        key: the file for the key, readable by its owner alone.
        folder: for the state, new or empty.
        name: the witness's.

    Raises:
        UsageError: an invalid name, a file that is there, or a folder that is not empty.
        OSError: a file cannot be written.
    """
    identity = Identity(PartyId(name), os.urandom(SECRET_BYTES))
    try:
        witness = WitnessKey(name, identity.public)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if os.path.lexists(key):
        raise UsageError(f"{key}: exists; keys are never overwritten")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: exists and is not empty; a new witness has cosigned nothing")
    make_folder(folder)
    make_folder(key.parent)
    try:
        write_once(key, private_pem(identity.private_key))
        write_once(folder / VERIFIER_KEY, f"{witness.text}\n".encode())
    except FileExistsError as error:
        raise UsageError(f"{error.filename}: exists; keys are never overwritten") from error
    return witness


class Witness:
    """A witness at work. It judges and keeps one request after the other.

    Args:
        key: the witness's name and public key.
        identity: holds its private key.
        folder: for the state.
        last: last cosigned checkpoint of each known survey, by origin.
        clock: gives seconds since 1970.
    """

    def __init__(
        self,
        key: WitnessKey,
        identity: Identity,
        folder: Path,
        last: dict[str, SignedCheckpoint | None],
        clock: Callable[[], float],
    ) -> None:
        self.key = key
        self._identity = identity
        self._folder = folder
        self._last = last
        self._clock = clock

    def answer(self, body: bytes) -> tuple[Decision, str]:
        """Judge a request; with status 200, the line of the cosignature.

        The checkpoint is on disk before it is cosigned.

        Raises:
            UsageError, OSError: the state cannot be written; nothing was cosigned.
        """
        decision = decide(body, self._last)
        if decision.evidence is not None:
            origin, _, _ = decision.evidence.first.decode().partition("\n")
            path = self._folder / (_file_name(origin) + EVIDENCE)
            if not path.exists():
                write_evidence(decision.evidence, path)
        checkpoint = decision.checkpoint
        if checkpoint is None:
            return decision, ""
        origin = log_origin(checkpoint.session, checkpoint.key)
        known = self._last[origin]
        if known is None or known.signed != checkpoint.signed:
            path = self._folder / (_file_name(origin) + CHECKPOINT)
            write_whole(path, checkpoint.note, private=True)
            self._last[origin] = checkpoint
        time = int(self._clock())
        text = checkpoint.signed
        return decision, cosign(self._identity, name=self.key.name, text=text, time=time)


@contextmanager
def witnessing(
    key: Path, folder: Path, trusted: Sequence[str], clock: Callable[[], float]
) -> Generator[Witness]:
    """A witness with its state, locked while the block runs.

    Args:
        key: the file of the private key.
        folder: folder of the state, from ``make_witness``.
        trusted: the origins of the surveys that it cosigns: of the first attempt, which stands for
            all attempts, and for the logs of what is certified in them.
        clock: gives seconds since 1970.

    Raises:
        UsageError: a file is missing or malformed, the state is another key's or in use, or an
            origin is malformed.
        OSError: a file cannot be read.
    """
    for origin in trusted:
        _check_origin(origin)
    try:
        secret = key_secret(key.read_bytes(), key)
    except FileNotFoundError as error:
        raise UsageError(f"{key}: no such file; --new-key NAME makes one, and a state") from error
    path = folder / VERIFIER_KEY
    try:
        descriptor = open_private(path, os.O_RDWR)
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: no such file, so {folder} is not the state of a witness; one that has lost "
            "its state must not go on with its key, for it could cosign a fork"
        ) from error
    with contextlib.ExitStack() as held:
        held.callback(os.close, descriptor)
        lock(descriptor, path, f"{folder}: another witness is using this state")
        try:
            own = read_witness_key(os.read(descriptor, _LARGEST).decode().removesuffix("\n"))
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
        identity = Identity(PartyId(own.name), secret)
        if identity.public != own.key:
            raise UsageError(f"{folder}: is the state of another key than {key}")
        logs = (log for origin in trusted for log in _attempts(origin))
        last = {origin: _read_last(folder, origin) for origin in logs}
        yield Witness(own, identity, folder, last, clock)


def _attempts(origin: str) -> Iterator[str]:
    """Origins of all attempts at a survey and of their certificates, from the first origin."""
    survey_id, key, _, _ = read_text(f"{origin}\n0\n{_EMPTY_ROOT_LINE}\n")
    for attempt in range(1, MOST_ATTEMPTS + 1):
        session = attempt_at(survey_id, attempt)
        yield log_origin(session, key)
        for number in range(MOST_CERTIFIED):
            yield log_origin(certified_log(session, number), key)


def _read_last(folder: Path, origin: str) -> SignedCheckpoint | None:
    path = folder / (_file_name(origin) + CHECKPOINT)
    if not os.path.lexists(path):
        return None
    checkpoint = read_checkpoint(path)
    if log_origin(checkpoint.session, checkpoint.key) != origin or not checkpoint.valid:
        raise UsageError(f"{path}: is not a signed checkpoint of {origin}")
    return checkpoint


def _file_name(origin: str) -> str:
    _, session, key = origin.split("/")
    return f"{session}-{key}"


def _check_origin(origin: str) -> None:
    try:
        read_text(f"{origin}\n0\n{_EMPTY_ROOT_LINE}\n")
    except ValueError as error:
        raise UsageError(
            f"--trust {origin!r:.120}: expected an origin, sottovoce/SESSION/KEY"
        ) from error
