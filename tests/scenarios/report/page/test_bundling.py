"""Modules as one script: in order, under their names, and nothing that it does not understand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scenarios.report.page.bundling import bundled, verifier
from tests.verifier.bundles import ANSWERING, bundle
from tests.verifier.javascript import NODE, needs_node


def written(folder: Path, **modules: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source + "\n", encoding="utf-8")
    return folder


@needs_node
def test_a_bundle_runs_as_its_modules_do(tmp_path: Path) -> None:
    own = written(
        tmp_path / "own",
        entry='import {\n  double as twice,\n  Name,\n} from "./both.js";\n'
        'import { three } from "./three.js";\nexport const said = twice(three) + Name.name;',
        both='// A note.\nimport { three } from "./three.js";\n\n/**\n * Of numbers: *\n */\n'
        "export const double = (n) => n * 2 + three - 3;\n"
        "  // Another.\nexport class Name {} // stays\nexport async function later() {}",
    )
    other = written(tmp_path / "other", three="export const three = 3;", both="throw 1;")
    script = bundled("entry.js", own, other)
    assert re.findall(r'^modules\["(.*)"\] = ', script, re.MULTILINE) == [
        *("three.js", "both.js", "entry.js")
    ]
    assert re.findall(r"//.*|/\*[^/]*", script) == ["// stays"]
    assert NODE is not None
    shown = 'console.log(modules["entry.js"].said, Object.keys(modules["both.js"]).join())'
    done = subprocess.run(
        [NODE, "--eval", script + shown], capture_output=True, text=True, check=True
    )
    assert done.stdout == "6Name double,Name,later\n"


@pytest.mark.parametrize(
    "source",
    [
        'import "./a.js";',
        'import * as a from "./a.js";',
        'import a from "./a.js";',
        'import { a } from "a";',
        "export default 1;",
        "export { a };",
        "export let a = 1;",
    ],
)
def test_other_imports_and_exports_are_refused(tmp_path: Path, source: str) -> None:
    folder = written(tmp_path, entry=source, a="export const a = 1;")
    with pytest.raises(ValueError, match=r"entry\.js: cannot bundle"):
        bundled("entry.js", folder)


def test_a_missing_module_and_a_circle_are_refused(tmp_path: Path) -> None:
    one = 'import { b } from "./b.js";\nexport const a = 1;'
    folder = written(tmp_path, a=one)
    with pytest.raises(FileNotFoundError, match=r"no module 'b\.js'"):
        bundled("a.js", folder)
    written(tmp_path, b='import { a } from "./a.js";\nexport const b = 1;')
    with pytest.raises(ValueError, match=r"a\.js -> b\.js -> a\.js"):
        bundled("a.js", folder)


def test_the_party_of_a_page_is_small_and_needs_nothing_of_node() -> None:
    script = bundle()
    assert len(script.encode()) < 100_000
    assert not re.search(r"\b(require|process|Buffer)\b|node:", script)
    own = {path.name for path in ANSWERING.glob("*.js")}
    of_verifier = {path.name for path in verifier().iterdir()}
    assert own.isdisjoint(of_verifier)
