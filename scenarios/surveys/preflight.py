"""Facts before a survey: questions, cost, and readiness."""

from __future__ import annotations

import datetime
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from msgspec import UNSET

from parties.keeping.attempts import answers_in
from parties.keeping.members import Member
from parties.keeping.paying.payers import Payers
from parties.keeping.paying.recalling import recalled_in
from parties.keeping.purse import purse_in, usual_purse
from parties.keeping.writing import naming, reason
from protocol.accounting.spending import Cost, assumed
from protocol.errors import PrivacyError, UsageError
from protocol.estimators.analysis import Analysis
from protocol.messages import AGGREGATOR
from protocol.session.variant import Variant, plain_parameters
from protocol.surveys.records import Records
from scenarios.surveys.members import CERTIFICATE, read_member, tls_context
from scenarios.surveys.respondents import Respondents, coding_for, read_respondents
from scenarios.surveys.survey_plan import read_plan
from scenarios.wording.announced import described
from scenarios.wording.boxes import box_sentences
from scenarios.wording.formatting import count, epsilon, moment, some
from scenarios.wording.withstanding import coins_sentence, sums_sentences, sums_sentences_by_size
from transports.tls import client_context, server_context

CONNECTING = 5.0
"""Seconds to wait for an address to answer."""

_LISTED = 8


class Known(NamedTuple):
    """One fact before a survey.

    Args:
        about: the subject.
        says: the fact, in a sentence.
        ready: whether the survey can begin with it; None where nothing has to fit.
    """

    about: str
    says: str
    ready: bool | None = None


def preflight(
    path: Path,
    *,
    variant: str | None,
    records: Path | None,
    address: tuple[str, int] | None,
    ids: str | None = None,
    purse: Path | None = None,
    budget: float | None = None,
    honest: int | None = None,
    delta: float | None = None,
    plan: Path | None = None,
    parties: int | None = None,
    useful: Callable[[Variant, int], str] = lambda variant, respondents: "",
) -> Iterator[Known]:
    """Facts on a plan, or on a member's folder.

    Nothing is drawn, written or sent; an address is only connected to.

    Args:
        path: the plan, or the folder.
        variant: ``PATH.py:Class`` for a folder whose variant is not a built-in one.
        records: a CSV or Parquet file to be answered with.
        address: the aggregator's address.
        ids: the column of the records that says who a respondent is.
        purse: the folder of the purse that is to be paid from; None for the user's.
        budget: the most epsilon that a respondent may have spent in all surveys, in nats.
        honest, delta: terms that a party consents to, as in ``Answering``.
        plan: plan that describes the records, for a folder; by default their cells are the
            categories.
        parties: number of parties, for a plan.
        useful: predicts how useful the estimates of so many respondents will be, in sentences, or
            says why it cannot; empty to leave it out.

    Raises:
        UsageError: the plan or the folder cannot be read, or an option does not apply to it.
        OSError: the records cannot be read.
    """
    if ids is not None and records is None:
        raise UsageError(f"--id {ids}: expected --records, which it is a column of")
    if plan is not None and records is None:
        raise UsageError("--plan: expected --records, which it says how to read")
    if records is not None:
        with naming(records):
            records.open("rb").close()
    survey, member, paying = None, None, purse is not None or budget is not None or ids is not None
    if path.is_dir():
        if parties is not None:
            raise UsageError(f"{path}: --parties is for a plan; a folder has its roster")
        member = read_member(path, variant)
        charter = member.charter
        asked, analysis, survey = charter.variant, charter.analysis, charter.survey_id
        coding = coding_for(asked.survey, plan)
        parties = len(charter.roster) - 1
        paying = paying or member.identity.name != AGGREGATOR
        yield from _member(member)
    else:
        if variant is not None or address is not None:
            raise UsageError(f"{path}: --variant and --connect are for a member's folder")
        if plan is not None:
            raise UsageError(f"{path}: a plan itself; --plan is for a member's folder")
        read = read_plan(path)
        asked, analysis, coding = read.variant, read.analysis, read.coding
    yield from survey_facts(asked, analysis, parties)
    yield from _on_closing(asked)
    people: Respondents | None = None
    if records is not None:
        try:
            people = read_respondents(records, coding, ids)
        except UsageError as error:
            yield Known("records", f"{error}.", ready=False)
        else:
            yield _records(records, people.records, asked)
    yield from _on_usefulness(asked, parties, people, useful)
    if paying and (ids is None or people is not None):
        payers = None if people is None else people.ids
        allowed = Payers(None).asked(asked, budget=budget, honest=honest, delta=delta)
        yield _purse(purse or usual_purse(), payers, survey, allowed, member)
    if address is not None:
        yield _address(*address)


