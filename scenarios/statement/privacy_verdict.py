"""The verdict on privacy: how well people are protected, in a word and a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from protocol.accounting.accountants import NOTHING, Loss, PureAccountant, maximum, total
from protocol.accounting.events import (
    Coins,
    ExactCounts,
    Masked,
    Merged,
    PrivacyEvent,
    Public,
    replaced,
    tells,
)
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.ledger import Ledger
from protocol.messages import AGGREGATOR, PartyId
from scenarios.statement.statement import Scale, State, Verdict
from scenarios.statement.statement import Step as Edge
from scenarios.wording.formatting import count, cut, epsilon, odds, ratio, some, upper

if TYPE_CHECKING:
    from protocol.accounting.spending import Cost
    from protocol.audit.audit import Source
    from protocol.audit.claims import ClaimCheck
    from protocol.audit.coalition.finding import CoalitionFinding
    from protocol.sharing.graph import Withstood

Protection: TypeAlias = Literal["none", "weak", "moderate", "strong", "unknown"]
"""How well people are protected; ``unknown`` if more may have been told than is on record."""


class Step(NamedTuple):
    """A step of the scale of privacy.

    Args:
        name: what it is called.
        odds: by which factor the odds between two answers of a person may change, at most.
        crowd: where an exact sum is revealed, over how many parties it is, at least.
    """

    name: Protection
    odds: float
    crowd: float


SCALE = (
    Step("strong", 3, math.inf),
    Step("moderate", 30, 11),
    Step("weak", 30_000, 3),
    Step("none", math.inf, 1),
)
"""The scale of privacy, the best first."""

SCALE_SAYS = (
    "The scale goes by the odds that somebody gives between any two answers of a person: seeing "
    "the messages changes them by a factor of 3 at most (strong), 30 (moderate) or 30,000 (weak). "
    "Where an exact sum is revealed, which no noise protects, it is over 11 parties at least "
    "(moderate) or 3 (weak)."
)

_LEADS: Mapping[Protection, str] = MappingProxyType(
    {
        "none": "People are not protected",
        "weak": "People are hardly protected",
        "moderate": "People are protected to a degree",
        "strong": "People are well protected",
        "unknown": "How well people are protected is not known",
    }
)
_STATES: Mapping[Protection, State] = MappingProxyType(
    {"none": "bad", "weak": "care", "moderate": "note", "strong": "good", "unknown": "open"}
)
CAVEATS: Mapping[Source, str] = MappingProxyType(
    {
        "survey": "",
        "simulation": "A simulation: its transcript can undo its protection. The verdict on "
        "privacy is about a real survey run like it.",
        "trial": "A trial: one program held all answers. The verdict on privacy is about a survey "
        "run like it among real parties.",
    }
)
"""Why a verdict on privacy is of the design alone."""

_UNSEARCHED = 3
"""The fewest parties of an exact sum that is missed where not all combinations were searched."""

_CLAIMS = 3
_COUNTS = (ExactCounts, Coins)
_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyVerdict(Verdict):
    """The verdict on privacy, and the figures that it follows from.

    Args:
        observer: who may learn most of a person.
        epsilon: the most that is told of a person beside exact sums, in nats; may be infinite.
        noised: what sums with coins tell, which holds at a delta and if so many are honest; None
            if there are none.
        crowd: the fewest parties over which an exact sum is revealed, or may be where not all
            combinations were searched; None if none is. A difference of two counts as one over two.
        against: the coalition that it is about, where that learns more than the aggregator alone;
            else empty.
        withstands: how many may conspire with the aggregator in the secure sum; None if there is
            no such sum, or nobody knows.
    """

    observer: str
    epsilon: float
    noised: Cost | None
    crowd: int | None
    against: str = ""
    withstands: Withstood | None = None

    @property
    def means(self) -> str:
        """Meaning of the verdict, without the figures."""
        return f"{_lead(cast(Protection, self.word), self.against)}."

    @property
    def place(self) -> float:
        """Place on the scale: from 0, the best end, to 1; a step takes a quarter."""
        edges = [0.0, *(math.log(step.odds) for step in SCALE[:-1])]
        at = next((i for i, step in enumerate(SCALE) if step.name == self.word), 0)
        within = 0.5
        if at < len(edges) - 1 and scale_step(self.epsilon) == at:
            within = (self.epsilon - edges[at]) / (edges[at + 1] - edges[at])
        return (at + min(max(within, 0.04), 0.96)) / len(SCALE)

    @property
    def by_sums(self) -> bool:
        """True if an exact sum decides, because the loss alone would be a better step."""
        if self.word == "unknown" or self.crowd is None:
            return False
        return SCALE[scale_step(self.epsilon)].name != self.word

    @property
    def scale(self) -> Scale:
        """The scale of privacy, with the place of the verdict."""
        return Scale(
            of="privacy",
            goes_by="by how far odds can change",
            steps=tuple(Edge(step.name, step.odds) for step in SCALE),
            says=SCALE_SAYS,
            place=None if self.word == "unknown" else self.place,
        )

    @property
    def values(self) -> Mapping[str, Any]:
        return {
            "caveat": self.caveat,
            "observer": self.observer,
            "epsilon": self.epsilon,
            "noised": self.noised,
            "crowd": self.crowd,
            "withstands": self.withstands,
            "scale": [step._asdict() for step in SCALE],
        }


_ALONE = "the aggregator"


def on_privacy(
    ledger: Ledger,
    *,
    alone: CoalitionFinding | None,
    checks: Iterable[ClaimCheck],
    conspiring: Sequence[CoalitionFinding] = (),
    withstands: Withstood | None = None,
    doubt: str = "",
    source: Source = "survey",
    apart: Iterable[Ledger] = (),
    promised: int | None = None,
) -> PrivacyVerdict:
    """The verdict on privacy: by the most that somebody who is not trusted may learn of a person.

    That is the aggregator, which sees whatever passes, together with all services, and no less
    than any other party, or than whoever taps a wire. Of exact sums of what nobody sees by itself
    it goes by how many parties they are over, for a party knows its own part. Those who conspire
    learn sums over fewer, so the verdict is on the coalition that learns most, of the aggregator
    alone and those asked about.

    Args:
        ledger: of all who hold no records.
        alone: what the aggregator alone knows of secure sums; None if that is not known, so that
            their contributions count as if everybody saw them.
        checks: the claims beside the record.
        conspiring: what the coalitions know that were asked about.
        withstands: how many may conspire with the aggregator in the secure sum.
        doubt: why the ledger may lack something; empty if it does not.
        source: the kind of event that the record is of.
        apart: ledgers of some of those who hold no records.
        promised: how many of the parties in a sum with coins are honest, as its bounds have it;
            None for all of them.
    """
    told, who = _told(ledger, beside_sums=alone is not None), collector(ledger)
    doubt = doubt or _doubt(ledger, alone, *conspiring)
    leading = _Exposure(
        scale_step(told.record),
        _by_loss(told, least=bool(doubt), who=who),
        who,
        least=told.record,
        brief=_by_loss(told, least=bool(doubt), who=who, brief=True),
    )
    reasons: list[str] = []
    own = [] if alone is None else [*_in_sums(ledger, alone, promised, alone=not told.record)]
    for each in own:
        above = each.level > leading.level or not leading.least
        leading, other = (each, leading) if above else (leading, each)
        reasons += [f"{upper(other.says)}."] if other.least else []
    crowd = next((each.crowd for each in own if each.crowd is not None), None)
    noised = next((each.noised for each in own if each.noised is not None), None)
    opened = [] if alone is None else [e for c in conspiring for e in _in_sums(ledger, c, promised)]
    worst = max(opened, key=lambda each: (each.level, each.least), default=leading)
    if worst.level > leading.level:
        alone_word = SCALE[leading.level].name
        reasons.insert(0, f"Against {who} alone: {alone_word}. {upper(leading.says)}.")
        leading, crowd, noised = worst, worst.crowd or crowd, worst.noised or noised
    word, why, against = SCALE[leading.level].name, leading.says, leading.against
    brief = leading.brief or why
    if doubt and word != "none":
        word, why, brief, reasons, against = "unknown", doubt, doubt, [], ""
    else:
        reasons += _on_conspiring(ledger, conspiring, withstands, against, noised)
    reasons += _apart(apart)
    reasons = [*_exceeded(checks, least=bool(doubt), sums=math.isfinite(told.record)), *reasons]
    partly = "" if doubt or against else _of_an_answer(told)
    says = f"{_lead(word, against)}: {why}."
    return PrivacyVerdict(
        about="Privacy",
        word=word,
        state=_STATES[word],
        says=says,
        reasons=(*reasons, *((partly,) if partly else ())),
        caveat=CAVEATS[source],
        brief=(says if against else f"{upper(brief)}.", *reasons),
        observer=leading.observer,
        epsilon=max(told.record, 0.0 if noised is None else noised.epsilon),
        noised=noised,
        crowd=crowd,
        against=against,
        withstands=withstands,
    )


class _Exposure(NamedTuple):
    """A way in which something of a person is told.

    Args:
        level: the step of the scale.
        says: the sentence on it, without its full stop.
        observer: who learns it.
        least: how much is told, to compare ways of one kind; 0 if nothing is.
        crowd: of an exact sum, over how few parties it is.
        noised: of a sum with coins, what it tells.
        against: the coalition that learns it; empty for those who hold no records.
        brief: a shorter sentence; empty if there is none.
    """

    level: int
    says: str
    observer: str
    least: float
    crowd: int | None = None
    noised: Cost | None = None
    against: str = ""
    brief: str = ""


def _in_sums(
    ledger: Ledger, found: CoalitionFinding, promised: int | None, *, alone: bool | None = None
) -> Iterator[_Exposure]:
    """Exposure by sums, exact or with coins.

    Args:
        ledger: of all who hold no records.
        found: what the aggregator or a coalition knows.
        promised: as ``on_privacy`` takes it.
        alone: of the aggregator, whether nothing else tells anything about a person; None for a
            coalition that is judged beside it.
    """
    observer, against, who = collector(ledger), "", "the aggregator"
    crowd, coins = _crowd(ledger, found), _has_coins(ledger)
    if alone is None and (crowd is not None or coins):
        # Imported late, as most surveys sum nothing and are asked about nobody in particular.
        from scenarios.wording.withstanding import named, together

        observer, against, who = named(found.coalition), together(found.coalition), "they"
    if crowd is not None:
        says = _by_crowd(found, crowd, alone=bool(alone), who=who)
        pair = alone is not None and crowd == 2
        yield _Exposure(
            level_of_crowd(crowd),
            says,
            "either of two parties" if pair else observer,
            1 / crowd,
            crowd=crowd,
            against=against,
        )
    if coins:
        # Imported late: few surveys have any.
        from scenarios.statement.audits.noised import noised_by, said_of

        noised = noised_by(ledger if alone is not None else found.ledger, promised)
        if noised is not None:
            says = said_of(noised, who if against else observer)
            level = scale_step(noised.epsilon)
            yield _Exposure(level, says, observer, noised.epsilon, noised=noised, against=against)


def _on_conspiring(
    ledger: Ledger,
    conspiring: Sequence[CoalitionFinding],
    withstands: Withstood | None,
    against: str,
    noised: Cost | None,
) -> Iterator[str]:
    """Sentences on how many may conspire and what they learn, and against whom that is the same."""
    if not conspiring and withstands is None:
        return
    from scenarios.wording.withstanding import conspiracy_sentences, together

    if withstands is not None:
        yield conspiracy_sentences(withstands)[0]
        if noised is not None:
            from scenarios.statement.audits.noised import noised_by, said_of

            least = noised_by(ledger, withstands.honest)
            if least is not None and least.honest not in ((1,), noised.honest):
                yield f"{upper(said_of(least, 'they'))}."
    others = dict.fromkeys(together(each.coalition) for each in conspiring)
    yield from (f"It is no lower against {each}." for each in others if each != against)


def _lead(word: Protection, against: str) -> str:
    """The verdict in a short sentence, without its full stop."""
    if word == "unknown" or not against:
        return _LEADS[word]
    return f"{_LEADS[word]} against {against}"


def _has_coins(ledger: Ledger) -> bool:
    """True if somebody contributed counts with coins to a sum."""
    accounts = ledger.everybody.values()
    events = {id(c.event): c.event for account in accounts for c in account.trail}.values()
    return any(tells(event, Coins) for event in events)


def has_exact_sums(ledger: Ledger) -> bool:
    """Check whether somebody contributed true counts to a sum."""
    accounts = ledger.everybody.values()
    events = {id(c.event): c.event for a in accounts for c in a.trail if c.summed}.values()
    if not events:
        return False
    from scenarios.statement.audits.replays import is_exact

    return any(map(is_exact, events))


def beside_sums(ledger: Ledger) -> Loss:
    """The most that a respondent told beside exact sums."""
    return _told(ledger, beside_sums=True)


def scale_step(loss: float) -> int:
    """The step of the scale by a loss in nats, 0 for the best."""
    most = next(i for i, step in enumerate(SCALE) if loss <= math.log(step.odds) * (1 + _SAME))
    return most


def level_of_crowd(crowd: int) -> int:
    """The step of the scale by how many parties an exact sum is over; none is strong."""
    return next(i for i, step in enumerate(SCALE) if crowd >= step.crowd)


def _crowd(ledger: Ledger, alone: CoalitionFinding | None) -> int | None:
    """The fewest parties whose exact sum is, or may be, open to the aggregator."""
    if alone is None or not has_exact_sums(ledger):
        return None
    sizes = [] if alone.smallest is None else [alone.smallest]
    if alone.pairs:
        sizes.append(2)
    if not alone.searched:
        # What is known of one party, or of two, never takes a search.
        sizes.append(_UNSEARCHED)
    return min(sizes, default=None)


def _doubt(ledger: Ledger, alone: CoalitionFinding | None, *conspiring: CoalitionFinding) -> str:
    """Reason why more may have been revealed beside exact sums, or by them, than is found."""
    accounts = ledger.everybody.values()
    if alone is None or not any(
        tells(c.event, ExactCounts, Coins) for a in accounts for c in a.trail
    ):
        return ""
    if not all(each.whole for each in (alone, *conspiring)):
        return "not all sums on record could be judged"
    # The most that a party consents to is known of sums and other messages together.
    if any(math.isinf(account.loss.record) for account in ledger.unsigned.values()):
        return "what parties without a signature revealed beside sums is not known"
    return ""


def _told(ledger: Ledger, *, beside_sums: bool) -> Loss:
    """The most that a respondent told, those of the unsigned too.

    Args:
        beside_sums: leave out what exact sums hide, for it is known what they are over.
    """
    accounts = ledger.everybody.values()
    found = _beside_sums(ledger) if beside_sums else (account.loss for account in accounts)
    return maximum([*{id(loss): loss for loss in found}.values()])


def _beside_sums(ledger: Ledger) -> Iterator[Loss]:
    """Losses of each party beside exact sums.

    Of unsigned ones it is the most that they consent to if that is finite, or else what is on
    record, which need not be all.
    """
    accountant = PureAccountant()
    # Parties that did the same share their events; most surveys have a handful of trails.
    known: dict[tuple[int, ...], Loss] = {}
    for name, account in ledger.everybody.items():
        exact = any(charge.summed and tells(charge.event, *_COUNTS) for charge in account.trail)
        if not exact or (name in ledger.unsigned and math.isfinite(account.loss.record)):
            yield account.loss
            continue
        key = tuple(id(charge.event) for charge in account.trail)
        if key not in known:
            known[key] = total(
                accountant.judge(replaced(charge.event, _hidden)) for charge in account.trail
            )
        yield known[key]


def _hidden(event: PrivacyEvent) -> PrivacyEvent:
    """Event of a contribution beside the sum that it is hidden in."""
    if isinstance(event, Masked | Merged) and isinstance(event.event, ExactCounts | Coins):
        return Public()
    return event


def collector(ledger: Ledger) -> str:
    """Those who hold no records, in words: the aggregator, and with it the services."""
    if ledger.observer == AGGREGATOR:
        return _ALONE
    from scenarios.wording.withstanding import together

    return together(Coalition(tuple(map(PartyId, ledger.observer.split(", ")))))


def _apart(ledgers: Iterable[Ledger]) -> Iterator[str]:
    """Knowledge of single ones of those who hold no records, if it is less."""
    alone = [each for each in ledgers if ", " not in each.observer and each.honest > 1]
    if alone:
        names = some([cut(each.observer) for each in alone], len(alone), 4)
        crowd = min(each.honest for each in alone)
        yield (
            f"If the others keep to the protocol, each of these learns by itself no more than sums "
            f"or reports in random order, of at least {crowd} honest parties: {names}."
        )


def _by_loss(told: Loss, *, least: bool, who: str, brief: bool = False) -> str:
    """Conclusion from the messages about one person, or a shorter one without the odds."""
    if told is NOTHING or not told.record:
        return "no message tells anything about one person"
    if math.isinf(told.record):
        why = f": {cut(told.unbounded[0], 200)}" if told.unbounded else ""
        return f"nothing limits what {who} can learn about a person{why}"
    most = "least" if least else "most"
    figure = f"ε = {epsilon(told.record, least=least)}"
    if not brief:
        figure += f", which changes odds by {odds(told.record)} at {most}"
    if SCALE[scale_step(told.record)].name == "none":
        if brief:
            return f"{who} can become certain of a person's answers ({figure})"
        return f"{_collecting(who)} can become certain of those of a person ({figure})"
    if brief:
        return (
            f"{who} can be at most {sure(told.record)} sure of a guess about a person that was "
            f"50:50 before ({figure})"
        )
    return (
        f"if {_collecting(who)} held two sets of answers of a person to be equally likely before, "
        f"{'it' if who == _ALONE else 'they'} can now be at most {sure(told.record)} sure of one "
        f"of them "
        f"({figure})"
    )


def _collecting(who: str) -> str:
    return f"{who}, which collects the answers," if who == _ALONE else who


def _by_crowd(
    found: CoalitionFinding, crowd: int, *, alone: bool, who: str = "the aggregator"
) -> str:
    """Consequence of exact sums, in words.

    Args:
        alone: nothing else tells anything about a person.
        who: learns it.
    """
    if crowd == 1:
        names = some(map(cut, found.exposed), len(found.exposed), 3)
        return f"{who} can tell what {names} put into a secure sum, exactly"
    if crowd == 2:
        if found.smallest == 2:
            opened = "an exact sum over two parties is revealed"
        else:
            opened = "the exact difference between two parties is revealed"
        return f"{opened}, and each of them knows the other's part from its own"
    opened = "only exact sums are revealed" if alone else "exact sums are revealed"
    over = f"over {count(crowd, 'party', 'parties')} or more"
    if found.smallest is None or crowd < found.smallest:
        over = f"perhaps over {crowd} parties only, for not all combinations of them were searched"
    return (
        f"{opened}, {over}. No noise protects these: somebody who knows what all others put in "
        "can subtract it, and an answer that all or none gave is revealed for each"
    )


def sure(loss: float) -> str:
    """Certainty at a loss in nats of what was as likely as not before, rounded up."""
    doubt = 100 / (1 + math.exp(loss))
    digits = max(0, math.ceil(-math.log10(doubt)) if doubt < 1 else 0)
    step = 10.0**-digits
    return f"{100 - step * math.floor(doubt / step + 1e-9):.{digits}f} %"


def _of_an_answer(told: Loss) -> str:
    """Loss of a single answer, if it is less, in words."""
    if len(told.attributes) < 2:
        return ""
    name, most = max(told.attributes.items(), key=lambda item: item[1])
    if not 0 < most < told.record or math.isinf(most):
        return ""
    step = SCALE[scale_step(most)].name
    return (
        f"One answer by itself is less exposed: {step} on this scale, with at most "
        f"ε = {epsilon(most)} of {cut(name)}, which changes odds by {odds(most)} at most."
    )


def _exceeded(checks: Iterable[ClaimCheck], *, least: bool, sums: bool) -> Iterator[str]:
    """Records that exceed what is claimed, claim by claim.

    Args:
        least: more may have been told.
        sums: exact sums alone are without bound.
    """
    worse = [check for check in checks if exceeds(check)]
    for check in worse[:_CLAIMS]:
        claimed = check.claim.epsilon
        claims = "no risk" if claimed is None else f"ε = {epsilon(claimed)} {check.about}"
        unbounded = f"no bound{' on exact sums' if sums else ''}"
        shows = unbounded if math.isinf(check.record) else f"ε = {epsilon(check.record)}"
        at_least = "at least " if least else ""
        factor = f", {at_least}{ratio(check.factor)} times as much"
        times = factor if check.factor is not None and math.isfinite(check.factor) else ""
        yield (
            f"Less private than claimed: {cut(check.claim.source, 120)} claims {cut(claims, 120)}; "
            f"the record shows {shows}{times}."
        )
    if len(worse) > _CLAIMS:
        yield f"{count(len(worse) - _CLAIMS, 'more claim is', 'more claims are')} exceeded."


def exceeds(check: ClaimCheck) -> bool:
    """Check whether the record shows more than is claimed."""
    if check.claim.epsilon is None:
        return math.isinf(check.record)
    return check.factor is not None and check.factor > 1 + _SAME
