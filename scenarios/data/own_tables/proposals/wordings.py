"""Words that reveal the kind of a column or of its answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from scenarios.data.own_tables.question import normalize

_SCALES = (
    "never; almost never; very rarely; rarely; seldom; occasionally; sometimes; often; frequently; "
    "usually; very often; mostly; almost always; always",
    "never; less than monthly; yearly; monthly; weekly; several times a week; daily",
    "very bad; bad; poor; fair; average; satisfactory; good; very good; excellent",
    "very poor; poor; fair; good; very good; excellent",
    "very low; low; medium; moderate; high; very high",
    "none; very mild; mild; moderate; severe; very severe",
    "very small; small; medium; large; very large",
    "worse; the same; same; better",
    "very unlikely; unlikely; neutral; neither; likely; very likely",
    "nie; fast nie; sehr selten; selten; gelegentlich; manchmal; teils-teils; oft; häufig; "
    "meistens; sehr oft; sehr häufig; fast immer; immer",
    "nie; jährlich; monatlich; wöchentlich; täglich",
    "sehr schlecht; schlecht; weniger gut; mittel; mittelmäßig; befriedigend; zufriedenstellend; "
    "gut; sehr gut; ausgezeichnet",
    "sehr niedrig; niedrig; mittel; hoch; sehr hoch",
    "sehr gering; gering; mittel; groß; sehr groß",
    "jamais; rarement; parfois; quelquefois; souvent; toujours",
    "no; rather no; undecided; maybe; rather yes; yes",
    "nein; eher nein; unentschieden; vielleicht; eher ja; ja",
)
_POLES = (
    ("strongly disagree", "disagree", "somewhat disagree", "slightly disagree", "agree"),
    ("very dissatisfied", "dissatisfied", "somewhat dissatisfied", "", "satisfied"),
    ("very unimportant", "unimportant", "somewhat unimportant", "", "important"),
    ("very unhappy", "unhappy", "rather unhappy", "", "happy"),
    ("very unsafe", "unsafe", "rather unsafe", "", "safe"),
)
_GERMAN = (
    "stimme überhaupt nicht zu; stimme gar nicht zu; stimme nicht zu; stimme eher nicht zu; "
    "teils teils; teils/teils; weder noch; neutral; stimme eher zu; stimme zu; stimme voll zu; "
    "stimme voll und ganz zu",
    "trifft überhaupt nicht zu; trifft gar nicht zu; trifft nicht zu; trifft eher nicht zu; "
    "teils teils; teils/teils; neutral; trifft eher zu; trifft zu; trifft voll zu; "
    "trifft voll und ganz zu",
    "sehr unzufrieden; unzufrieden; eher unzufrieden; teils teils; teils/teils; neutral; "
    "eher zufrieden; zufrieden; sehr zufrieden",
)


def _two_sided_scale(pole: Sequence[str]) -> str:
    """A scale from one pole to its opposite, with degrees of both."""
    most, low, some, slight, high = pole
    degrees = [degree.replace(low, high) for degree in (slight, some, most) if degree]
    middle = ["neutral", "neither", "undecided", f"neither {high} nor {low}"]
    return "; ".join(
        filter(None, (most, low, some, slight, *middle, *degrees[:-1], high, degrees[-1]))
    )


_PLACES = tuple(
    {normalize(answer): place for place, answer in enumerate(scale.split(";"))}
    for scale in (*_SCALES, *map(_two_sided_scale, _POLES), *_GERMAN)
)

_WHO = re.compile(
    r"(?i)(?:.*[^a-zäöüß])?(e-?mail|mail|phone|telephone|telefon|tel|mobile|handy|fax|iban|ssn|passport|name|"
    r"surname|lastname|firstname|vorname|nachname|address|adresse|anschrift|street|strasse|straße|"
    r"ip|postcode|postal ?code|post ?code|zip ?code|zip|plz|postleitzahl|id|uuid|token|respondent|"
    r"nr|no|number|nummer|user|username|kennung|personal ?code)(?:[^a-zäöüß].*)?"
)
_CELLS = {
    "e-mail addresses": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "web addresses": re.compile(r"(?:https?://|www\.)\S+"),
    "network addresses": re.compile(
        r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7}"
    ),
    "telephone numbers": re.compile(r"(?:\+|00?|\()[0-9][0-9 ()/.-]{5,}[0-9]"),
}
_NO_ANSWER = re.compile(
    "(?:i)?(?:don['\u2019]?t|donot)know|dk|refus(?:ed|al)|prefernotto(?:say|answer)|noanswer|noopinion|"
    "missing|weiss(?:ich)?nicht|keineangabe|k\\.?a\\.|verweigert"
)
_HALF = 0.5
_LONGEST = 254
_WORDS = 3


def ordered_scale(answers: Sequence[str]) -> list[str] | None:
    """Answers of an ordered scale, in order; None if no order is known.

    Known are the usual wordings, and answers that begin with numbers, such as ``25 to 34``.
    """
    if len(answers) < 3:
        return None
    keys = {answer: normalize(answer) for answer in answers}
    for places in _PLACES:
        if all(key in places for key in keys.values()):
            return sorted(answers, key=lambda answer: places[keys[answer]])
    numbers = {answer: re.match(r"[<>≥≤]?\s*([0-9]{1,9})\b", answer) for answer in answers}
    begins = {answer: int(found[1]) for answer, found in numbers.items() if found is not None}
    # Here, digits have a leading 0: they are codes, such as postcodes.
    if len({*begins.values()}) == len(answers) == len(begins) and not all(
        map(str.isdigit, answers)
    ):
        return sorted(answers, key=begins.__getitem__)
    return None


def no_answers(answers: Sequence[str]) -> list[str]:
    """The answers that people choose in place of one, such as ``don't know``."""
    return [answer for answer in answers if _NO_ANSWER.fullmatch(normalize(answer))]


def tells_who(name: str) -> bool:
    """Check whether a column's name suggests that it identifies people."""
    return _WHO.fullmatch(name.replace("_", " ")) is not None


def identifying(counts: Mapping[str, int]) -> str | None:
    """The kind of identifier in most cells; None for other cells."""
    total = sum(counts.values())
    for what, pattern in _CELLS.items():
        # Longer cells are not addresses, and could slow down the pattern.
        times = sum(
            rows
            for cell, rows in counts.items()
            if len(cell) <= _LONGEST and pattern.fullmatch(cell)
        )
        if times > _HALF * total and len(counts) > 1:
            return what
    return None


def is_free_text(counts: Mapping[str, int]) -> bool:
    """Return whether cells are sentences: several words each."""
    total = sum(counts.values())
    return sum(rows * len(cell.split()) for cell, rows in counts.items()) >= _WORDS * total
