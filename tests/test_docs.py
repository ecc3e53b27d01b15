"""The documentation does what it says: its code runs, its commands exist, its links resolve.

A block that follows a comment ``file: NAME`` is written to that file, one that follows a comment
``not run: REASON`` is only looked at. The lines of one that follows ``prints: ...`` are among those
that the block before it prints. All other blocks of a page run in order, in one folder, and their
commands succeed; those after ``exits: CODE`` end with that code.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pytest

from parties.keeping import packing
from protocol.errors import OtherCodeError
from protocol.estimators.analysis import Analysis
from protocol.randomizers import matrix
from protocol.session.terms import MOST_ATTEMPTS
from protocol.surveys import limits
from protocol.testing import check_variant
from protocol.transcript import entries, reader
from protocol.transcript.entries import Header
from protocol.variants.reports.oracle import Tallied
from scenarios import EXECUTORS, Context, Outcome, find_scenario, find_variant, read_plan
from scenarios.cli import COMMANDS, main
from scenarios.report.record_tables import TABLES
from scenarios.report.sql import LOADED_BYTES
from scenarios.statement.runs import run_values
from scenarios.surveys.answering import SILENCE
from scenarios.surveys.endings import ENDINGS
from tests.scenarios.command import command_of
from transports.base import Limits
from transports.dialing import BESIDE
from transports.lasting.hub import KEPT_BYTES
from transports.lasting.link import LAST, LATE, PATIENCE, SOON

ROOT = Path(__file__).parents[1]
PAGES = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for pattern in ("*.md", "docs/**/*.md", "scenarios/**/*.md")
        for path in ROOT.glob(pattern)
    )
)
PLANS, PYTHON, VARIANT = "docs/plans.md", "docs/python.md", "docs/writing-a-variant.md"

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>file|not run|prints|exits): (?P<about>[^>]*) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:protocol|parties|transports|scenarios|tests)/[\w/.-]*)`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ROW = re.compile(r"^\| (.*) \|$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    mark: str
    about: str

    @property
    def runs(self) -> bool:
        return self.mark in ("", "exits")

    @property
    def code(self) -> int:
        """With what its commands end."""
        return int(self.about) if self.mark == "exits" else 0


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    return [
        Block(found["language"], found["text"], found["mark"] or "", found["about"] or "")
        for found in _BLOCK.finditer(text_of(page))
    ]


def prose_of(page: str) -> str:
    return _BLOCK.sub("", text_of(page))


def command_lines(page: str) -> Iterator[tuple[Block, list[str]]]:
    """Every ``sottovoce`` command in a block of shell, as its words."""
    for block in blocks_of(page):
        if block.language == "sh":
            for line in block.text.splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    assert words[0] == "sottovoce", f"{page}: {line}"
                    yield block, words[1:]


def section(page: str, title: str) -> str:
    """What stands under a heading, up to the next one."""
    parts = re.split(r"^#+ (.*)$", text_of(page), flags=re.MULTILINE)
    return parts[parts.index(title) + 1]


def rows_of(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    rows = [re.split(r" \| ", row) for row in _ROW.findall(text)]
    return rows[1:]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def write_files(page: str, folder: Path) -> None:
    """The files that a page shows, and those that stand beside it."""
    for file in (ROOT / page).parent.glob("*.py"):
        shutil.copy(file, folder)
    for block in blocks_of(page):
        if block.mark == "file":
            (folder / block.about).write_text(block.text, encoding="utf-8")


def lines_of(text: str) -> list[str]:
    """Its lines, with one blank where there are some."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


LONG = re.compile(
    "sottovoce (attack|test|run rrba-survey --set project=|run quickstart --level"
    "|audit .*(--worst|--tap|--spot|--replay))"
)
"""Commands that take long."""

LONG_PAGES = {
    PYTHON,
    VARIANT,
    "docs/engines.md",
    "docs/further-estimates.md",
    "docs/people-by-law.md",
    "docs/reproducing.md",
    "docs/results.md",
    "docs/scenarios.md",
    "docs/try-it.md",
    "docs/README.md",
    "docs/examples/own-variant.md",
    "docs/examples/own-table.md",
    "docs/examples/other-shapes.md",
}
"""Pages that take long as a whole. That their commands and options exist is seen every time."""

