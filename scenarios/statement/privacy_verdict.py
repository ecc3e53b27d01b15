"""The verdict on privacy: a level of protection, in a word and a sentence."""

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
"""Level of protection; ``unknown`` if more may have been revealed than is on record."""


class Step(NamedTuple):
    """A step of the privacy scale.

    Args:
        name: its name.
        odds: the largest factor by which the odds between two answers of a person may change.
        crowd: the fewest parties in an exact sum that is revealed.
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
"""The privacy scale, best step first."""

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
"""Reason why a verdict on privacy is about the design, by the source of the record."""

_UNSEARCHED = 3
"""The fewest parties in an exact sum that an incomplete search can miss."""

_CLAIMS = 3
_COUNTS = (ExactCounts, Coins)
_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyVerdict(Verdict):
    """The verdict on privacy, with its figures.

    Args:
        observer: the observer that may learn most about a person.
        epsilon: the largest loss of a person outside exact sums, in nats; may be infinite.
        noised: the loss from sums with coins, which holds at a delta and with so many honest
            parties; None without such sums.
        crowd: the fewest parties in an exact sum that is revealed, or that an incomplete search may
            have missed. A difference of two parties counts as a sum over two. None without sums.
        against: the coalition that the verdict is about, if it learns more than the aggregator
            alone; else empty.
        withstands: the number of parties that may conspire with the aggregator in the secure sum;
            None without such a sum, or if unknown.
    """

    observer: str
    epsilon: float
    noised: Cost | None
    crowd: int | None
    against: str = ""
    withstands: Withstood | None = None

    @property
    def means(self) -> str:
        """The verdict in a sentence without figures."""
        return f"{_lead(cast(Protection, self.word), self.against)}."

    @property
    def place(self) -> float:
        """Place on the scale from 0 (best) to 1; every step takes a quarter."""
        edges = [0.0, *(math.log(step.odds) for step in SCALE[:-1])]
        at = next((i for i, step in enumerate(SCALE) if step.name == self.word), 0)
        within = 0.5
        if at < len(edges) - 1 and scale_step(self.epsilon) == at:
            within = (self.epsilon - edges[at]) / (edges[at + 1] - edges[at])
        return (at + min(max(within, 0.04), 0.96)) / len(SCALE)

    @property
    def by_sums(self) -> bool:
        """True if an exact sum decides: the loss alone would give a better step."""
        if self.word == "unknown" or self.crowd is None:
            return False
        return SCALE[scale_step(self.epsilon)].name != self.word

    @property
    def scale(self) -> Scale:
        """The privacy scale with the verdict's place on it."""
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
    """The verdict on privacy, by the most that an untrusted observer may learn about a person.

    The observer is the aggregator together with all services: it sees no less than any other party
    or wiretapper. An exact sum is judged by its number of parties, as every party knows its own
    part. Coalitions learn sums over fewer parties, so the verdict is about the worst of the
    aggregator alone and the requested coalitions.

    Args:
        ledger: the ledger of the aggregator and all services.
        alone: the aggregator's knowledge of secure sums; None if unknown, so that contributions
            count as if seen by everybody.
        checks: the claims, compared with the record.
        conspiring: the knowledge of the requested coalitions.
        withstands: the number of parties that may conspire with the aggregator in the secure sum.
        doubt: why the ledger may be incomplete; empty if it is complete.
        source: the kind of event on record.
        apart: ledgers of smaller groups of the aggregator and the services.
        promised: the number of honest parties that the bounds of a sum with coins assume; None
            for all parties.
    """
    told, who = _largest_loss(ledger, beside_sums=alone is not None), collector(ledger)
    doubt = doubt or _doubt(ledger, alone, *conspiring)
    found = _Found.by_loss(told, who=who, least=bool(doubt))
    if alone is not None:
        found = found.with_sums(_in_sums(ledger, alone, promised, alone=not told.record))
        opened = (e for each in conspiring for e in _in_sums(ledger, each, promised))
        found = found.with_coalitions(opened, who=who)
    leading, reasons, noised = found.leading, list(found.reasons), found.noised
    word, why, against = SCALE[leading.level].name, leading.says, leading.against
    brief = leading.brief or why
    if doubt and word != "none":
        word, why, brief, reasons, against = "unknown", doubt, doubt, [], ""
    else:
        reasons += _on_conspiring(ledger, conspiring, withstands, against, noised)
    reasons += _lesser_members(apart)
    reasons = [
        *_excess_sentences(checks, least=bool(doubt), sums=math.isfinite(told.record)),
        *reasons,
    ]
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
        crowd=found.crowd,
        against=against,
        withstands=withstands,
    )


