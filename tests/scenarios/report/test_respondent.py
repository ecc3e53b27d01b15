"""The page of a respondent as a file: whole, and allowed nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from pathlib import Path

from scenarios.report.page.respondent import respondent_page
from tests.scenarios.command import complaint, sottovoce

ROOT = Path(__file__).parents[3]


def test_a_wheel_has_all_that_the_page_is_made_of() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        build = tomllib.load(file)["tool"]["hatch"]["build"]
    names = re.findall(r'^modules\["(.*)"\] = ', respondent_page(), re.MULTILINE)
    page = ROOT / "scenarios/report/page"
    assert build["targets"]["wheel"]["force-include"] == {
        "docs/verifier": (page / "verifier").relative_to(ROOT).as_posix()
    }
    own = {path.name for path in (page / "templates").iterdir()}
    assert set(names) - own <= {path.name for path in (ROOT / "docs/verifier").iterdir()}
    assert "receipts.js" in names


def test_the_page_is_allowed_its_own_style_and_script_alone() -> None:
    page = respondent_page()
    [style], [script] = (
        re.findall(f"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
        for tag in ("style", 'script type="module"')
    )
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"
        for part in (script, style)
    ]
    policy = "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'"
    assert policy.format(*hashes) in page.replace("&#39;", "'")
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    said = sottovoce("page", path)
    assert (said.code, said.out.split()[0]) == (0, "written:")
    assert path.read_text(encoding="utf-8") == respondent_page()
    assert complaint(sottovoce("page")) == "Missing argument 'FILE'."
