"""The threat model: each sentence names tests that exist, or says that it is an assumption."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parties.keeping.remembered import HEARD
from protocol import SecureSum
from protocol.session.exchange import STRANGERS
from protocol.session.inbox import KEPT
from protocol.session.roles import EARLY_PER_SENDER
from protocol.session.terms import MOST_ATTEMPTS
from protocol.sharing.graph import COMPLETE, MANY
from protocol.sharing.sums import MAX_LITERAL
from protocol.variants import BUILT_IN
from protocol.wire.codec import ENVELOPE_BYTES
from scenarios.files.budget import BYTES_PER_BYTE, BYTES_PER_SECOND, MEGABYTES, SECONDS, SMALL
from scenarios.surveys.holding.waiting import GRAIN
from tests.tiers import thinned
from transports.handshake import MAX_BYTES
from transports.web import failures
from transports.web.gateway import LIMITS

ROOT = Path(__file__).parents[1]
PAGES = (
    "docs/threat-model.md",
    *sorted(f"docs/threats/{p.name}" for p in ROOT.glob("docs/threats/*.md")),
)
UNSHOWN = "*Definitions and assumptions: no test shows them.*"
"""At the head of a section whose sentences need no footnotes."""

ASSUMED = "A definition, an assumption or a limit: no test shows it."
"""The footnote of a single sentence that no test shows."""

_NOTE = re.compile(r"^\[\^([\w-]+)\]: (.*)$", re.MULTILINE)
_MARK = re.compile(r"\[\^([\w-]+)\]")
_SECTION = re.compile(r"^## ", re.MULTILINE)
_ENDING = re.compile(r"(?<=[.!?])((?:\*\*|\)|\[\^[\w-]+\])*)\s+(?=[^a-z])")
_FILE = re.compile(r"\[([\w/]+)\]\(((?:\.\./)+tests/[\w/]+\.py)\): ((?:`\w+`(?:, )?)+)(?:; )?")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def parts_of(text: str) -> Iterator[tuple[str, str]]:
    """The sections of a page by their titles; the first has none."""
    for part in _SECTION.split(f"\n{text}"):
        title, _, content = part.partition("\n")
        yield title, content


def triangle_notes(text: str) -> dict[str, str]:
    """Footnotes, by name."""
    found = _NOTE.findall(text)
    assert len(dict(found)) == len(found), "a footnote is defined twice"
    return dict(found)


def blocks_of(section: str) -> Iterator[str]:
    """Paragraphs, items of lists and rows of tables, without headings and heads of tables."""
    for part in re.split(r"\n\s*\n", section):
        lines = [line for line in part.strip().splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith("| "):
            yield from lines[2:]
            continue
        text = ""
        for line in lines:
            if line.startswith("- ") and text:
                yield text
                text = ""
            text += f"{line} "
        if text.strip():
            yield text


def sentences_of(block: str) -> list[str]:
    """The sentences of a block; a row is one, and what leads to a list is none."""
    if block.startswith("| "):
        return [block]
    plain = re.sub(r"`[^`]*`", "code", block.strip().removeprefix("- "))
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    plain = re.sub(r"^\*\*[^*]+\.\*\* ", "", plain)
    parts = _ENDING.sub(r"\1\n", plain).splitlines()
    return parts[:-1] if parts[-1].endswith(":") else parts


def unfounded(text: str) -> list[str]:
    """The sentences of a page without a footnote where they end."""
    _, *sections = _SECTION.split(_NOTE.sub("", text))
    return [
        sentence
        for section in sections
        if UNSHOWN not in section
        for block in blocks_of("## " + section)
        for sentence in sentences_of(block)
        if not (_MARK.search(sentence) if block.startswith("| ") else founded(sentence))
    ]


def founded(sentence: str) -> bool:
    return re.search(r"\[\^[\w-]+\]\W*$", sentence) is not None


@functools.cache
def named_tests(path: Path) -> frozenset[str]:
    """The test functions of a module, those of classes and those that are assigned included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(name for name in found if name.startswith("test_"))


def faults_of(page: str, note: str) -> list[str]:
    """What is wrong with a footnote."""
    if note == ASSUMED:
        return []
    if not re.fullmatch(rf"(?:{_FILE.pattern})+\.", note):
        return [f"expected '[FILE](PATH): `TEST`, ...; ....', not {note!r}"]
    faults = []
    for name, link, tests in _FILE.findall(note):
        path = ((ROOT / page).parent / link).resolve()
        if path != ROOT / "tests" / f"{name}.py" or not path.is_file():
            faults.append(f"{name} is not at {link}")
            continue
        missing = set(re.findall(r"\w+", tests)) - named_tests(path)
        faults += [f"{name} has no {test}" for test in sorted(missing)]
    return faults


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_has_a_footnote(page: str) -> None:
    assert unfounded(text_of(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_footnotes_are_used_and_exist(page: str) -> None:
    text = text_of(page)
    assert set(_MARK.findall(_NOTE.sub("", text))) == triangle_notes(text).keys()


@pytest.mark.parametrize("page", thinned(PAGES, 5))
def test_footnotes_name_tests_that_exist(page: str) -> None:
    notes = triangle_notes(text_of(page))
    faults = {name: faults_of(page, note) for name, note in notes.items()}
    assert {name: found for name, found in faults.items() if found} == {}
    assert notes.get("assumed", ASSUMED) == ASSUMED
    assert list(notes.values()).count(ASSUMED) <= 1


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("docs/threat-model.md", "What differs by variant"),
        ("docs/threats/reports.md docs/threats/sums.md", ""),
    ],
)
def test_every_variant_has_a_row(page: str, part: str) -> None:
    """In the overview, and in the table at the head of the page of its family."""
    parts = [dict(parts_of(text_of(name)))[part] for name in page.split()]
    first = [block.split(" | ")[0] for each in parts for block in blocks_of(each)]
    named = [
        name for cell in first if cell.startswith("|") for name in re.findall(r"`(.+?)`", cell)
    ]
    assert sorted(named) == sorted(BUILT_IN)


