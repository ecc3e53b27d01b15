"""Numbers and names as a page shows them: short, with units, and fit to be read; and as JSON."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from scenarios.errors import printable
from scenarios.streams import escape_surrogates

if TYPE_CHECKING:
    from protocol.transcript.entries import Header

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"

_RAISED = str.maketrans("0123456789", "\u2070\xb9\xb2\xb3\u2074\u2075\u2076\u2077\u2078\u2079")

NAME = 60
"""Maximum number of characters of a name."""


def cut(text: str, length: int = NAME) -> str:
    """A text from an untrusted source, made printable and shortened."""
    # Before escaping, so that a hostile text of a gigabyte costs nothing.
    shown = printable(text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 1].rstrip() + "…"


def epsilon(value: float, *, least: bool = False) -> str:
    """An epsilon in four digits, rounded up, as it is a bound.

    Args:
        least: it is what was learned at least, and rounded down.
    """
    return "∞" if math.isinf(value) else f"{_round(value, 4, least=least):.4g}"


def nats(value: float) -> str:
    """A privacy loss, in nats, to six digits."""
    return "infinite" if math.isinf(value) else f"{value:.6g}"


def _round(value: float, digits: int, *, least: bool = False) -> float:
    """Round a positive number up, or down with ``least``, ignoring float noise."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    steps = value / step
    # A sum of floats that is a billionth above a round number is that number.
    return step * (math.floor(steps + 1e-6) if least else math.ceil(steps - 1e-6))


def count(value: int, one: str, many: str = "") -> str:
    """Count of something: ``count(2, "party", "parties")`` is ``2 parties``."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def respondents_text(n: int, effective: float | None) -> str:
    """Number of respondents of an estimate, and the effective sample size of their weights.

    Args:
        n: the respondents.
        effective: ``Estimate.weighted_n``; None without weights.
    """
    said = count(n, "respondent")
    if effective is None:
        return said
    return f"{said}, weighted (effective sample size {effective:,.0f})"


def others_in(header: Header) -> str:
    """Words for the members other than the aggregator: services, if any, and parties."""
    roles = header.roles or ()
    parties = count(len(header.roster) - 1 - len(roles), "party", "parties")
    return f"{count(len(roles), 'service')} and {parties}" if roles else parties


def moment(seconds: int) -> str:
    """A time, given in seconds since 1970."""
    try:
        return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:,} s after 1970"


def size(octets: int) -> str:
    """A number of bytes, in units of a thousand."""
    if octets < 1000:
        return f"{octets:,} B"
    amount, unit = octets / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if amount >= 999.5:
            amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def odds(loss: float) -> str:
    """The factor by which an observer's odds can change at a loss in nats."""
    if math.isinf(loss) or loss > 700:
        return "any factor"
    factor = _round(math.exp(loss), 3)
    if factor < 1e6:
        return f"a factor of {factor:,.0f}" if factor >= 100 else f"a factor of {factor:.3g}"
    power = math.floor(math.log10(factor * (1 + 1e-9)))
    return f"a factor of {factor / 10**power:.3g} {TIMES} 10{str(power).translate(_RAISED)}"


def ratio(value: float | None) -> str:
    """A factor between two figures; empty if unknown."""
    if value is None or math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞"
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def signed(value: float, digits: int = 2) -> str:
    """A number with so many decimals and a true minus sign; a dash if unknown."""
    if not math.isfinite(value):
        return NONE
    shown = f"{value:.{digits}f}"
    if float(shown) == 0:
        shown = shown.removeprefix("-")
    return shown.replace("-", MINUS)


def percent(value: float) -> str:
    """A proportion in percent."""
    return f"{signed(100 * value, 1)} %" if math.isfinite(value) else NONE


def upper(text: str) -> str:
    """A text with a capital first letter."""
    return text[:1].upper() + text[1:]


def some(names: Iterable[str], total: int, at_most: int = 5, what: str = "") -> str:
    """The first names, with the number of others.

    Args:
        names: the names; those beyond ``at_most`` are ignored.
        total: number of names in all.
        at_most: maximum number of listed names.
        what: word for the others.
    """
    listed = [name for name, _ in zip(names, range(at_most), strict=False)]
    return " ".join(filter(None, (", ".join(listed), rest(total, len(listed), what))))


def rest(total: int, shown: int, what: str = "") -> str:
    """Number of things that a list does not show, in words; empty if it shows all."""
    return f"and {total - shown:,} more {what}".rstrip() if total > shown else ""


def as_json(values: object) -> Any:
    """Values for JSON: null for infinite numbers and NaN; structs and arrays as plain values.

    Bytes of a path that are not text become escapes: no reader of JSON has to take lone surrogates.
    """
    try:
        encoded = msgspec.json.encode(values, enc_hook=_plain)
    except UnicodeEncodeError:
        built = msgspec.to_builtins(values, str_keys=True, enc_hook=_plain)
        encoded = msgspec.json.encode(_encodable(built))
    return msgspec.json.decode(encoded)


def _encodable(values: Any) -> Any:
    if isinstance(values, str):
        return escape_surrogates(values)
    if isinstance(values, Mapping):
        return {_encodable(key): _encodable(value) for key, value in values.items()}
    return [*map(_encodable, values)] if isinstance(values, Sequence) else values


def _plain(value: Any) -> object:
    """Plain value of NumPy numbers, arrays and mappings, which msgspec does not know."""
    return dict(value) if isinstance(value, Mapping) else value.tolist()
