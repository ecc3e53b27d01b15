"""What a person can do wrong: exit code 2, one line that says what, and nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parties.keeping.packing import Unpacked
from protocol.errors import UsageError
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent
from scenarios import find_variant, simulate
from scenarios.errors import printable
from scenarios.running.loopback import allow_connections
from tests.every_variant import BITS
from tests.pages import independent
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded
from tests.scenarios.command import (
    OWN,
    ROOT,
    complaint,
    environment,
    python,
    sottovoce,
    write_adult,
)
from tests.scenarios.survey_folders import PLAN, make_folders, plan_file, table
from tests.tiers import slow, thinned
from transports.testing import HANGS

QUICK = ("run", "quickstart", "--set", "residents=20")


def set_(*settings: str) -> tuple[str, ...]:
    return tuple(part for setting in settings for part in ("--set", setting))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "no command 'nonsense'; 'sottovoce --help' lists all"),
        (("rnu", "quickstart"), "no command 'rnu'; did you mean 'run'?"),
        (("run",), "Missing argument 'SCENARIO'"),
        (("run", "nosuch"), "no scenario 'nosuch'; 'sottovoce list' lists all"),
        (("run", "quikstart"), "no scenario 'quikstart'; did you mean 'quickstart'? 'sottovoce"),
        (
            ("attack", "rr-jont"),
            "no variant 'rr-jont'; did you mean 'rr-joint'? For a variant of your own",
        ),
        (
            ("attack", "rr-joint", *set_("qorum=1")),
            "'qorum'; did you mean 'quorum'? It has ",
        ),
        (("run", "quickstart", "--nosuch"), "no option '--nosuch'"),
        ((*QUICK, *set_("nosuch=1")), "no parameter 'nosuch'; it has p, residents, parties"),
        (
            (*QUICK, *set_("residnts=1")),
            "'residnts'; did you mean 'residents'? It has p, residents",
        ),
        ((*QUICK, *set_("p")), "expected NAME=VALUE"),
        ((*QUICK, *set_("=1")), "expected NAME=VALUE"),
        ((*QUICK, *set_("p=")), "'p' = ''"),
        ((*QUICK, *set_("p=half")), "'p' = 'half': expected a number"),
        ((*QUICK, *set_("p=0")), "'p' = '0': expected a number above 0"),
        ((*QUICK, *set_("p=1")), "'p' = '1': expected a number below 1"),
        ((*QUICK, *set_("p=nan")), "'p' = 'nan'"),
        ((*QUICK, *set_("p=inf")), "'p' = 'inf'"),
        ((*QUICK, *set_("p=-1")), "'p' = '-1'"),
        ((*QUICK, *set_("p=1e-30")), "keep probability 1e-30"),
        (
            (*QUICK, *set_("residents=0")),
            "'0': expected a whole number of at least 1",
        ),
        ((*QUICK, *set_("residents=1.5")), "expected a whole number"),
        ((*QUICK, *set_("residents=1e99")), "expected a whole number"),
        (
            (*QUICK, *set_("residents=99999999999999999999")),
            "a whole number of at most 10000000",
        ),
        ((*QUICK, *set_("parties=21")), "'parties' = 21: more than the 20 records"),
        ((*QUICK, *set_("parties=0")), "'parties' = '0'"),
        ((*QUICK, "--level", "1.5"), "'--level': '1.5' is not in the range 0<x<1"),
        ((*QUICK, "--level", "95"), "'--level': '95' is not in the range 0<x<1"),
        ((*QUICK, "--level", "0"), "'--level': 0.0 is not in the range 0<x<1"),
        ((*QUICK, "--level", "nan"), "'--level': 'nan' is not a number"),
        ((*QUICK, "--about", "nobody"), "'nobody' is not one of 'respondents', 'population'"),
        (("tabulate", "quickstart", "--n", "10", "--level", "1"), "'--level'"),
        (("audit", "x.svt", "--about", "us"), "'us' is not one of 'respondents', 'population'"),
        (
            ("run", "rr-table-1", "--about", "population"),
            "--level, --about: 'rr-table-1' is a reproduction",
        ),
        ((*QUICK, "--transport", "pigeon"), "'pigeon' is not one of 'local'"),
        ((*QUICK, "--seed", "-1"), "-1 is not in the range"),
        ((*QUICK, "--seed", "one"), "'one' is not a whole number"),
        ((*QUICK, "--seed", str(2**64)), "is not in the range"),
        (
            ("run", "rrba-survey", *set_(f"n={2**63}")),
            "a whole number of at most 10000000",
        ),
        (("run", "rrba-survey", *set_(f"block={2**64}")), "expected an integer of at most 64 bits"),
        (("run", "rrba-survey", *set_("width=inf")), "'width' = 'inf': not a finite number"),
        (("run", "rrba-survey", *set_("width=1e999")), "the number is too large"),
        (("run", "taxi-tree", *set_(f"n={2**64}")), "a whole number of at most 10000000"),
        (("run", "kv-power", *set_(f"n={2**63}")), "a whole number of at most 10000000"),
        (
            ("run", "rr-table-1", *set_(f"runs={2**63}")),
            "a whole number of at most 1000000",
        ),
        (("run", "rrba-figure-5", *set_("p=1e-300")), "expected a number of at least 1e-09"),
    ],
)
def test_of_a_run(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out") if arguments[:1] == ("run",) else ()
    assert says in complaint(sottovoce(*arguments, *out))
    # A record that could not begin leaves at most an empty folder.
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (("p=0.5", "epsilon=1"), "set p or epsilon, not both"),
        (("epsilon=0",), "expected a number above 0"),
        (("epsilon=nan",), "'epsilon' = 'nan'"),
        (("epsilon=inf",), "'epsilon' = 'inf': not a finite number"),
        (("epsilon=-1",), "expected a number above 0"),
        (("epsilon=1e-300",), "too small"),
        (("drop=1",), "expected a number below 1"),
        (("drop=-0.1",), "expected a number of at least 0"),
        (("drop=nan",), "'drop' = 'nan'"),
        (("records=51",), "'records' = 51: there are 50"),
        (("parties=51",), "'parties' = 51: more than the 50 records"),
        (("records=10", "parties=11"), "more than the 10 records"),
        (("project=flat",), "expected none or clip or simplex or em"),
    ],
)
@pytest.mark.parametrize("scenario", ["adult-independent", "adult-joint"])
def test_of_adult(scenario: str, setting: tuple[str, ...], says: str, tmp_path: Path) -> None:
    write_adult(tmp_path, 50)
    said = sottovoce("run", scenario, "--data", tmp_path, *set_(*setting))
    assert says in complaint(said)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "expected a file adult.data or adult/adult.data; without --data"),
        (b"", "no records"),
        (b"39, Private, 77516\n", "row 1: 3 fields"),
        (b"39, Nothing, 0, 11th, 7, Divorced, ?, Wife, White, Male, 0, 0, 40, ?, <=50K\n", "'Noth"),
        (b"\xff\xfe\x00", "not text"),
    ],
)
def test_of_data(content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "adult.data").write_bytes(content)
    assert says in complaint(sottovoce("run", "adult-joint", "--data", tmp_path))
    assert says in complaint(sottovoce("run", "adult-joint", "--data", tmp_path, "--json"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"nosuch = 1", "no parameter 'nosuch'"),
        (b'p = "half"', "expected a number"),
        (b"p = [0.5]", "expected a number, not a list"),
        (b"p = nan", "'p' = nan"),
        (b"[p]", "expected a number, not a table"),
        (b"p = inf", "expected a number below 1"),
        (b"p = = 1", "not valid TOML"),
        (b"\xff", "line 1: is not in UTF-8"),
        (None, "no such file"),
    ],
)
def test_of_a_configuration(content: bytes | None, says: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    if content is not None:
        config.write_bytes(content)
    assert says in complaint(sottovoce(*QUICK, "--config", config))


def test_of_a_null_character(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('trips = "\\u0000"\n')
    said = complaint(sottovoce("run", "taxi-marginals", "--config", config))
    assert said == "parameter 'trips' = '\\x00': has a null character"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        ("def (", "SyntaxError"),
        ("x = 1\nraise RuntimeError('two\\nlines')", "own.py:2: RuntimeError: two lines"),
        ("import nosuchmodule", "No module named 'nosuchmodule'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = 1", "expected SCENARIOS, a tuple"),
        ("SCENARIOS = ()", "expected SCENARIOS, a tuple"),
        ("SCENARIOS = 3", "expected SCENARIOS, a tuple"),
        ("SCENARIOS = (3,)", "expected SCENARIOS, a tuple"),
        ("from scenarios.quickstart import SCENARIOS as S; SCENARIOS = list(S)", "a tuple"),
        ("from scenarios.adult_surveys import SCENARIOS", "has several scenarios"),
    ],
)
def test_of_a_scenario_file(content: str | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    if content is not None:
        path.write_text(content)
    assert says in complaint(sottovoce("run", path))


def test_of_a_name_in_a_scenario_file() -> None:
    assert "no scenario 'nosuch'; expected one of plain" in complaint(
        sottovoce("run", f"{OWN}:nosuch")
    )
    assert "'rollcall'; did you mean 'roll-call'?" in complaint(sottovoce("run", f"{OWN}:rollcall"))


@pytest.mark.parametrize(
    ("variant", "says"),
    [
        ("nosuch", "expected one of rr-independent, rr-joint"),
        (
            "privkvn",
            "no variant 'privkvn'; did you mean 'privkv'? For a variant of your own",
        ),
        (f"{OWN}", f"expected {OWN}:Class"),
        (f"{OWN}:", f"expected {OWN}:Class"),
        (f"{OWN}:Nosuch", "no variant class 'Nosuch'"),
        (f"{OWN}:SCENARIOS", "no variant class 'SCENARIOS'"),
        (f"{OWN}:Call", "no variant class 'Call'"),
        ("missing.py:Own", "no such file"),
    ],
)
def test_of_a_variant(variant: str, says: str) -> None:
    with pytest.raises(UsageError, match=r".*") as caught:
        find_variant(variant)
    assert says in str(caught.value)


def test_of_a_place_to_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is a file" in complaint(sottovoce(*QUICK, "--out", file))
    assert "a part of this path is a file" in complaint(sottovoce(*QUICK, "--out", file / "below"))
    assert "/proc" in complaint(sottovoce(*QUICK, "--out", "/proc/nosuch"))
    assert file.read_text() == "kept"


def test_an_unwritable_result_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "result.json").mkdir()
    assert "result.json: is not a regular file" in complaint(sottovoce(*QUICK, "--out", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_too_many_sockets() -> None:
    with pytest.raises(
        UsageError, match=r"\d+ open files allowed by the system: use fewer parties"
    ):
        allow_connections(2**31)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "tls"])
def test_too_many_parties_for_sockets_leave_no_record(transport: str, tmp_path: Path) -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); "
        "from scenarios.cli import main; main()"
    )
    said = python("-c", program, *QUICK, "--transport", transport, "--out", tmp_path)
    assert "20 sockets" not in said.err
    assert "40 sockets needed in one process, 100 open files allowed by the system" in complaint(
        said
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("transport", thinned(["local", "memory", "tcp", "tls"], 1))
def test_a_failed_run_keeps_its_record_and_the_earlier_one(transport: str, tmp_path: Path) -> None:
    write_adult(tmp_path / "data", 50)
    run = ("run", "adult-joint", "--data", tmp_path / "data", "--transport", transport)
    out = tmp_path / "out"
    assert sottovoce(*run, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    said = sottovoce(*run, "--out", out, *set_("drop=0.999999"), "--json")
    assert complaint(said, code=1).startswith("0 of 50 sent 'Report', at least 25 needed; missing:")
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    failed = after.pop("transcript.svt.zst.partial")
    assert after == before
    verification = verify(Unpacked(failed))
    assert not verification.faults
    assert not verification.complete
    assert verification.ending is not None
    assert verification.ending.reason == "QuorumError"


@pytest.mark.slow
@pytest.mark.parametrize("transport", thinned(["local", "memory", "tcp"], 2))
def test_an_interrupt_in_the_middle(transport: str, tmp_path: Path) -> None:
    said = python(
        *("-m", "scenarios", "run", f"{OWN}:interrupted"),
        *("--transport", transport, "--out", tmp_path),
    )
    assert said.code == 130
    assert "Traceback" not in said.err
    assert said.err == "interrupted\n"
    [partial] = tmp_path.iterdir()
    reader = TranscriptReader(Unpacked(partial.read_bytes()))
    assert len(list(reader)) >= 4
    assert reader.ending is not None
    assert not reader.ending.complete


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("run", "quickstart", "--set", "residents=20", "--json"), slow(("--help",))],
)
def test_a_closed_stdout_is_no_complaint(arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        timeout=HANGS,
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scenarios", *QUICK, "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            text=True,
            timeout=HANGS,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "sottovoce: the disk is full\n"


@pytest.mark.slow
def test_bad_input_in_a_process_of_its_own(tmp_path: Path) -> None:
    said = python("-m", "scenarios", "run", "quickstart", "--set", "p=2", cwd=ROOT)
    assert complaint(said) == "parameter 'p' = '2': expected a number below 1"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31m\n\udc80é") == "a\\x1b[31m\\n\\x80é"
    assert "\x1b" not in complaint(sottovoce("run", "\x1b[31mred"))
    assert "\\x1b" in complaint(sottovoce("verify", "/\x1b[31mred"))


def test_what_takes_too_much_memory_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    huge = "__import__('numpy').ones(2**58)"
    path.write_text(OWN.read_text().replace("town(40, seed=context.seed)", huge, 1))
    said = sottovoce("run", f"{path}:plain")
    assert complaint(said) == "out of memory"


@pytest.mark.parametrize(
    ("seed", "says"),
    [(-1, "seed -1, expected at least 0"), (-(2**63), "expected at least 0"), (2**64 - 1, "")],
)
def test_of_a_header(seed: int, says: str, tmp_path: Path) -> None:
    forgery = Forgery(recorded(RRIndependent.with_keep(BITS, 0.6), 3, signed=True).content)
    forgery.header["seed"] = seed
    path = tmp_path / "t.svt"
    path.write_bytes(forgery.write())
    verified = sottovoce("verify", path)
    assert verified.code == 1
    assert ("a negative seed" in verified.out) == bool(says)
    for options in ((), ("--json",), ("--html", tmp_path / "page.html"), ("--worst", "1")):
        said = sottovoce("audit", path, *options)
        assert says in complaint(said) if says else said.code == 1
    [row] = sottovoce("query", path, "SELECT value FROM header WHERE key = 'seed'", "--json").json
    assert row == {"value": str(seed)}
    asked = "SELECT value FROM header WHERE key = 'seed'"
    assert sottovoce("query", path, asked, "--json").json == [{"value": str(seed)}]


def test_of_a_question(tmp_path: Path) -> None:
    path = tmp_path / "t.svt"
    path.write_bytes(independent())
    said = sottovoce("query", path, "SELECT '\udcff'")
    assert "surrogates not allowed" in complaint(said)


@pytest.mark.parametrize("address", ["n\udcff:1", "a" * 300 + ":1", "a..b:1", "localhost:٣"])
def test_of_an_address(address: str, tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    records = table(tmp_path / "anna.csv", "no,young")
    for command in (
        ("aggregate", folders / "aggregator", "--listen", address, "--out", tmp_path / "out"),
        ("answer", folders / "anna", "--connect", address, "--records", records),
    ):
        said = complaint(sottovoce(*command))
        assert said.endswith((": expected HOST:PORT", "is not a valid host name"))


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ("epsilon = 2.0", "epsilon = 4,0", "line 2: expected a number; did you mean 4.0?"),
        ("ordinal", "ordinl", "line 11, column 10: no field 'ordinl' in attributes; did you mean"),
        ("decimal", "decimals", "line 5, column 12: no field 'decimals' in records; did you mean"),
        ("title", "titel", "line 1, column 9: no 'titel' in a plan; did you mean 'title'?"),
        ("[records]", "[record]", "line 4, column 1: no 'record' in a plan; did you mean 'rec"),
        ("attributes", "attribute", "no 'attribute' in a plan; did you mean 'attributes'?"),
        ("epsilon", "epsilom", "no parameter 'epsilom'; did you mean 'epsilon'?"),
    ],
)
def test_of_a_mistyped_plan(wrong: str, right: str, says: str, tmp_path: Path) -> None:
    text = (
        'title = "T"\nepsilon = 2.0\n\n[records]\ndecimal = "."\n\n[[attributes]]\nname = "a"\n'
        'categories = ["x", "y"]\n\nordinal = true\n'
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    assert sottovoce("preflight", plan).code == 0
    plan.write_text(text.replace(wrong, right))
    assert says in complaint(sottovoce("preflight", plan))


def test_of_a_number_beside_an_option(tmp_path: Path) -> None:
    plan, data = plan_file(tmp_path), table(tmp_path / "table.csv", "no,young")
    said = complaint(sottovoce("design", plan, "--n", 100, "--epsilon", 2, 4))
    assert said.endswith("extra argument (4): --epsilon 2 4; did you mean --epsilon 2,4?")
    said = complaint(sottovoce("plan", "--from", data, "--epsilon", 2, 4))
    assert said.endswith("extra argument (4): --epsilon 2 4; it takes one number")
    said = complaint(sottovoce("design", plan, "--n", 100, "more"))
    assert said.endswith("unexpected extra argument (more)")


def test_of_a_folder_for_a_transcript(tmp_path: Path) -> None:
    assert complaint(sottovoce("estimate", tmp_path)).endswith(
        f"{tmp_path}: a folder; expected a transcript"
    )
    assert sottovoce(*QUICK, "--out", tmp_path).code == 0
    for command in ("estimate", "verify", "audit"):
        said = complaint(sottovoce(command, tmp_path))
        assert said.endswith(f"such as {tmp_path / 'transcript.svt.zst'}")


@pytest.mark.parametrize("most", [2**28, 2**63, 2**64 - 1, 2**64])
def test_of_a_plan(most: int, tmp_path: Path) -> None:
    plan = plan_file(tmp_path, PLAN.replace("max_records = 3", f"max_records = {most}"))
    said = complaint(
        sottovoce("keys", plan, "--party", "a", "--party", "b", "--out", tmp_path / "k")
    )
    assert "the survey is too large" in said or "at most 64 bits" in said
    assert not (tmp_path / "k").exists()


def test_of_a_plan_of_large_messages(tmp_path: Path) -> None:
    questions = "".join(
        f'[[attributes]]\nname = "q{i}"\ncategories = ["no", "yes"]\n' for i in range(80)
    )
    plan = plan_file(
        tmp_path, PLAN.replace("max_records = 3", f"max_records = {2**20}") + questions
    )
    said = complaint(sottovoce("keys", plan, "--count", 2, "--out", tmp_path / "k"))
    assert f"max_records = {2**20}: a message could have" in said
    assert not (tmp_path / "k").exists()


def test_of_a_charter(tmp_path: Path) -> None:
    folder = make_folders(tmp_path) / "anna"
    charter = json.loads((folder / "charter.json").read_text())
    records = table(tmp_path / "anna.csv", "no,young")
    for field, value, says in (
        ("nonce", "", "nonce: expected bytes, at least 16"),
        ("nonce", "A" * 24, "nonce: expected bytes, at most 16"),
        ("parameters", {**charter["parameters"], "quorum": -1}, "at least 1"),
        ("parameters", {**charter["parameters"], "quorum": 2**64}, "quorum"),
        ("parameters", {**charter["parameters"], "max_records": 10**30}, "max_records"),
    ):
        (folder / "charter.json").write_text(json.dumps({**charter, field: value}))
        said = sottovoce(
            "answer", folder, "--waiting", 0, "--connect", "localhost:1", "--records", records
        )
        assert says in complaint(said)


@pytest.mark.slow
def test_a_bug_is_not_dressed_up_as_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    source = OWN.read_text().replace("town(40, seed=context.seed)", "1 / 0", 1)
    path.write_text(source)
    said = python("-m", "scenarios", "run", f"{path}:plain")
    assert said.code == 70
    assert "ZeroDivisionError" in said.err


def test_simulate_is_as_strict_about_transports() -> None:
    from protocol.variants import RRJoint
    from scenarios import town

    records = town(2, seed=1)
    with pytest.raises(UsageError, match="pigeon"):
        simulate(RRJoint.with_keep(records.survey, 0.5), records, transport="pigeon")
