"""For a terminal: what verifying found, verdicts and checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType

from scenarios.report.formatting import count
from scenarios.report.statement.of_file import checks_of_file, verdict_of_file
from scenarios.report.statement.parts import WORDS, Check, State, Verdict
from scenarios.report.terminal.plain import plain

if TYPE_CHECKING:
    from protocol.transcript.verification import Verification

_STYLES: dict[State, str] = {"good": "green", "bad": "bold red", "care": "yellow"}
_FAULTS = 50


def verification_report(verification: Verification) -> Iterator[RenderableType]:
    """The verdict on a file, and every fault."""
    word, says = verdict_of_file(verification)
    state: State = "good" if word == "sound" else "bad" if word == "broken" else "open"
    yield from verdict_lines(Verdict(about="Record", word=word, state=state, says=says))
    for fault in verification.faults[:_FAULTS]:
        yield plain(f"fault: {fault}", style="red")
    more = len(verification.faults) - _FAULTS + verification.faults_left_out
    if more > 0:
        yield plain(f"and {more:,} more faults; --json lists them", style="red")
    if verification.digest is not None:
        so_far = "" if verification.read_whole else "so far as it could be read: "
        yield plain(
            f"{so_far}{count(verification.entries, 'entry', 'entries')}, "
            f"{count(verification.messages, 'message')} sent, "
            f"{verification.undelivered:,} of them never delivered"
        )
        about = "" if verification.read_whole else "of what was read "
        yield plain(f"digest {about}{verification.digest.hex()}")
    yield from checks_report(checks_of_file(verification))


def verdict_lines(verdict: Verdict) -> Iterator[RenderableType]:
    """A verdict with its reasons."""
    style = _STYLES.get(verdict.state, "")
    line = plain(f"{verdict.title}: ", style="bold")
    line.append_text(plain(verdict.word, style=f"bold {style}".removeprefix("bold bold")))
    yield line.append_text(plain(f". {verdict.says}", style="not bold default"))
    if verdict.caveat:
        yield plain(f"  {verdict.caveat}", style=_STYLES["care"])
    for reason in verdict.reasons:
        yield plain(f"  {reason}")


def checks_report(checks: Iterable[Check]) -> Iterator[RenderableType]:
    """Every check in a line."""
    for check in checks:
        line = plain(f"  {WORDS[check.state]:<9}", style=_STYLES.get(check.state, ""))
        yield line.append_text(plain(f"{check.about}. {check.says}", style="not bold default"))
