"""Files that ask for far more than their length, and commands that may not have it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from protocol import AGGREGATOR, Attribute, PartyId, Survey, Variant
from protocol.session.charter import Charter
from protocol.session.roster import Roster
from protocol.session.terms import NEIGHBOURS
from protocol.transcript.entries import Entry, Header, encode_header, encode_item
from protocol.transcript.header import make_header
from protocol.variants import RRIndependent
from tests.recorded.forgeries import packed, plain, record_of
from tests.recorded.transcripts import agreed, described
from tests.scenarios.command import Said, environment

MEMORY = 5 << 28
"""What a command may have, in bytes: an honest audit takes a tenth."""

PARTY = PartyId("party-1")
ROSTER = ((AGGREGATOR, b"\xaa" * 32), (PARTY, b"\xab" * 32))
_LIMITED = (
    "import resource, sys; "
    "resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2); "
    "del sys.argv[1]; from scenarios.cli import main; main()"
)


def limited(*arguments: object) -> Said:
    """Call the command line in a process that gets no more than ``MEMORY``."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(MEMORY), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        # Every thread of a library for matrices takes address space of its own.
        env={**environment(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        timeout=600,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return Said(done.returncode, done.stdout, done.stderr)


def header(
    variant: str,
    survey: Mapping[str, Any],
    parameters: Mapping[str, Any],
    *,
    roster: tuple[tuple[PartyId, bytes], ...] = ROSTER,
) -> Header:
    """A header that need not be one that the variant has."""
    return agreed(
        Header(
            variant=variant,
            code=None,
            parameters=dict(parameters),
            survey=dict(survey),
            analysis=None,
            neighbours=NEIGHBOURS,
            nonce=bytes(16),
            roles=None,
            enrolled=None,
            attempt=1,
            session=b"",
            roster=roster,
            kinds=described(max_bytes=4096),
            seed=None,
            transport=None,
            program="",
        )
    )


def hostile_header(variant: Variant, parties: int = 1) -> Header:
    """The header that a variant has."""
    others = tuple(
        (PartyId(f"party-{i}"), (i + 1000).to_bytes(32, "little")) for i in range(1, parties + 1)
    )
    return make_header(Charter(variant=variant, roster=Roster((ROSTER[0], *others))))


def asked(attributes: int, categories: int = 2) -> dict[str, Any]:
    """A survey as plain values."""
    names = [f"{i:x}" for i in range(categories)]
    return {
        "title": "t",
        "attributes": [{"name": f"{i:x}", "categories": names} for i in range(attributes)],
    }


def small_variant(attributes: int = 1, **terms: Any) -> RRIndependent:
    """A variant that costs nothing."""
    survey = Survey(
        "t", tuple(Attribute(name=f"{i:x}", categories=("n", "y")) for i in range(attributes))
    )
    return msgspec.structs.replace(RRIndependent.with_keep(survey, 0.5), **terms)


def write(
    path: Path,
    head: Header,
    entries: Iterable[Entry | bytes] = (),
    each: int = 1,
    *,
    change: Mapping[bytes, bytes] | None = None,
) -> Path:
    """A file of these entries, so many in a frame, without a last one.

    Args:
        change: what is put in place of what in the header.
    """
    encoded = encode_header(head)
    for old, new in (change or {}).items():
        assert encoded.count(old) == 1
        encoded = encoded.replace(old, new)
    frame = zstandard.ZstdCompressor(level=1, write_checksum=True).compress
    parts = chain([plain([encoded])], _parts(entries, each))
    path.write_bytes(packed(parts, frame))
    return path


def _parts(entries: Iterable[Entry | bytes], each: int) -> Iterator[bytes]:
    source = iter(entries)
    while part := list(islice(source, each)):
        encoded = [e if isinstance(e, bytes) else encode_item(e) for e in part]
        yield b"".join(map(record_of, encoded))