def test_faults_are_found() -> None:
    text = """## A
It is so.[^a] Who knows (`x.y`)? It is [so](b.md#c. D).[^a]

Things are:

- **So.** One thing.[^a]
- Other things. And
  that.[^a][^b]

| a | b |
|---|---|
| c | d |
| c | d[^a] |

## B

*Definitions and assumptions: no test shows them.*

They are.

[^a]: x
"""
    assert unfounded(text) == ["Who knows (code)?", "Other things.", "| c | d |"]
    page = "docs/threat-model.md"
    good = "[test_threats](../tests/test_threats.py): `test_faults_are_found`"
    assert faults_of(page, f"{good}.") == faults_of(page, f"{good}; {good}.") == []
    for bad, says in {
        good: "expected",
        f"{good.replace('found', 'lost')}.": "has no test_faults_are_lost",
        f"{good.replace('../tests', '../../tests')}.": "is not at",
        f"{good.replace('[test_threats]', '[test_docs]')}.": "is not at",
        f"{good.replace('threats', 'nothing')}.": "is not at",
        "Shown elsewhere.": "expected",
    }.items():
        [fault] = faults_of(page, bad)
        assert says in fault
    assert "test_reports" in named_tests(ROOT / "tests/protocol/variants/test_rr_ind_joint.py")


def rows_of(page: str, part: str) -> dict[str, list[int]]:
    """The numbers in the rows of a section's tables, by the first cell."""
    found = {}
    for block in blocks_of(dict(parts_of(text_of(page)))[part]):
        if block.startswith("| "):
            first, *rest = _MARK.sub("", block).strip("| ").split(" | ")
            numbers = re.findall(r"\b\d[\d,]*", " ".join(rest))
            found[first] = [int(number.replace(",", "")) for number in numbers]
    return found


def test_neighbours_and_thresholds_are_those_of_the_code() -> None:
    rows = rows_of("docs/threats/sums.md", "How many may conspire")
    sums = SecureSum()
    for n in (3, 9, 12, 24, 100, 255, 1_000, 32_561, 1_000_000):
        degree, found = sums.degree(n), sums.withstands(n)
        colluders = [found.colluders] if n <= 255 else [found.colluders, found.adaptive]
        shown = [degree.neighbours, degree.threshold, found.missing, *colluders, found.honest]
        assert rows[f"{n:,}"] == shown
    rows = rows_of("docs/threats/sums.md", "Who is trusted")
    assert rows["`literal`"] == [MAX_LITERAL]
    assert rows["`sparse`"] == [COMPLETE, MANY, 100 * sums.dropped]
    text = text_of("docs/threats/sums.md")
    assert f"2^-`security` (2^-{sums.security})" in text
    assert f"2^-`correctness` (2^-{sums.correctness})" in text


def test_caps_on_messages_are_those_of_the_code() -> None:
    rows = rows_of("docs/threats/networks.md", "Denial of service")
    assert rows["a frame before the welcome"] == [MAX_BYTES]
    attempts = "attempts at a survey, of each of which a party keeps some files"
    assert rows[attempts] == [MOST_ATTEMPTS]
    heard = "messages that `answer` takes in an attempt, of each of which it keeps a digest"
    assert rows[heard] == [HEARD]
    assert rows["a frame after it"] == [ENVELOPE_BYTES]
    waiting = "messages of one kind and sender that wait for a role that does not await them yet"
    assert rows[waiting] == [EARLY_PER_SENDER]
    assert rows["refused messages kept in full by a role"] == [KEPT]
    assert STRANGERS == 1_000
    assert "the first thousand tries go on record" in text_of("docs/threats/networks.md")


def test_limits_of_pages_are_those_of_the_code() -> None:
    rows = rows_of("docs/threats/pages.md", "Strangers")
    assert [*rows.values()] == [
        [LIMITS.head],
        [LIMITS.body],
        [LIMITS.seconds],
        [LIMITS.connections],
        [LIMITS.each],
        [failures.MOST],
        [failures.EVERY],
        [failures.LONGEST],
        [failures.REMEMBERED],
        [GRAIN],
    ]
    assert f"{failures.REMEMBERED:,} at most" in text_of("docs/threats/pages.md")


def test_budgets_are_those_of_the_code() -> None:
    text = text_of("docs/threats/files.md")
    [line] = [line for line in text.splitlines() if "keep to a budget" in line]
    numbers = [int(n.replace(",", "")) for n in re.findall(r"\b\d[\d,]*", line)]
    beginning = [50, 70]
    assert numbers == [
        *(SECONDS, BYTES_PER_SECOND, MEGABYTES),
        *beginning,
        *(BYTES_PER_BYTE, SMALL >> 20),
    ]