def _on_closing(asked: Variant) -> Iterator[Known]:
    closing, now = asked.survey.closing, datetime.datetime.now(datetime.UTC)
    if closing is not None and closing <= now:
        says = f"it has closed: this machine's clock says {moment(int(now.timestamp()))}."
        yield Known("closes", says, ready=False)


def _on_usefulness(
    variant: Variant,
    parties: int | None,
    people: Respondents | None,
    useful: Callable[[Variant, int], str],
) -> Iterator[Known]:
    """Predicted usefulness with one respondent per party, or with the given records."""
    if parties is not None:
        each = ", one for each party" if variant.max_records > 1 else ""
        respondents, of = parties, f"{count(parties, 'respondent')}{each}"
    elif people is not None:
        respondents = len(people.records)
        of = f"{count(respondents, 'respondent')}, those of the records alone"
    else:
        return
    if said := useful(variant, respondents):
        yield Known("usefulness", f"predicted for {of}: {said}")


def survey_facts(
    variant: Variant, analysis: Analysis | None, parties: int | None = None
) -> Iterator[Known]:
    """Facts on a survey: its questions, wording, end, variant, cost, sum, announced analysis.

    Args:
        parties: number of parties; None if unknown.
    """
    survey = variant.survey
    each = (f"{each.name} ({len(each.categories)})" for each in survey.attributes)
    named = some(each, len(survey.attributes), _LISTED)
    yield Known("asked", f"{survey.title}: {named}; in parentheses, how many categories.")
    for texts in survey.texts:
        for words in texts.about.values():
            yield Known("wording", f'{texts.language}: "{words}"')
        for asked in texts.questions:
            explained = f' "{asked.help}"' if asked.help else ""
            choices = f" Answers: {', '.join(asked.labels)}." if asked.labels else ""
            said = f'{texts.language}, {asked.attribute}: "{asked.ask}"{explained}{choices}'
            yield Known("wording", said)
        for group in texts.groups:
            explained = f' "{group.help}"' if group.help else ""
            boxes = some(group.attributes, len(group.attributes), _LISTED)
            said = f'{texts.language}, check boxes {boxes}: "{group.ask}"{explained}'
            yield Known("wording", said)
    if survey.closing is not None:
        yield Known("closes", f"answers are taken until {moment(int(survey.closing.timestamp()))}.")
    scalars = [
        f"{name} {value}"
        for name, value in plain_parameters(variant).items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    yield Known("variant", f"{', '.join([variant.name, *scalars])}.")
    if variant.weights is not UNSET:
        each = (f"{name} {weight:g}" for name, weight in sorted(variant.weights.items()))
        yield Known(
            "weights",
            f"{some(each, len(variant.strata), _LISTED)}. The name of a party begins with its "
            "stratum and a hyphen. Weights are public.",
        )
    most = variant.most()
    coins = ""
    with suppress(ValueError):  # Why there is no sum among so many is said of the sum.
        coins = coins_sentence(variant, parties)
    if coins:
        yield Known("cost", coins)
    elif math.isinf(most):
        yield Known("cost", "no \N{GREEK SMALL LETTER EPSILON} bounds what a respondent tells.")
    else:
        yield Known(
            "cost",
            f"at most \N{GREEK SMALL LETTER EPSILON} {epsilon(most)} for each respondent, "
            "whatever the aggregator asks.",
        )
    for said in box_sentences(variant):
        yield Known("cost", said)
    yield from _sums(variant, parties)
    announced = "nothing" if analysis is None else described(analysis)
    yield Known("announced", f"{announced}.")


def _sums(variant: Variant, parties: int | None) -> Iterator[Known]:
    """Numbers of parties that may conspire or be missing; none without sums."""
    try:
        said = (
            sums_sentences_by_size(variant) if parties is None else sums_sentences(variant, parties)
        )
    except ValueError as error:
        yield Known("sums", f"{error}.", ready=False)
        return
    if said:
        yield Known("sums", " ".join(said))


def _member(member: Member) -> Iterator[Known]:
    charter, name = member.charter, member.identity.name
    others = count(len(charter.roster) - 1, "party", "parties")
    yield Known("member", f"{name}, in a survey of {others}.")
    answers = None if name == AGGREGATOR else answers_in(member.folder)
    if answers is not None and answers.attempts:
        tried = count(len(answers.attempts), "attempt")
        total = cost_words(answers.before(answers.attempts[-1] + 1))
        rests = assumed(answers.before(answers.attempts[-1] + 1).honest)
        yield Known("spent", f"{total} for each respondent, in {tried}{rests}.")
    make = server_context if name == AGGREGATOR else client_context
    try:
        tls_context(member.folder, make)
        certificate = x509.load_pem_x509_certificate((member.folder / CERTIFICATE).read_bytes())
    except (UsageError, ValueError) as error:
        yield Known("certificate", f"{error}.", ready=False)
        return
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    now = datetime.datetime.now(datetime.UTC)
    span = f"valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    if begin <= now < end:
        yield Known("certificate", f"{span}, and so it is now.", ready=True)
    else:
        yield Known(
            "certificate",
            f"{span}; this machine's clock says {now:%Y-%m-%d %H:%M}.",
            ready=False,
        )


def _records(path: Path, held: Records, variant: Variant) -> Known:
    respondents = count(len(held), "respondent")
    if len(held) > variant.max_records:
        return Known(
            "records",
            f"{path}: {respondents}, at most {variant.max_records} allowed per party.",
            ready=False,
        )
    return Known("records", f"{path}: {respondents}, every answer has a category.", ready=True)


def _purse(
    folder: Path,
    people: Sequence[str] | None,
    survey: bytes | None,
    allowed: Payers,
    member: Member | None,
) -> Known:
    """Spending on other surveys, and whether enough is left for this one.

    Args:
        people: ids of the respondents; None for all as one.
        survey: this one, if it has begun.
        allowed: budget of each, and the largest cost of this survey.
        member: member with a folder that may recall more than the purse; None for a plan.
    """
    purse = purse_in(folder)
    if purse is None:
        return Known("purse", f"{folder}: nothing was spent from it yet.")
    try:
        if people is not None:
            purse.check_spellings(people)
        if member is not None and member.identity.name != AGGREGATOR:
            purse.check_knows(recalled_in(member), member.folder)
    except (UsageError, PrivacyError) as error:
        return Known("purse", f"{error}.", ready=False)
    payers = purse.payers(people)
    elsewhere = purse.spent(payers, lambda release: release.survey != survey)
    most, who = elsewhere.most, count(len(payers), "respondent")
    total = cost_words(most)
    says = f"{folder}: {total} spent on other surveys"
    if people is not None:
        paid = int(((elsewhere.epsilon > 0) | (elsewhere.delta > 0)).sum())
        says = f"{folder}: {paid} of {who} spent something on other surveys, {total} at most"
    says += assumed(most.honest)
    if apart := purse.told_apart(payers):
        says += f"; {apart} of them told apart from others who read alike"
    if allowed.budget is None and allowed.delta is None:
        return Known("purse", f"{says}.")
    try:
        purse.check(replace(allowed, marks=payers.marks), survey)
    except PrivacyError as error:
        return Known("purse", f"{folder}: {error}.", ready=False)
    # An earlier attempt at this survey counts too, where the next one draws anew.
    enough = f"{_budget_words(allowed)} is enough as far as other surveys go"
    return Known("purse", f"{says}; {enough}.", ready=True)


def cost_words(cost: Cost) -> str:
    """Epsilon and, if there is one, delta, in the letters of the field."""
    said = f"\N{GREEK SMALL LETTER EPSILON} {epsilon(cost.epsilon)}"
    return f"{said} and \N{GREEK SMALL LETTER DELTA} {cost.delta:.6g}" if cost.delta else said


def _budget_words(allowed: Payers) -> str:
    budget = "any budget" if allowed.budget is None else f"a budget of {allowed.budget:.6g}"
    return f"{budget} and a delta of {allowed.delta:.6g}" if allowed.delta else budget


def _address(host: str, port: int) -> Known:
    try:
        socket.create_connection((host, port), CONNECTING).close()
    except OSError as error:
        why = reason(error)
        return Known("address", f"{host}:{port} cannot be connected to: {why}.", ready=False)
    return Known(
        "address", f"something listens at {host}:{port}; its identity was not checked.", ready=True
    )