WALKED = "docs/asking-people.md"
"""A page whose commands wait for people: ``tests/scenarios/test_asking_people.py``."""

RUN = [page for page in PAGES if page != WALKED and any(block.runs for block in blocks_of(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # A page's own files are imported as in a reader's folder.
    monkeypatch.syspath_prepend(tmp_path)
    # The picture is made by a process of its own, which has to find the packages as well.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_pages_are_found() -> None:
    assert {"README.md", PLANS, VARIANT, "docs/threat-model.md", "docs/papers.md"} <= set(PAGES)
    assert blocks_of(VARIANT)[0].about == "warner.py"
    assert not blocks_of("docs/transcript-format.md")[0].language


@pytest.mark.parametrize("page", [page for page in RUN if page not in LONG_PAGES])
def test_blocks_run(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All but what takes long."""
    run_blocks(page, folder, capsys, without=LONG)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        page
        for page in RUN
        if page in LONG_PAGES or any(LONG.match(line) for line in lines_of(text_of(page)))
    ],
)
def test_all_blocks_run(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(page, folder, capsys)


def run_blocks(
    page: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    without: re.Pattern[str] | None = None,
) -> None:
    write_files(page, folder)
    spaces: list[dict[str, Any]] = []
    said: str | None = ""
    for place, block in enumerate(blocks_of(page)):
        if block.mark == "prints" and said is not None:
            printed = lines_of(said)
            for line in lines_of(block.text):
                assert line in printed, f"{page}: {line!r} is not printed, but\n{said}"
        if not block.runs:
            continue
        capsys.readouterr()
        skipped = False
        if block.language == "python":
            space: dict[str, Any] = {"__name__": f"block_{place}"}
            exec(compile(block.text, f"{page}, block {place}", "exec"), space)
            spaces.append(space)
        elif block.language == "sh":
            for line in block.text.splitlines():
                if without is not None and without.match(line):
                    skipped = True
                    continue
                with pytest.raises(SystemExit) as ended:
                    main(shlex.split(line)[1:])
                assert ended.value.code == block.code, f"{line}\n{capsys.readouterr().err}"
        said = None if skipped else "\n".join(capsys.readouterr())
    for space in spaces:
        for name, value in space.items():
            if name.startswith("test_"):
                value()


@pytest.mark.slow
def test_the_respondent_in_the_readme_is_of_the_quickstart(folder: Path) -> None:
    for block in blocks_of("docs/README.md"):
        if block.language == "python":
            exec(compile(block.text, "docs/README.md", "exec"), {})
    for drawn, shown in zip(
        (folder / "respondent.svg").read_text().split("<text"),
        (ROOT / "docs" / "respondent.svg").read_text().split("<text"),
        strict=True,
    ):
        # In which order parties are heard differs from run to run.
        assert drawn == shown or "Her receipt" in shown


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    for _, words in command_lines(page):
        command = command_of(words[0])
        assert command is not None, f"{page}: no command {words[0]!r}"
        known = {name for option in command.params for name in (*option.opts, "--help")}
        used = {word for word in words if word.startswith("--")}
        assert used <= known, f"{page}: {words[0]} has no {used - known}"
    spoken = re.findall(r"`sottovoce ([a-z]+)[^`]*`", text_of(page))
    assert set(spoken) <= COMMANDS.keys(), page


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page: str) -> None:
    for link in _LINK.findall(prose_of(page)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), f"{page}: {link}"
        if anchor:
            headings = _HEADING.findall(path.read_text(encoding="utf-8"))
            assert anchor in map(anchor_of, headings), f"{page}: {link}"


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_make_has_what_the_readme_names() -> None:
    rules = set(re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"^make (\w+)", text_of("README.md"), re.MULTILINE))
    assert named == {"run", "test"} <= rules


def test_every_command_is_shown() -> None:
    assert {words[0] for page in PAGES for _, words in command_lines(page)} == COMMANDS.keys()


def test_options_and_parameters_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the site lists: the options of every command, and the parameters of a scenario."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    listed = import_module("options")
    text = "\n".join(listed.all_commands())
    for name in COMMANDS:
        command = command_of(name)
        assert command is not None
        table = text.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        shown = {option for option in command.params if isinstance(option, click.Option)}
        missing = {o.opts[0] for o in shown if not o.hidden and f"`{o.opts[0]}" not in table}
        assert not missing, name
    rows = [*listed.parameters(["quickstart"])]
    assert any(row.startswith("| `p` | `") for row in rows)


def test_every_key_of_the_result_is_documented(folder: Path) -> None:
    write_files(PYTHON, folder)
    scenario = find_scenario("village.py")
    finished = scenario.run(scenario.configure({}), Context())
    summary = run_values(replace(finished, projection="simplex", extra={}))
    result = {"scenario": scenario.name, "parameters": {}, **summary}
    described = [
        name
        for row in rows_of(section("docs/json.md", "What is in result.json"))
        for name in names_in(row[0])
    ]
    keys = set(keys_of(result))
    assert keys == set(described) - {"privacy.unbounded", "estimate.em"}
    assert len(described) == len(set(described))


def keys_of(result: Mapping[str, Any]) -> Iterator[str]:
    """The keys that the page explains: one level into what has keys of its own."""
    for key, value in result.items():
        if isinstance(value, Mapping) and value and key not in ("parameters", "trouble"):
            yield from (f"{key}.{inner}" for inner in value)
        else:
            yield key


def test_every_column_of_the_tables_is_described() -> None:
    rows = rows_of(section("docs/json.md", "The record as tables"))
    described = {
        (table, names_in(name)[0]): says
        for name, tables, says in rows
        for table in names_in(tables)
    }
    assert described == {
        (table.name, column.name): column.says for table in TABLES for column in table.columns
    }


def test_the_plan_is_one(folder: Path) -> None:
    write_files(PLANS, folder)
    plan = read_plan(folder / "plan.toml")
    variant = plan.variant
    assert (variant.quorum, variant.patience, variant.max_records) == (2, 60.0, 500)
    assert plan.analysis is not None
    assert plan.analysis == Analysis(tables=plan.analysis.tables)
    likings = read_plan(folder / "likings.toml").variant
    assert (likings.name, likings.survey.names) == ("privkv", ("tea",))
    assert (likings.quorum, likings.patience, likings.max_records) == (None, 60.0, 1)


def test_the_limits_are_the_defaults() -> None:
    rows = rows_of(section("docs/threats/networks.md", "Denial of service"))
    stated = [
        int(number.replace(",", "")) for row in rows for number in re.findall(r"^[\d,]+", row[1])
    ]
    limits = Limits()
    assert stated[:13] == [
        limits.handshake,
        limits.frame,
        limits.idle,
        SILENCE,
        limits.envelopes,
        KEPT_BYTES >> 20,
        limits.goodbye,
        limits.stall,
        limits.envelopes,
        MOST_ATTEMPTS,
        limits.mailbox,
        limits.unfinished,
        limits.unfinished_each,
    ]
    real = {row[0]: row[1] for row in rows}
    [alive] = [name for name in real if f"every {limits.alive:g} s" in name]
    assert alive
    [waiting] = [text for text in real.values() if "--waiting" in text]
    bounds = [float(number) for number in re.findall(r"([\d.]+) s", waiting)]
    assert bounds == [PATIENCE, SOON, LATE]
    [last] = [text for name, text in real.items() if "the last try" in name]
    [beside] = [text for name, text in real.items() if "another connection beside" in name]
    assert f"at most {LAST:g} s" in last
    assert f"after {BESIDE:g} s" in beside


def test_the_endings_of_a_party_are_those_of_the_code() -> None:
    rows = rows_of(section("docs/commands.md", "How a party ends"))
    assert [(name, int(code), *rest) for name, code, *rest in rows] == [*map(tuple, ENDINGS)]


def test_the_caps_on_files_are_those_of_the_code() -> None:
    rows = rows_of(section("docs/threats/files.md", "Caps"))
    stated = [[int(n.replace(",", "")) for n in re.findall(r"\b[\d,]+\b", row[1])] for row in rows]
    assert stated == [
        [limits.MAX_ATTRIBUTES],
        [limits.MAX_TABLES],
        [limits.MAX_STEPS],
        [limits.MAX_CELLS],
        [matrix.MAX_SIZE],
        [limits.MAX_RECORDS],
        [limits.MAX_RESPONDENTS],
        [reader.MAX_HEADER, reader.FREE_HEADER, reader.HEADER_RATIO],
        [limits.FREE_VALUES, limits.STORED_PER_VALUE],
        [entries.MAX_BODY],
        [packing.MAX_FRAME],
        [limits.FREE_ENTRIES, limits.STORED_PER_ENTRY],
        [limits.FREE_BYTES, limits.BYTES_PER_STORED],
        [LOADED_BYTES, limits.BYTES_PER_STORED],
    ]


def test_the_format_has_the_fields_of_a_header() -> None:
    rows = rows_of(section("docs/transcript-format.md", "The header"))
    assert [names_in(row[0])[0] for row in rows] == [*Header.__struct_fields__]


class TestVariant:
    """The worked example, from its file, as somebody else's variant would be used."""

    def outcome(self, folder: Path, transport: str) -> Outcome:
        write_files(VARIANT, folder)
        scenario = find_scenario("warner.py")
        parameters = scenario.configure({"p": "0.8", "people": "60"})
        context = Context(transport=transport, transcript=folder / "transcript.svt.zst")
        outcome = scenario.run(parameters, context).outcome
        assert isinstance(outcome, Outcome)
        return outcome

    def test_contract(self, folder: Path) -> None:
        outcome = self.outcome(folder, "local")
        assert outcome.records is not None
        check_variant(outcome.variant, outcome.records, executors=EXECUTORS, parties=7)

    def test_local_is_memory(self, folder: Path) -> None:
        assert self.outcome(folder, "local").digest == self.outcome(folder, "memory").digest

    def test_audit(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        outcome = self.outcome(folder, "memory")
        with pytest.raises(SystemExit) as ended:
            main(["audit", "transcript.svt.zst", "--variant", "warner.py:Warner", "--json"])
        judged = json.loads(capsys.readouterr().out)
        assert ended.value.code == 0
        assert judged["verdict"] == "sound"
        assert judged["result"]["follows"]
        assert judged["privacy"]["record_epsilon"] == pytest.approx(1.386294361, abs=1e-9)
        assert judged["verification"]["digest"] == outcome.digest.hex()

    def test_lies_are_found(self, folder: Path) -> None:
        """An auditor whose variant would have published something else says so."""
        outcome = self.outcome(folder, "local")
        text = (folder / "warner.py").read_text(encoding="utf-8")
        name = '    name = "warner"\n'
        lie = "    def pooled(self, reports):\n        return super().pooled(reports[1:])\n"
        other = text.replace(name, f"{name}\n{lie}")
        assert other != text
        (folder / "other.py").write_text(other, encoding="utf-8")
        cls = find_variant("other.py:Warner")
        with pytest.raises(OtherCodeError):
            outcome.transcript.audit(cls)
        # If the session did not bind the file, the result would still not follow.
        cls.code = type(outcome.variant).code
        assert outcome.transcript.audit(cls).verdict == "broken"

    def test_estimate_is_unbiased(self, folder: Path) -> None:
        """Exactly: the mean over all reports of two respondents who both say yes."""
        variant = self.outcome(folder, "local").variant
        mean = 0.0
        for yes, probability in ((0, 0.2**2), (1, 2 * 0.2 * 0.8), (2, 0.8**2)):
            said = Tallied(2, np.array([2 - yes, yes], np.uint32))
            mean += probability * float(variant.estimate(said).table("cheats").values[1])
        assert mean == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    missing = [name for name in _PATH.findall(text_of(page)) if not (ROOT / name).exists()]
    assert missing == []
