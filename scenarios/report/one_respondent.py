"""Picture of one respondent: her answers, her report, and the conclusions from all reports.

All figures are those of the record, apart from the answers, which come from a file of records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from protocol.audit.audit import Source
from protocol.estimators.conclusions import Conclusion
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.tables import Table
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Attribute
from scenarios.report.page.svg import element, picture, text
from scenarios.wording.formatting import count, epsilon, odds

WIDTH = 1000.0

_STYLE = """
svg {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
}
.sheet { fill: #ffffff; }
text { fill: #16191d; font-size: 13px; }
.soft { fill: #545c66; }
.head { font-size: 21px; }
.step { font-weight: 600; font-size: 14px; }
.small { font-size: 11.5px; }
.said { font-weight: 600; font-size: 15px; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
.rule, .grid { stroke: #dde1e6; }
.before { fill: #b9c1ca; }
.after, .dot { fill: #0072b2; }
.whisker { stroke: #0072b2; stroke-width: 2.5; }
.truth { stroke: #d55e00; stroke-width: 2.5; }
.arrow { fill: none; stroke: #545c66; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  .sheet { fill: #171b20; }
  text { fill: #e8ebee; }
  .soft { fill: #a5aeb9; }
  .rule, .grid { stroke: #2c333b; }
  .before { fill: #545c66; }
  .after, .dot { fill: #56b4e9; }
  .whisker { stroke: #56b4e9; }
  .truth { stroke: #ff9a3c; }
  .arrow { stroke: #a5aeb9; }
}
"""

_ANSWERED, _SENT, _BELIEVED, _ESTIMATED = 24.0, 188.0, 382.0, 726.0
"""Left ends of the columns."""

_BARS, _BAR = 482.0, 130.0
_SCALE, _END = 726.0, 976.0
_ROW, _GAP, _TOP = 20.0, 34.0, 150.0
"""Places of the bars and of the scale of shares, and the height of rows."""


class Sent(NamedTuple):
    """Report on an attribute, with its probability of being the answer.

    Args:
        category: the reported category.
        kept: the probability that the report is the answer, whatever that is; None if it is not
            the same for all answers.
    """

    category: str
    kept: float | None


class Proof(NamedTuple):
    """Place of the report in the record.

    Args:
        entry: number of the entry.
        hashes: number of hashes in the proof.
    """

    entry: int
    hashes: int


class Respondent(NamedTuple):
    """Content of the picture.

    Args:
        party: the party that sent the report.
        place: which of the party's respondents she is, from 1; 0 if it speaks for one alone.
        respondents: number of respondents in the survey.
        attributes: the survey's attributes.
        sent: the report on each attribute.
        conclusions: conclusions about each attribute.
        tables: the estimated shares of each attribute.
        epsilon: cost of all her reports, in nats.
        together: whether a report on one attribute is taken to tell about the others too.
        source: kind of event on record.
        proof: None of a record without a checkpoint over the report.
        answers: her true answers; empty if they are not at hand.
        truth: the true shares of each attribute; empty if they are not at hand.
    """

    party: str
    place: int
    respondents: int
    attributes: Sequence[Attribute]
    sent: Sequence[Sent]
    conclusions: Sequence[Conclusion]
    tables: Mapping[str, Table]
    epsilon: float
    together: bool
    source: Source
    proof: Proof | None
    answers: Sequence[str] = ()
    truth: Sequence[Floats] = ()


BEGINS = b"<svg "
"""Start of such a file."""


def one_respondent(found: Respondent, intervals: Intervals) -> str:
    """The picture, as an SVG file for light and dark."""
    who = found.party if not found.place else f"respondent {found.place} of {found.party}"
    parts = [
        element("style", Markup(_STYLE)),
        *_head(found, who, intervals),
    ]
    high = _highest(found, intervals)
    y = _TOP
    for place, attribute in enumerate(found.attributes):
        parts.append(element("line", x1=24, x2=WIDTH - 24, y1=y - 22, y2=y - 22, class_="rule"))
        parts += _rows(found, place, attribute, intervals, y, high)
        y += max(2, len(attribute.categories)) * _ROW + _GAP
    parts.append(element("line", x1=24, x2=WIDTH - 24, y1=y - 22, y2=y - 22, class_="rule"))
    for tenth in range(0, round(10 * high) + 1, 2):
        x = _SCALE + (_END - _SCALE) * tenth / (10 * high)
        parts.append(text(x, y - 6, f"{10 * tenth} %", "small soft middle"))
    y += 22
    for line in _foot(found):
        parts.append(text(24, y + 2, line, "soft"))
        y += 20
    size = (WIDTH, y + 4)
    sheet = element("rect", width=size[0], height=size[1], class_="sheet")
    title = f"One respondent of {found.respondents:,}: {who}"
    description = (
        "What she answered, what was sent, what the aggregator can conclude about her, and what "
        "all reports together tell."
    )
    drawn = picture("respondent", title, description, size, [parts[0], sheet, *parts[1:]])
    return f"{drawn}\n".replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def _head(found: Respondent, who: str, intervals: Intervals) -> list[Markup]:
    every = count(found.respondents, "such report")
    shown = [
        text(24, 40, f"One respondent of {found.respondents:,}: {who}", "head"),
        text(_ANSWERED, 84, "1. She answers", "step"),
        text(_ANSWERED, 102, "to herself" if found.answers else "only she knows", "small soft"),
        text(_SENT, 84, "2. This is sent", "step"),
        text(_SENT, 102, "the answer, or one drawn by lot", "small soft"),
        text(_BELIEVED, 84, "3. What the aggregator may conclude", "step"),
        *_key(_BELIEVED, 92, "before", "from the shares of all"),
        *_key(_BELIEVED + 150, 92, "after", "with her report"),
        text(_ESTIMATED, 84, f"4. What {every} tell", "step"),
        text(_ESTIMATED, 102, f"estimate with {intervals.name}", "small soft"),
    ]
    if found.truth:
        shown.append(element("line", x1=_END - 58, x2=_END - 58, y1=92, y2=104, class_="truth"))
        shown.append(text(_END, 102, "the truth", "small soft end"))
    return shown


def _key(x: float, y: float, class_: str, words: str) -> list[Markup]:
    square = element("rect", x=x, y=y, width=10, height=10, class_=class_)
    return [square, text(x + 15, y + 10, words, "small soft")]


def _highest(found: Respondent, intervals: Intervals) -> float:
    """Upper end of the scale that all attributes share."""
    ends = [1 / 10]
    for table in found.tables.values():
        shown = table.interval(*intervals)
        ends += [float(end) for end in (*table.values, *shown.high) if math.isfinite(end)]
    ends += [float(share) for shares in found.truth for share in shares]
    return min(1.0, math.ceil(10 * max(ends)) / 10)


def _rows(
    found: Respondent,
    place: int,
    attribute: Attribute,
    intervals: Intervals,
    y: float,
    high: float,
) -> list[Markup]:
    sent, concluded = found.sent[place], found.conclusions[place]
    table = found.tables[attribute.name]
    shown = table.interval(*intervals)
    middle = y + (max(2, len(attribute.categories)) - 1) * _ROW / 2
    answer = found.answers[place] if found.answers else "?"
    parts = [
        text(_ANSWERED, middle - 10, attribute.name, "small soft", room=120, size=11.5),
        text(_ANSWERED, middle + 8, answer, "said", room=130, size=15),
        element("path", d=f"M{_SENT - 34} {middle + 3}h16m-5 -4l5 4l-5 4", class_="arrow"),
        text(_SENT, middle + 8, sent.category, "said", room=160, size=15),
    ]
    if sent.kept is not None:
        how = f"{_hundredths(sent.kept)} in 100 stay as they are"
        parts.append(text(_SENT, middle - 10, how, "small soft", room=195, size=11.5))
    for code, category in enumerate(attribute.categories):
        line = y + code * _ROW
        parts.append(text(_BARS - 8, line + 4, category, "small end", room=95, size=11.5))
        before, after = float(concluded.before[code]), float(concluded.after[code])
        for share, top, class_ in ((before, line - 7, "before"), (after, line, "after")):
            parts.append(
                element("rect", x=_BARS, y=top, width=_BAR * share, height=6, class_=class_)
            )
        words = f"{_percent(before)} \N{RIGHTWARDS ARROW} {_percent(after)}"
        parts.append(text(_BARS + _BAR * max(before, after) + 8, line + 4, words, "small"))

        def x(share: float) -> float:
            return _SCALE + (_END - _SCALE) * min(max(share, 0.0), high) / high

        parts.append(element("line", x1=_SCALE, x2=_END, y1=line, y2=line, class_="grid"))
        low_end, high_end = float(shown.low[code]), float(shown.high[code])
        if low_end < high_end:
            ends = {"x1": x(low_end), "x2": x(high_end)}
            parts.append(element("line", **ends, y1=line, y2=line, class_="whisker"))
        parts.append(element("circle", cx=x(float(table.values[code])), cy=line, r=4, class_="dot"))
        if found.truth:
            at = x(float(found.truth[place][code]))
            parts.append(element("line", x1=at, x2=at, y1=line - 7, y2=line + 7, class_="truth"))
    return parts


def in_words(found: Respondent) -> list[str]:
    """Describe the picture in words."""
    lines = []
    for attribute, sent, concluded in zip(
        found.attributes, found.sent, found.conclusions, strict=True
    ):
        code = attribute.categories.index(sent.category)
        before, after = float(concluded.before[code]), float(concluded.after[code])
        lines.append(
            f"{attribute.name}: {sent.category} was sent; that this is the answer has a "
            f"probability of {_percent(before)} before and {_percent(after)} after"
        )
    return [*lines, *_foot(found)]


def _hundredths(share: float) -> str:
    return "over 99" if share >= 0.995 else f"{100 * share:.0f}"


def _percent(share: float) -> str:
    """A probability in percent; estimated shares never give exactly 0 or 100."""
    if share >= 0.995:
        return "over 99 %"
    return "under 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _foot(found: Respondent) -> list[str]:
    lines = [
        f"Her privacy: whatever the aggregator knew before, its odds between two sets of answers "
        f"change by {odds(found.epsilon)} at most (epsilon {epsilon(found.epsilon)})."
    ]
    if found.source != "survey":
        lines.append(
            f"That is the design's. This is a {found.source}: whoever holds its seed knows all "
            "answers."
        )
    if found.proof is not None:
        proof = found.proof
        lines.append(
            f"Her receipt: the report is line {proof.entry:,} of the signed record, and "
            f"{count(proof.hashes, 'hash', 'hashes')} prove it."
        )
    apart = "" if found.together else " Attributes that are not randomized together are apart."
    lines.append(
        "Before: the likeliest shares given all reports, hers among them, for somebody who knows "
        f"no more about her. After: by Bayes' rule.{apart}"
    )
    return lines
