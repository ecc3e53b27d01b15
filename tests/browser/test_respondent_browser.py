"""The page of a respondent in a real browser: true and forged receipts, and axe finds nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.receipts import Receipt, encode_receipt, receipt_problems
from scenarios.report.page.respondent import respondent_page
from tests.browser.opened import DESK, PHONE, Opened, needs_chromium
from tests.protocol.transcript.test_acknowledgements import acknowledged, made_of
from tests.recorded.late import LIES as LATE_LIES
from tests.recorded.late import LOG, given, named
from tests.recorded.late import made as late
from tests.recorded.receipts import forged, receipt_of
from tests.recorded.signed import (
    ONE,
    TWO,
    changed_report,
    finished_run,
    rewritten,
    setting,
    signed_run,
)
from tests.tiers import slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = needs_chromium
COUNTED, LATE, NOT_YET_KNOWN = "Yes: it was counted", "No: it came too late", "Not yet known"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("respondent") / "page.html"
    path.write_text(respondent_page(), encoding="utf-8")
    return path


@pytest.fixture
def opened(tab: Page, file: Path) -> Iterator[Opened]:
    found = Opened(tab, file, width=DESK)
    yield found
    # Nothing is fetched, nothing goes wrong.
    assert found.complaints == []
    assert found.asked == [file.as_uri()]
    found.close()


def give(opened: Opened, receipt: bytes, checkpoint: bytes) -> str:
    """Choose both files; the answer's title."""
    for name, content in (("receipt", receipt), ("checkpoint", checkpoint)):
        given = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
        opened.page.evaluate("document.getElementById('answer').replaceChildren()")
        opened.page.set_input_files(f"#{name}", [given])
        opened.page.wait_for_selector("#answer h2")
    return opened.page.inner_text("#answer h2")


def judged(opened: Opened, receipt: Receipt, checkpoint: SignedCheckpoint) -> list[str]:
    """What the page says against a receipt."""
    title = give(opened, encode_receipt(receipt), checkpoint.note.encode())
    if title in (COUNTED, LATE, NOT_YET_KNOWN):
        return []
    assert title == "The receipt does not hold"
    return opened.page.locator("#answer li").all_inner_texts()


def test_a_true_receipt_holds(opened: Opened) -> None:
    run = signed_run()
    assert judged(opened, receipt_of(run), run.checkpoint) == []
    assert opened.page.inner_text("#answer h2") == COUNTED
    said = opened.page.inner_text("#answer")
    assert "these messages of party-1 were counted: Report." in said
    assert f"signed with its own key {setting().charter.roster.key('party-1').hex()}" in said
    assert f"the first {run.checkpoint.size} entries of the record" in said
    assert "That a result was published" in said
    key = run.checkpoint.key.hex()
    assert f"signed with the key {key}. Compare it" in said
    opened.page.fill("#key", key.upper())
    opened.page.press("#key", "Tab")
    opened.page.wait_for_selector("text=signed with the aggregator's key that you gave")
    opened.page.fill("#key", "00" * 32)
    opened.page.press("#key", "Tab")
    opened.page.wait_for_selector("text=signed with another key than the aggregator's")


def test_an_acknowledgement_says_what_it_shows_and_what_not(opened: Opened) -> None:
    made, checkpoint = made_of(ONE, acknowledged(5).given[ONE])
    assert judged(opened, made, checkpoint) == []
    assert opened.page.inner_text("#answer h2") == NOT_YET_KNOWN
    said = opened.page.inner_text("#answer")
    assert "party-1's signed summary of everything it sent" in said
    assert "Whether 1 more of its reports were counted." in said
    assert "these messages of party-1 were counted" not in said
    assert made.head is not None
    head = msgspec.structs.replace(made.head, said=bytes(32))
    other = msgspec.structs.replace(made, head=head)
    assert judged(opened, other, checkpoint) == list(receipt_problems(other, checkpoint)) != []


def test_a_late_note_says_that_the_report_was_not_counted(opened: Opened) -> None:
    receipt, checkpoint = late(given(LOG, named()))
    assert judged(opened, receipt, checkpoint) == []
    assert opened.page.inner_text("#answer h2") == LATE
    said = opened.page.inner_text("#answer")
    assert "came after the wait for them was over: Report." in said
    assert "When your message left your device" in said
    # All of them are tested without a browser, by the page's script.
    for lie, _ in [*LATE_LIES.values()][::4]:
        assert judged(opened, *late(lie)) == list(receipt_problems(*late(lie))) != []


def test_a_receipt_without_a_signature_says_so(opened: Opened) -> None:
    run = finished_run(setting(), unsigned=("party-1",))
    assert judged(opened, receipt_of(run), run.checkpoint) == []
    assert "is not signed with its own key" in opened.page.inner_text("#answer")


def test_forged_receipts_do_not_hold(opened: Opened) -> None:
    """The page finds in each what the program finds; all are tested without a browser, too."""
    run = signed_run()
    cases = [(other, run.checkpoint) for other in forged(receipt_of(run))]
    cases.append((receipt_of(run), rewritten(run, changed_report(TWO, head=False)).checkpoint))
    for receipt, checkpoint in cases:
        expected = list(receipt_problems(receipt, checkpoint))
        assert expected
        assert judged(opened, receipt, checkpoint) == expected


def test_a_checkpoint_that_nobody_has_signed(opened: Opened) -> None:
    run = signed_run()
    note = run.checkpoint.note
    line = note.splitlines()[-1]
    name, _, signature = line.rpartition(" ")
    broken = bytearray(base64.b64decode(signature))
    broken[-1] ^= 1
    unsigned = note.replace(line, f"{name} {base64.b64encode(broken).decode()}")
    assert give(opened, encode_receipt(receipt_of(run)), unsigned.encode()) == (
        "The receipt does not hold"
    )
    assert "is not signed by the key in it" in opened.page.inner_text("#answer")


def test_files_that_are_something_else(opened: Opened) -> None:
    run = signed_run()
    receipt, note = encode_receipt(receipt_of(run)), run.checkpoint.note.encode()
    for content in (b"", b"nothing", b"sottovoce receipt 4\n\x91", b"\xff" * 99):
        assert give(opened, content, note) == "This is not a receipt"
        assert give(opened, receipt, content) == "This is not a checkpoint"
    assert give(opened, receipt, note) == COUNTED


def test_both_files_can_be_dropped(opened: Opened) -> None:
    run = signed_run()
    contents = [run.checkpoint.note.encode(), encode_receipt(receipt_of(run))]
    opened.page.evaluate(
        """contents => {
            const files = new DataTransfer();
            for (const content of contents) {
                const bytes = Uint8Array.from(atob(content), c => c.charCodeAt(0));
                files.items.add(new File([bytes], 'x'));
            }
            document.dispatchEvent(new DragEvent('drop', { dataTransfer: files }));
        }""",
        [base64.b64encode(content).decode() for content in contents],
    )
    opened.page.wait_for_selector(f"text={COUNTED}")


@pytest.mark.parametrize(("scheme", "width"), [slow("light", DESK), ("dark", PHONE)])
def test_axe_finds_nothing(tab: Page, file: Path, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened, run = Opened(tab, file, width=width, scheme=scheme), signed_run()
    note = run.checkpoint.note.encode()
    for receipt in (None, receipt_of(run), forged(receipt_of(run))[0]):
        if receipt is not None:
            give(opened, encode_receipt(receipt), note)
        found = Axe().run(opened.page)
        assert found.violations_count == 0, found.generate_report()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    opened.close()
