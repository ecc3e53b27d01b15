"""Page of cards to print, one for each link, with QR codes; it is as secret as the links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from protocol.errors import UsageError
from protocol.surveys.survey import Survey
from protocol.surveys.texts import Texts
from scenarios.errors import install_command
from scenarios.report.page.page import TEMPLATES, environment, hashed
from scenarios.report.page.words import LANGUAGES, direction, words
from scenarios.surveys.enrolment.linking import Link

_QUIET_ZONE = 4


class _Said(NamedTuple):
    """Words of all cards in one language."""

    language: str
    direction: str
    title: Markup
    asks: Markup
    how: str
    alone: str
    until: Markup


def links_page(survey: Survey, links: Sequence[Link], draw: Callable[[str], Markup] | None) -> str:
    """The page as HTML. It allows its own style sheet alone, and fetches nothing.

    Args:
        survey: the survey, with its closing time.
        links: to be handed out, the spare ones last.
        draw: draws the QR code of a text, as from ``qr_codes``; None for cards without codes.
    """
    known = words()["links"]
    style = (TEMPLATES / "links.css").read_text(encoding="utf-8")
    rendered: str = (
        environment()
        .get_template("links.html")
        .render(
            policy=f"default-src 'none'; style-src {hashed(style)}; base-uri 'none'; "
            "form-action 'none'",
            style=Markup(style),
            words=known,
            title=survey.title,
            said=[
                _card_words(survey, texts, coded=draw is not None)
                for texts in survey.texts or (Texts(language="en"),)
            ],
            groups=[
                (known["links"], [link for link in links if not link.spare]),
                (known["spare"], [link for link in links if link.spare]),
            ],
            draw=draw,
        )
    )
    return rendered


def qr_codes() -> Callable[[str], Markup]:
    """Function that draws a text as a QR code: an SVG picture with quiet zone, error level M.

    Raises:
        UsageError: segno is not installed.
    """
    try:
        import segno
    except ImportError as error:
        raise UsageError(
            f"QR codes need segno: {install_command('web')}; or give --no-qr"
        ) from error

    def draw(text: str) -> Markup:
        code = segno.make_qr(text, error="m", boost_error=False)
        # It is a picture of the text, so nothing has to be escaped.
        return Markup(
            code.svg_inline(border=_QUIET_ZONE, omitsize=True, svgclass=None, lineclass=None)
        )

    return draw


def _card_words(survey: Survey, texts: Texts, *, coded: bool) -> _Said:
    main = texts.language.partition("-")[0].lower()
    known = words(main if main in LANGUAGES else "en")["card"]
    closing = survey.closing
    assert closing is not None, "a survey that is answered by pages closes"
    date = Markup('<bdi dir="ltr">{}</bdi>').format(f"{closing:%Y-%m-%d %H:%M} UTC")
    return _Said(
        texts.language,
        direction(texts.language),
        escape(texts.title or survey.title),
        escape(texts.asks),
        known["scan" if coded else "open"],
        known["alone"],
        Markup(known["until"]).format(closing=date),
    )