class _Exposure(NamedTuple):
    """A way in which something about a person is revealed.

    Args:
        level: the step on the scale.
        says: a sentence on it, without its full stop.
        observer: the observer that learns it.
        least: the amount revealed, comparable within one kind; 0 if nothing is revealed.
        crowd: the fewest parties in an exact sum.
        noised: the loss from a sum with coins.
        against: the coalition that learns it; empty for the aggregator and services.
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


class _Found(NamedTuple):
    """The worst exposure so far, sentences on the others, and the figures of the verdict."""

    leading: _Exposure
    reasons: tuple[str, ...] = ()
    crowd: int | None = None
    noised: Cost | None = None

    @classmethod
    def by_loss(cls, told: Loss, *, who: str, least: bool) -> _Found:
        """Exposure by messages about one person; with ``least``, more may have been revealed."""
        says, brief = (_by_loss(told, least=least, who=who, brief=brief) for brief in (False, True))
        return cls(_Exposure(scale_step(told.record), says, who, least=told.record, brief=brief))

    def with_sums(self, exposures: Iterable[_Exposure]) -> _Found:
        """Add exposures to the same observer by sums."""
        leading, reasons = self.leading, list(self.reasons)
        crowd, noised = self.crowd, self.noised
        for each in exposures:
            above = each.level > leading.level or not leading.least
            leading, other = (each, leading) if above else (leading, each)
            reasons += [f"{upper(other.says)}."] if other.least else []
            crowd = each.crowd if crowd is None else crowd
            noised = each.noised if noised is None else noised
        return _Found(leading, tuple(reasons), crowd, noised)

    def with_coalitions(self, exposures: Iterable[_Exposure], *, who: str) -> _Found:
        """Add exposures to coalitions; the worst one leads if it is worse than that to ``who``."""
        alone = self.leading
        worst = max(exposures, key=lambda each: (each.level, each.least), default=alone)
        if worst.level <= alone.level:
            return self
        word = SCALE[alone.level].name
        return _Found(
            worst,
            (f"Against {who} alone: {word}. {upper(alone.says)}.", *self.reasons),
            worst.crowd or self.crowd,
            worst.noised or self.noised,
        )


def _in_sums(
    ledger: Ledger, found: CoalitionFinding, promised: int | None, *, alone: bool | None = None
) -> Iterator[_Exposure]:
    """Exposure by sums, exact or with coins.

    Args:
        ledger: the ledger of the aggregator and all services.
        found: the knowledge of the aggregator or of a coalition.
        promised: as in ``on_privacy``.
        alone: for the aggregator, whether nothing but sums is revealed; None for a coalition.
    """
    observer, against, who = collector(ledger), "", "the aggregator"
    crowd, coins = _crowd(ledger, found), _has_coins(ledger)
    if alone is None and (crowd is not None or coins):
        # Imported late: most surveys need neither sums nor coalitions.
        from scenarios.wording.withstanding import coalition_name, together

        observer, against, who = coalition_name(found.coalition), together(found.coalition), "they"
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
        from scenarios.statement.audits.noised import noised_by, noised_sentence

        noised = noised_by(ledger if alone is not None else found.ledger, promised)
        if noised is not None:
            says = noised_sentence(noised, who if against else observer)
            level = scale_step(noised.epsilon)
            yield _Exposure(level, says, observer, noised.epsilon, noised=noised, against=against)


def _on_conspiring(
    ledger: Ledger,
    conspiring: Sequence[CoalitionFinding],
    withstands: Withstood | None,
    against: str,
    noised: Cost | None,
) -> Iterator[str]:
    """Sentences on the coalitions that the sum withstands, and on the requested ones."""
    if not conspiring and withstands is None:
        return
    from scenarios.wording.withstanding import conspiracy_sentences, together

    if withstands is not None:
        yield conspiracy_sentences(withstands)[0]
        if noised is not None:
            from scenarios.statement.audits.noised import noised_by, noised_sentence

            least = noised_by(ledger, withstands.honest)
            if least is not None and least.honest not in ((1,), noised.honest):
                yield f"{upper(noised_sentence(least, 'they'))}."
    others = dict.fromkeys(together(each.coalition) for each in conspiring)
    yield from (f"It is no lower against {each}." for each in others if each != against)


def _lead(word: Protection, against: str) -> str:
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
    """The largest loss of a respondent outside exact sums."""
    return _largest_loss(ledger, beside_sums=True)


def scale_step(loss: float) -> int:
    """Step of the scale for a loss in nats, 0 for the best."""
    return next(i for i, step in enumerate(SCALE) if loss <= math.log(step.odds) * (1 + _SAME))


def level_of_crowd(crowd: int) -> int:
    """Step of the scale for the number of parties in an exact sum; never the best."""
    return next(i for i, step in enumerate(SCALE) if crowd >= step.crowd)


def _crowd(ledger: Ledger, alone: CoalitionFinding | None) -> int | None:
    """The fewest parties in an exact sum that the aggregator knows, or may know."""
    if alone is None or not has_exact_sums(ledger):
        return None
    sizes = [] if alone.smallest is None else [alone.smallest]
    if alone.pairs:
        sizes.append(2)
    if not alone.searched:
        # Sums over one or two parties are found without a search.
        sizes.append(_UNSEARCHED)
    return min(sizes, default=None)


def _doubt(ledger: Ledger, alone: CoalitionFinding | None, *conspiring: CoalitionFinding) -> str:
    """Reason why more may have been revealed than was found; empty if there is none."""
    accounts = ledger.everybody.values()
    if alone is None or not any(
        tells(c.event, ExactCounts, Coins) for a in accounts for c in a.trail
    ):
        return ""
    if not all(each.whole for each in (alone, *conspiring)):
        return "not all sums on record could be judged"
    # A party's consent bounds its loss by sums and other messages together.
    if any(math.isinf(account.loss.record) for account in ledger.unsigned.values()):
        return "what parties without a signature revealed beside sums is not known"
    return ""


def _largest_loss(ledger: Ledger, *, beside_sums: bool) -> Loss:
    """The largest loss of a respondent, including those of unsigned parties.

    Args:
        beside_sums: leave out contributions that a known exact sum hides.
    """
    accounts = ledger.everybody.values()
    found = _beside_sums(ledger) if beside_sums else (account.loss for account in accounts)
    return maximum([*{id(loss): loss for loss in found}.values()])


def _beside_sums(ledger: Ledger) -> Iterator[Loss]:
    """Losses of each party outside exact sums.

    An unsigned party counts with its consented limit if that is finite, or else with its messages
    on record, which may be incomplete.
    """
    accountant = PureAccountant()
    # Parties that did the same share their events, so most surveys have few distinct trails.
    known: dict[tuple[int, ...], Loss] = {}
    for name, account in ledger.everybody.items():
        exact = any(charge.summed and tells(charge.event, *_COUNTS) for charge in account.trail)
        if not exact or (name in ledger.unsigned and math.isfinite(account.loss.record)):
            yield account.loss
            continue
        key = tuple(id(charge.event) for charge in account.trail)
        if key not in known:
            known[key] = total(
                accountant.judge(replaced(charge.event, _visible_part)) for charge in account.trail
            )
        yield known[key]


def _visible_part(event: PrivacyEvent) -> PrivacyEvent:
    """Event of a contribution, without what the sum hides."""
    if isinstance(event, Masked | Merged) and isinstance(event.event, ExactCounts | Coins):
        return Public()
    return event


def collector(ledger: Ledger) -> str:
    """The aggregator and the services, in words."""
    if ledger.observer == AGGREGATOR:
        return _ALONE
    from scenarios.wording.withstanding import together

    return together(Coalition(tuple(map(PartyId, ledger.observer.split(", ")))))


def _lesser_members(ledgers: Iterable[Ledger]) -> Iterator[str]:
    """Sentence on members of the coalition that learn less by themselves."""
    alone = [each for each in ledgers if ", " not in each.observer and each.honest > 1]
    if alone:
        names = some([cut(each.observer) for each in alone], len(alone), 4)
        crowd = min(each.honest for each in alone)
        yield (
            f"If the others keep to the protocol, each of these learns by itself no more than sums "
            f"or reports in random order, of at least {crowd} honest parties: {names}."
        )


def _by_loss(told: Loss, *, least: bool, who: str, brief: bool = False) -> str:
    """Conclusion from the messages about one person; with ``brief``, without the odds."""
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
        alone: whether nothing else is revealed about a person.
        who: the observer.
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
    """Largest posterior probability of a 50:50 guess at a loss in nats, rounded up."""
    doubt = 100 / (1 + math.exp(loss))
    digits = max(0, math.ceil(-math.log10(doubt)) if doubt < 1 else 0)
    step = 10.0**-digits
    return f"{100 - step * math.floor(doubt / step + 1e-9):.{digits}f} %"


def _of_an_answer(told: Loss) -> str:
    """Sentence on the loss of a single answer, if it is smaller."""
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


def _excess_sentences(checks: Iterable[ClaimCheck], *, least: bool, sums: bool) -> Iterator[str]:
    """A sentence for each claim that the record exceeds.

    Args:
        least: whether more may have been revealed.
        sums: whether only exact sums are unbounded.
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
    """Check whether the record exceeds a claim."""
    if check.claim.epsilon is None:
        return math.isinf(check.record)
    return check.factor is not None and check.factor > 1 + _SAME
