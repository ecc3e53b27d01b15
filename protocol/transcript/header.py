"""A survey's header: from a charter, and back."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from protocol.errors import OtherCodeError, ProtocolError, SurveyError
from protocol.estimators.analysis import Analysis
from protocol.session.charter import Charter
from protocol.session.roster import Roster
from protocol.session.terms import NEIGHBOURS
from protocol.session.variant import Variant, build
from protocol.transcript.entries import DeclaredKind, Header


def read_charter(header: Header, variant: type[Variant]) -> Charter:
    """Charter that the members knew before the first message, from a transcript's header.

    Raises:
        SurveyError: the header is not one of this variant.
        OtherCodeError: the variant is not in the file that was agreed.
        TypeError: ``variant`` is not a variant's class.
    """
    if not (isinstance(variant, type) and issubclass(variant, Variant)):
        given = repr(variant) if isinstance(variant, str) else f"a {type(variant).__name__}"
        raise TypeError(f"expected a variant's class, such as RRJoint, got {given}")
    if header.variant != variant.name:
        raise SurveyError(
            f"the transcript is of variant {header.variant!r}, not of {variant.name!r}"
        )
    if header.code not in (None, variant.code):
        raise OtherCodeError(header.code or b"", variant.code)
    if isinstance(header.seed, int) and header.seed < 0:
        raise SurveyError(f"invalid header: seed {header.seed}, expected at least 0")
    try:
        built = build(variant, parameters=header.parameters, survey=header.survey)
        if header.neighbours != NEIGHBOURS or header.roles != (built.roles or None):
            raise SurveyError("the header has roles or neighbours that this program does not know")
        charter = Charter(
            variant=built,
            roster=Roster(header.roster, built.roles),
            nonce=header.nonce,
            analysis=_read_analysis(header),
            attempt=header.attempt,
            code=header.code,
            enrolled=header.enrolled,
        )
        # Made here, since hostile parameters may not fit together.
        kinds = declared_kinds(charter)
        charter.variant.claims()
    except SurveyError:
        raise
    except (ProtocolError, ValueError) as error:
        raise SurveyError(f"invalid header: {error}") from error
    except Exception as error:
        # A user's own variant may not be prepared for all parameters.
        why = f"{type(error).__name__}: {error}"
        raise SurveyError(f"invalid header: variant {variant.name!r} fails: {why}") from error
    if kinds != header.kinds:
        pairs = ((kind.name, str(kind)) for kind in (*kinds, *header.kinds))
        counts = Counter(pairs)
        different = sorted({name for (name, _), times in counts.items() if times == 1})
        raise SurveyError(
            f"the header describes other kinds of message than variant {variant.name!r} has: "
            f"{', '.join(different) or 'another order'}"
        )
    if charter.session != header.session:
        raise SurveyError(
            f"the header's session {header.session.hex()} is not that of its terms, roster "
            f"and attempt"
        )
    return charter


def _read_analysis(header: Header) -> Analysis | None:
    return None if header.analysis is None else msgspec.convert(header.analysis, Analysis)


def declared_kinds(charter: Charter) -> tuple[DeclaredKind, ...]:
    """The kinds of message of a survey, as a header declares them."""
    return tuple(map(DeclaredKind.of, charter.codec.schemas))


def make_header(
    charter: Charter,
    *,
    seed: int | Literal["withheld"] | None = None,
    transport: str | None = None,
    program: str = "",
) -> Header:
    """The header of a transcript of this survey."""
    agreed = charter.agreed._replace(kinds=declared_kinds(charter))
    return Header(
        **agreed._asdict(),
        attempt=charter.attempt,
        session=charter.session,
        roster=charter.roster.members,
        seed=seed,
        transport=transport,
        program=program,
    )
