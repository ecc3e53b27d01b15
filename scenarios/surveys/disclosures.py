"""Folders and records that members hand to an auditor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from parties.keeping.repeating import noted_given
from parties.keeping.session_keys import known_session_key, role_stream
from protocol.audit.disclosure import Disclosure, disclosed_by_seed
from protocol.errors import SurveyError, UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from scenarios.data.own_tables.coding import Coding
from scenarios.surveys.members import read_member
from scenarios.surveys.respondents import coding_for


def disclosures(
    charter: Charter,
    *,
    seed: int | None,
    folders: Sequence[Path],
    records: Sequence[str],
    variant: str | None,
    plan: Path | None = None,
) -> Iterator[Disclosure]:
    """Members' keys, randomness and records.

    Args:
        seed: seed of a simulation's transcript.
        folders: folders of members of a real survey.
        records: ``PARTY=FILE``, or for a simulation one file with everybody's records.
        variant: ``PATH.py:Class``, where the variant is not a built-in one.
        plan: the survey's plan, which describes the files; None for files with categories as cells.

    Raises:
        UsageError: a file is missing, or the files do not belong together.
    """
    if plan is not None and not records:
        raise UsageError("--plan: expected --records too, which it says how to read")
    coding = coding_for(charter.variant.survey, plan)
    everybody, by_party = _given_records(charter, records)
    if everybody is not None:
        if seed is None:
            raise UsageError(
                f"--records {everybody}: expected PARTY=FILE; only a simulation's transcript "
                "says who holds which records"
            )
        if by_party or folders:
            raise UsageError(
                f"--records {everybody}: has everybody's records; expected no other --records, "
                "and no --member"
            )
        held = coding.records(everybody)
        try:
            yield from disclosed_by_seed(charter, seed, held)
        except SurveyError as error:
            raise UsageError(f"{everybody}: {error}") from error
        return
    yield from _of_folders(charter, folders, by_party, coding, variant)


def _of_folders(
    charter: Charter,
    folders: Sequence[Path],
    records: Mapping[PartyId, Path],
    coding: Coding,
    variant: str | None,
) -> Iterator[Disclosure]:
    unused = dict(records)
    for folder in folders:
        member = read_member(folder, variant)
        name = member.identity.name
        if member.charter.survey_id != charter.survey_id:
            raise UsageError(f"{folder}: belongs to another survey than the transcript")
        if name == AGGREGATOR:
            yield Disclosure(member=name, identity=member.identity)
            continue
        path = unused.pop(name, None)
        if path is None:
            raise UsageError(
                f"{folder}: replaying {name} takes its records too: --records {name}=FILE"
            )
        held = coding.records(path)
        key = known_session_key(folder, charter, held)
        given = noted_given(folder, charter.session)
        yield Disclosure(
            member=name,
            stream=role_stream(key, charter.session, name) if given is None else given.stream(key),
            identity=member.identity,
            records=held,
        )
    if unused:
        name, path = next(iter(unused.items()))
        raise UsageError(
            f"--records {name}={path}: replaying {name} takes its folder too: --member FOLDER"
        )


def _given_records(
    charter: Charter, given: Iterable[str]
) -> tuple[Path | None, dict[PartyId, Path]]:
    everybody: Path | None = None
    by_party: dict[PartyId, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and PartyId(name) in charter.roster.parties:
            if name in by_party:
                raise UsageError(f"--records {text}: {name} has records already")
            by_party[PartyId(name)] = Path(path)
        elif equals and not Path(text).exists():
            raise UsageError(f"--records {text}: {name!r} is not a party on the roster")
        elif everybody is not None:
            raise UsageError(f"--records {text}: everybody's records are in {everybody} already")
        else:
            everybody = Path(text)
    return everybody, by_party
