"""Records are not lost: to a full disk, to the next run, to a second program, through a link."""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from parties.keeping.checkpoints import write_checkpoint
from parties.keeping.packing import Packer, Unpacked
from parties.keeping.record_names import checkpoint_path, partial_path
from parties.keeping.records import growing, make_way
from parties.keeping.remembered import (
    DIGEST_BYTES,
    KEY_BYTES,
    noted_in,
    remembering,
    session_file,
)
from protocol.errors import UsageError
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Sent
from protocol.transcript.header import make_header
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope
from scenarios import simulate, town
from scenarios.surveys.members import read_member
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.runs import written
from tests.recorded.signed import signed_run
from tests.scenarios.command import OWN, Said, complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    ROWS,
    aggregating,
    everybody_answers,
    make_folders,
    plan_file,
    table,
)
from tests.tiers import paired, thinned
from transports.testing import HANGS

QUICK = ("run", "quickstart", "--set", "residents=20")
EXAMPLE = ("run", "ind-joint-example", "--set", "runs=2")
FILES = {"transcript.svt.zst", "transcript.checkpoint", "result.json"}
PARTIAL = "transcript.svt.zst.partial"
RECORDS = town(12, seed=2)
VARIANT = RRIndependent.with_keep(RECORDS.survey, 0.6)


def record(*, seed: int | None) -> bytes:
    """The record of a run that failed: of a real survey, if it has no seed."""
    header = make_header(make_setting(VARIANT, RECORDS, seed=1).charter, seed=seed)
    return written(header, (), complete=False).content


REAL, SIMULATED = record(seed=None), record(seed=1)


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def modes(*paths: Path) -> set[int]:
    return {stat.S_IMODE(path.lstat().st_mode) for path in paths}


@contextmanager
def small_files(most: int) -> Generator[None]:
    """No file of this process gets larger, as on a disk that is full by then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_mask() -> Generator[None]:
    """New files get every mode that they are given."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders for anna, bert and carl."""
    with no_mask():
        return make_folders(tmp_path_factory.mktemp("survey"))


@pytest.fixture(scope="module")
def held(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of a real survey."""
    out = tmp_path_factory.mktemp("held") / "new" / "out"
    with no_mask(), aggregating(keys, out) as (aggregator, where, _):
        everybody_answers(keys, where)
        _, complained = aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == 0, complained
    return out


@pytest.fixture
def out(held: Path, tmp_path: Path) -> Path:
    """The same, to try to spoil it."""
    return Path(shutil.copytree(held, tmp_path / "out"))


def aggregate(keys: Path, out: Path, *options: object) -> Said:
    """An aggregator to whom nobody comes."""
    listen = ("--listen", "127.0.0.1:0", "--joining", 0)
    return sottovoce("aggregate", keys / "aggregator", *listen, "--out", out, *options)


# The next run


def test_a_real_survey_is_not_replaced(keys: Path, out: Path) -> None:
    before = contents(out)
    assert before.keys() == FILES
    for said in (
        aggregate(keys, out),
        sottovoce(*QUICK, "--out", out),
        sottovoce(*EXAMPLE, "--out", out),
    ):
        assert complaint(said) == (
            f"{out / 'transcript.svt.zst'}: is the record of a real survey; it is never replaced: "
            "write elsewhere, or let --force move it aside"
        )
    with pytest.raises(UsageError, match="real survey"):
        simulate(VARIANT, RECORDS, path=out / "transcript.svt.zst")
    assert contents(out) == before


def test_force_moves_a_record_aside_and_both_verify(keys: Path, out: Path) -> None:
    before = contents(out)
    (out / "transcript.earlier-1").mkdir()
    aside = out / "transcript.earlier-2"
    with aggregating(keys, out, "--force") as (aggregator, where, said_before):
        everybody_answers(keys, where)
        assert aggregator.wait(timeout=HANGS) == 0
    assert said_before.startswith(f"the record that was there is now in {aside}\n")
    assert contents(aside) == before
    assert modes(aside) == {0o700}
    for folder in (out, aside):
        checkpoint = folder / "transcript.checkpoint"
        said = sottovoce("verify", folder / "transcript.svt.zst", "--checkpoint", checkpoint)
        assert said.code == 0, said.out
    assert (out / "transcript.svt.zst").read_bytes() != before["transcript.svt.zst"]


@pytest.mark.parametrize("command", [QUICK, EXAMPLE])
def test_force_of_a_run_moves_a_real_survey_aside(out: Path, command: tuple[str, ...]) -> None:
    before = contents(out)
    said = sottovoce(*command, "--out", out, "--json", "--force")
    assert said.code == 0
    aside = out / "transcript.earlier-1"
    assert said.err == f"the record that was there is now in {aside}\n"
    assert contents(aside) == before
    assert (out / "result.json").read_text() == said.out
    assert (out / "transcript.svt.zst").exists() == (command == QUICK)


def test_force_takes_a_folder() -> None:
    assert complaint(sottovoce(*QUICK, "--force")) == "--force: expected --out too"


@pytest.mark.slow
def test_a_simulation_replaces_a_simulation(tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / PARTIAL).write_bytes(SIMULATED)
        assert sottovoce(*QUICK, "--seed", seed, "--out", tmp_path).code == 0
        assert contents(tmp_path).keys() == FILES
        found = TranscriptReader(Unpacked((tmp_path / "transcript.svt.zst").read_bytes()))
        assert found.header.seed == seed
    for _ in range(2):
        assert sottovoce(*EXAMPLE, "--out", tmp_path).code == 0
        assert contents(tmp_path).keys() == {"result.json"}


@pytest.mark.slow
def test_a_run_that_failed_twice_can_be_repeated(tmp_path: Path) -> None:
    for _ in range(2):
        assert sottovoce("run", f"{OWN}:interrupted", "--out", tmp_path).code == 130
        assert contents(tmp_path).keys() == {PARTIAL}
    assert sottovoce(*QUICK, "--out", tmp_path).code == 0
    assert contents(tmp_path).keys() == FILES


@pytest.mark.slow
def test_a_real_survey_that_fails_leaves_a_simulation(keys: Path, tmp_path: Path) -> None:
    assert sottovoce(*QUICK, "--out", tmp_path).code == 0
    before = contents(tmp_path)
    assert aggregate(keys, tmp_path).code == 1
    after = contents(tmp_path)
    assert TranscriptReader(Unpacked(after.pop(PARTIAL))).header.seed is None
    assert after == before
    assert PARTIAL in complaint(sottovoce(*QUICK, "--out", tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    thinned(
        [
            pytest.param(
                PARTIAL, REAL, "is the record of a real survey", id="a real survey that failed"
            ),
            pytest.param(
                PARTIAL,
                REAL[:60],
                "cannot be read, and may be the record of a real survey",
                id="torn in its header",
            ),
            pytest.param(
                PARTIAL, b"s", "cannot be read, and may be the record of a real survey", id="a byte"
            ),
            pytest.param(
                PARTIAL,
                b"notes of mine",
                "cannot be read, and may be the record of a real survey",
                id="something else",
            ),
            pytest.param(
                "transcript.svt.zst", REAL, "is the record of a real survey", id="a real survey"
            ),
            pytest.param(
                "transcript.svt.zst",
                b"notes of mine",
                "cannot be read",
                id="something else as transcript",
            ),
            pytest.param(
                "transcript.checkpoint",
                b"{}",
                "is the checkpoint of a transcript that is not here",
                id="a checkpoint alone",
            ),
            pytest.param(
                "result.json",
                b'{"seed": null}',
                "may be the result of a real survey",
                id="a real result",
            ),
            pytest.param(
                "result.json", b"{", "may be the result of a real survey", id="half a result"
            ),
            pytest.param(PARTIAL, b"", None, id="empty"),
            pytest.param(PARTIAL, SIMULATED, None, id="a simulation that failed"),
            pytest.param("transcript.svt.zst", b"", None, id="an empty transcript"),
            pytest.param("transcript.svt.zst", SIMULATED, None, id="a simulation"),
            pytest.param("result.json", b"", None, id="an empty result"),
            pytest.param("result.json", b'{"seed": 7}', None, id="a simulated result"),
        ],
        8,
    ),
)
def test_what_a_file_holds_decides(
    name: str, content: bytes, says: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    said = sottovoce(*QUICK, "--out", tmp_path)
    if says is None:
        assert said.code == 0, said.err
        assert contents(tmp_path).keys() == FILES
        return
    assert complaint(said).startswith(f"{path}: {says}")
    assert contents(tmp_path) == {name: content}
    assert sottovoce(*QUICK, "--out", tmp_path, "--force").code == 0
    assert (tmp_path / "transcript.earlier-1" / name).read_bytes() == content


def test_a_record_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.svt"

    def grow() -> None:
        with growing(path) as file:
            file.write(SIMULATED)
            path.write_bytes(REAL)
            file.finish(None)

    with pytest.raises(UsageError, match="real survey"):
        grow()
    assert contents(tmp_path) == {"t.svt": REAL, "t.svt.partial": Packer().pack(SIMULATED)}


MOVED = "was moved or deleted while it was written, so it got neither its name"


@pytest.mark.parametrize("gone", [True, False])
def test_a_record_that_was_moved_takes_no_other_ones_name(gone: bool, tmp_path: Path) -> None:
    path = tmp_path / "here" / "t.svt"
    beside = checkpoint_path(path)

    def grow() -> None:
        with growing(path) as first:
            first.write(SIMULATED)
            if gone:
                partial_path(path).rename(tmp_path / "moved")
            else:
                path.parent.rename(tmp_path / "there")
            with growing(path) as second:
                second.write(REAL)
                second.keep()
            beside.write_bytes(b"the second one's")
            first.finish(signed_run().checkpoint)

    with pytest.raises(UsageError, match=f"^{partial_path(path)}: {MOVED}"):
        grow()
    moved = "moved" if gone else "there/t.svt.partial"
    assert contents(tmp_path) == {
        moved: Packer().pack(SIMULATED),
        "here/t.svt.partial": Packer().pack(REAL),
        "here/t.checkpoint": b"the second one's",
    }


def test_a_run_that_could_not_begin_removes_no_other_record(tmp_path: Path) -> None:
    path = tmp_path / "t.svt"
    with growing(path):
        partial_path(path).unlink()
        with growing(path) as second:
            second.write(REAL)
            second.keep()
    assert contents(tmp_path) == {"t.svt.partial": Packer().pack(REAL)}


def test_two_surveys_in_a_folder_that_was_renamed(keys: Path, tmp_path: Path) -> None:
    out, there = tmp_path / "out", tmp_path / "there"
    other = make_folders(tmp_path)
    with aggregating(keys, out) as (first, where, _):
        out.rename(there)
        with aggregating(other, out) as (second, elsewhere, _):
            everybody_answers(keys, where)
            said, complained = first.communicate(timeout=HANGS)
            assert (first.returncode, said) == (2, "")
            assert complained.startswith(f"sottovoce: {out / PARTIAL}: {MOVED}")
            assert complained.count("\n") == 1
            assert contents(there).keys() == contents(out).keys() == {PARTIAL}
            everybody_answers(other, elsewhere)
            assert second.wait(timeout=HANGS) == 0
    assert contents(out).keys() == FILES
    checkpoint = out / "transcript.checkpoint"
    for path, more in (
        (out / "transcript.svt.zst", ("--checkpoint", checkpoint)),
        (there / PARTIAL, ()),
    ):
        assert sottovoce("verify", path, *more).code == 0


SLOW = """
import shutil
from dataclasses import replace
from scenarios.running.loading import find_scenario

FOUND = find_scenario({name!r})

def slow(parameters, context):
    done = FOUND.run(parameters, context)
    shutil.copytree({held!r}, {out!r}, dirs_exist_ok=True)
    return done

SCENARIOS = (replace(FOUND, name="slow", run=slow),)
"""
"""A scenario that still computes when a real survey is held in its folder."""


@pytest.mark.parametrize("there", [FILES, {"transcript.svt.zst"}, {PARTIAL}])
@pytest.mark.parametrize("command", [QUICK, EXAMPLE])
def test_a_survey_held_while_a_simulation_computes_keeps_its_result(
    command: tuple[str, ...], there: set[str], held: Path, tmp_path: Path
) -> None:
    out, came, slow = tmp_path / "out", tmp_path / "came", tmp_path / "slow.py"
    came.mkdir()
    for name in there:
        shutil.copy(held / name.removesuffix(".partial"), came / name)
    slow.write_text(SLOW.format(name=command[1], held=str(came), out=str(out)))
    said = sottovoce("run", slow, *command[2:], "--out", out)
    first = next(name for name in (PARTIAL, "transcript.svt.zst") if name in there)
    assert complaint(said).startswith(f"{out / first}: is the record of a real survey")
    assert contents(came).items() <= contents(out).items()
    assert ("result.json" in contents(out)) == ("result.json" in there)


def first_checkpoint(transcript: Path) -> str:
    """The name that the first checkpoint of a record gets."""
    return f"size-{checkpoints_of(Unpacked(transcript.read_bytes()))[0].size}.checkpoint"


RECORD, FIRST = "transcript.svt.zst", "first.checkpoint"
OUTPUTS = {
    "audit": ("audit", RECORD, "--html"),
    "receipt": ("prove", RECORD, "anna", "--out"),
    "consistency": ("prove", RECORD, "--since", FIRST, "--out"),
    "synthetic": (*QUICK, "--synthetic"),
    "plot": (*QUICK, "--plot"),
}
"""Commands that write a file that a person names, in a folder with a record."""

ENDINGS = {"audit": ".html", "synthetic": ".csv", "plot": ".svg"}
"""How the name of such a file has to end, where it does."""


@pytest.mark.parametrize("output", thinned(OUTPUTS, 3))
def test_no_output_replaces_what_is_kept(
    output: str, out: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out)
    assert sottovoce("verify", RECORD, "--checkpoints", ".").code == 0
    shutil.copy(first_checkpoint(out / RECORD), FIRST)
    kept = tmp_path / "kept"
    shutil.copytree(out, kept / "out", ignore=shutil.ignore_patterns("size-*", FIRST))
    shutil.copy(RECORD, kept / "out" / PARTIAL)
    shutil.copytree(keys / "anna", kept / "anna")
    ending = ENDINGS.get(output, "")
    for path in [path for path in kept.rglob("*") if path.is_file()]:
        path.rename(path.with_name(f"{path.name}{ending}"))
    before = contents(kept)
    names = {name.removesuffix(ending).partition("/")[2].partition("-")[0] for name in before}
    assert names == FILES | {PARTIAL, "secret", "heard", "said", "notices", "identity.key"} | {
        "attempts",
        "authority.pem",
        "certificate.pem",
        "charter.json",
        "checkpoint",
        "place.json",
        "receipt",
        "report",
    }
    for name in before:
        why = "is a transcript" if "transcript.svt.zst" in name else "only its owner may read it"
        said = sottovoce(*OUTPUTS[output], kept / name)
        assert complaint(said).startswith(f"{kept / name}: {why}")
    assert contents(kept) == before


@pytest.mark.parametrize(
    ("name", "content", "why"),
    thinned(
        [
            ("t.svt", b"damaged", "expected a name that ends in .csv"),
            ("t.svt.csv", b"damaged", None),
            ("x.csv", REAL, "is a transcript"),
            ("x.csv", REAL[:5], "is a transcript"),
            ("x.csv", b"", None),
            ("x.csv", b"another table", None),
        ],
        4,
    ),
)
def test_an_output_replaces_ordinary_files_alone(
    name: str, content: bytes, why: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(0o644 if content else 0o600)
    said = sottovoce(*QUICK, "--synthetic", path)
    if why is None:
        assert said.code == 0
        assert sottovoce(*QUICK, "--synthetic", path).code == 0
        assert len(path.read_text().splitlines()) == 21
    else:
        assert complaint(said).removeprefix("--synthetic ").startswith(f"{path}: {why}")
        assert path.read_bytes() == content


@pytest.mark.parametrize("name", [PARTIAL, *sorted(FILES)])
def test_an_output_of_a_run_is_not_its_own_record(name: str, tmp_path: Path) -> None:
    (tmp_path / "way").mkdir()
    path = tmp_path / "way" / ".." / "out" / name
    said = sottovoce(*QUICK, "--out", tmp_path / "out", "--synthetic", path)
    assert complaint(said) == f"--synthetic {path}: --out writes this file; give another name"
    assert contents(tmp_path) == {}


# A full disk


def test_a_full_disk_leaves_the_partial_record(keys: Path, held: Path, tmp_path: Path) -> None:
    unpacked = Unpacked((held / "transcript.svt.zst").read_bytes())
    ends = [unpacked.stored for _ in unpacked]
    # Inside the first entries, after the header and its checkpoint.
    most = ends[2] + 20
    out, new = tmp_path / "out", tmp_path / "keys"
    kept = shutil.ignore_patterns("attempts", "heard-*", "said-*", "notices-*")
    shutil.copytree(keys, new, ignore=kept)
    # The limit holds for what is started here, too.
    with small_files(most), aggregating(new, out) as (aggregator, where, _):
        everybody_answers(new, where)
        said, complained = aggregator.communicate(timeout=HANGS)
    assert (aggregator.returncode, said) == (2, "")
    assert complained == f"sottovoce: {out / PARTIAL}: File too large\n"
    assert contents(out).keys() == {PARTIAL}
    assert (out / PARTIAL).stat().st_size == most
    reader = TranscriptReader(Unpacked((out / PARTIAL).read_bytes()))
    assert list(reader) == []
    assert reader.torn
    assert PARTIAL in complaint(aggregate(keys, out))


@pytest.mark.slow
@pytest.mark.parametrize("transport", thinned(["local", "memory", "tcp"], 1))
def test_a_full_disk_in_a_simulation(transport: str, tmp_path: Path) -> None:
    path, most = tmp_path / PARTIAL, 40_000
    # So many that a block is full and written in the midst of the tasks, not at the end.
    many = ("--set", "residents=900", "--transport", transport)
    with small_files(most):
        said = sottovoce("run", "quickstart", *many, "--out", tmp_path)
    assert complaint(said) == f"{path}: File too large"
    assert contents(tmp_path).keys() == {PARTIAL}
    assert path.stat().st_size == most
    assert TranscriptReader(Unpacked(path.read_bytes())).header.seed == 1
    assert sottovoce(*QUICK, "--out", tmp_path).code == 0


def test_of_a_survey_that_could_not_begin_nothing_stays(tmp_path: Path) -> None:
    keys = make_folders(tmp_path)
    attempts = keys / "aggregator" / "attempts"
    tmp_path /= "out"
    with small_files(100):
        said = aggregate(keys, tmp_path)
    assert complaint(said) == f"{attempts}: File too large"
    assert contents(tmp_path) == {}
    with small_files(200):
        said = aggregate(keys, tmp_path)
    assert complaint(said) == f"{tmp_path / PARTIAL}: File too large"
    assert contents(tmp_path) == {}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = ("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--out", tmp_path)
        said = sottovoce("aggregate", keys / "aggregator", *listen)
    assert complaint(said).startswith(f"{listen[1]}: another program listens there: ")
    # Set aside for examples: nobody's address.
    for where in ("192.0.2.1:0", "[2001:db8::1]:0"):
        said = sottovoce("aggregate", keys / "aggregator", "--listen", where, "--out", tmp_path)
        assert complaint(said).startswith(f"{where}: ")
    assert contents(tmp_path) == {}
    [line] = attempts.read_text().splitlines()
    assert '"state":"taken"' in line


def test_a_full_disk_of_a_party_is_no_lost_connection(keys: Path, tmp_path: Path) -> None:
    anna = tmp_path / "anna"
    shutil.copytree(
        keys / "anna",
        anna,
        ignore=shutil.ignore_patterns("secret", "attempts", "heard-*", "said-*", "receipt-*"),
    )
    answer = (
        "answer",
        anna,
        "--records",
        table(tmp_path / "r.csv", *ROWS),
        "--purse",
        tmp_path / "purse",
        "--waiting",
        0,
        "--connect",
    )
    nobody = "127.0.0.1:1: nobody listens there: "
    unreachable = complaint(sottovoce(*answer, "127.0.0.1:1"), os.EX_UNAVAILABLE)
    assert unreachable.startswith(nobody)
    (anna / "secret").unlink()
    before = contents(anna).keys()
    with small_files(10):
        said = sottovoce(*answer, "127.0.0.1:1")
    assert complaint(said, os.EX_IOERR).startswith(f"{anna / 'secret'}: File too large; nothing ")
    assert contents(anna).keys() == before
    # Room for the secret, and for less than the digest of the first message.
    with (
        aggregating(keys, tmp_path / "out", "--joining", 3) as (_, where, _),
        small_files(KEY_BYTES + 8),
    ):
        said = sottovoce(*answer, where)
    [memory] = anna.glob("heard-*")
    assert complaint(said, os.EX_IOERR).startswith(f"{memory}: File too large; nothing spent; ")
    assert memory.stat().st_size == KEY_BYTES + 8
    assert complaint(sottovoce(*answer, "127.0.0.1:1"), os.EX_UNAVAILABLE).startswith(nobody)


def test_half_a_digest_is_completed(tmp_path: Path) -> None:
    first = next(e for e in TranscriptReader(signed_run().content) if isinstance(e, Sent))
    envelope = decode_envelope(first.envelope)
    path, whole = tmp_path / "heard-1", tmp_path / "heard-2"
    with remembering(whole, bytes(KEY_BYTES)) as memory:
        assert memory.again(envelope)
    with (
        pytest.raises(OSError, match=f"File too large: '{path}'"),
        small_files(KEY_BYTES + 8),
        remembering(path, bytes(KEY_BYTES)) as memory,
        # Whoever calls may take it for something else.
        suppress(OSError),
    ):
        memory.again(envelope)
    assert path.read_bytes() == whole.read_bytes()[: KEY_BYTES + 8]
    with remembering(path, bytes(KEY_BYTES)) as memory:
        assert memory.again(envelope)
    assert path.read_bytes() == whole.read_bytes()


def test_zeros_in_the_place_of_a_digest_are_cut_off(tmp_path: Path) -> None:
    """A loss of power may leave them where the last digest, or the key, was not synced."""
    entries = TranscriptReader(signed_run().content)
    first, second = (
        decode_envelope(sent.envelope)
        for sent in itertools.islice((e for e in entries if isinstance(e, Sent)), 2)
    )
    key, session = bytes(range(KEY_BYTES)), bytes(32)
    path = session_file(tmp_path, "heard", session)
    with remembering(path, key) as memory:
        assert memory.again(first)
    content = path.read_bytes()
    one = (content[KEY_BYTES:],)
    assert noted_in(tmp_path, "heard", session) == (key, one)
    for zeros in (1, DIGEST_BYTES - 1, DIGEST_BYTES):
        path.write_bytes(content + bytes(zeros))
        assert noted_in(tmp_path, "heard", session) == (key, one)
        with remembering(path, key) as memory:
            assert memory.noted == content[KEY_BYTES:]
            assert memory.again(first)
            assert memory.again(second)
        assert path.read_bytes().startswith(content)
        assert path.stat().st_size == KEY_BYTES + 2 * DIGEST_BYTES
    for zeros in (1, KEY_BYTES):
        path.write_bytes(bytes(zeros))
        assert noted_in(tmp_path, "heard", session) == (b"", ())
        with remembering(path, key) as memory:
            assert memory.noted == b""
        assert path.read_bytes() == key


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: content + bytes(2 * DIGEST_BYTES),
        lambda content: content + bytes(DIGEST_BYTES - 1) + b"?",
        lambda content: content[:KEY_BYTES] + bytes(DIGEST_BYTES) + content[-DIGEST_BYTES:],
    ],
)
def test_other_damage_of_a_memory_makes_no_room_for_another_answer(
    damaged: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    entries = TranscriptReader(signed_run().content)
    first, second = (
        decode_envelope(sent.envelope)
        for sent in itertools.islice((e for e in entries if isinstance(e, Sent)), 2)
    )
    path, key = tmp_path / "heard-1", bytes(range(KEY_BYTES))
    with remembering(path, key) as memory:
        assert memory.again(first)
    path.write_bytes(damaged(path.read_bytes()))
    with remembering(path, key) as memory:
        assert [memory.again(each) for each in (first, second)] in ([True, False], [False, False])
    path.write_bytes(bytes(KEY_BYTES) + path.read_bytes()[KEY_BYTES:])
    with pytest.raises(UsageError, match="other records have answered"), remembering(path, key):
        pass


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_under_a_final_name(
    keys: Path, out: Path, tmp_path: Path
) -> None:
    plan = plan_file(tmp_path)
    new = tmp_path / "new"
    new.mkdir()
    transcript, checkpoint = out / "transcript.svt.zst", out / "transcript.checkpoint"
    fork = new / "fork.json"
    write_checkpoint(signed_run().checkpoint, new / "fork.svt")
    (new / "fork.checkpoint").rename(fork)
    before = contents(new)
    with small_files(300):
        for path, command in (
            (new / "r", ("prove", transcript, "anna", "--out", new / "r")),
            (new / "a.html", ("audit", transcript, "--html", new / "a.html")),
            (new / "s.csv", (*QUICK, "--synthetic", new / "s.csv")),
            (new / "p.svg", (*QUICK, "--plot", new / "p.svg")),
            (
                new / first_checkpoint(transcript),
                ("verify", transcript, "--checkpoints", new),
            ),
            (new / "pieces.part", (*EXAMPLE, "--out", new)),
            (new / "keys", ("keys", plan, "--count", 3, "--out", new / "keys")),
        ):
            said = sottovoce(*command)
            assert said.code == 2, command
            assert said.err.startswith("sottovoce: ")
            assert said.err.endswith(f"{path.name}: File too large\n")
            # What is done of a sweep is kept, so that it can go on.
            (new / "pieces.part").unlink(missing_ok=True)
            assert contents(new) == before, command
    assert sottovoce("keys", plan, "--count", 3, "--out", new / "keys").code == 0
    published = checkpoint.read_bytes()
    with small_files(300), pytest.raises(OSError, match="File too large"):
        write_checkpoint(signed_run().checkpoint, transcript)
    assert checkpoint.read_bytes() == published


# Two programs


def test_two_aggregators_do_not_share_a_record(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / PARTIAL
    busy = f"{path}: another program is writing this transcript"
    with aggregating(keys, tmp_path) as (aggregator, where, _):
        for options in ((), ("--force",)):
            said = complaint(aggregate(keys, tmp_path, *options))
            assert said.endswith("another program is taking part from this folder")
            assert complaint(sottovoce(*QUICK, "--out", tmp_path, *options)) == busy
        with pytest.raises(UsageError, match="another program"):
            simulate(VARIANT, RECORDS, path=tmp_path / "transcript.svt.zst")
        everybody_answers(keys, where)
        assert aggregator.wait(timeout=HANGS) == 0
    assert contents(tmp_path).keys() == FILES
    checkpoint = tmp_path / "transcript.checkpoint"
    said = sottovoce("verify", tmp_path / "transcript.svt.zst", "--checkpoint", checkpoint)
    assert said.code == 0, said.out


def test_a_record_is_locked_until_its_result_is_written(out: Path) -> None:
    path = out / "transcript.svt.zst"
    (out / "result.json").unlink()
    path.unlink()
    checkpoint_path(path).unlink()
    with growing(path) as file:
        file.write(REAL)
        file.finish(None)
        assert not partial_path(path).exists()
        with pytest.raises(UsageError, match=r"transcript\.svt\.zst: another program is writing"):
            make_way(path, force=True)
    assert make_way(path, force=True) == out / "transcript.earlier-1"


@pytest.mark.slow
def test_a_killed_aggregator_leaves_its_record(keys: Path, tmp_path: Path) -> None:
    with aggregating(keys, tmp_path) as (aggregator, _, _):
        aggregator.kill()
        aggregator.wait(timeout=HANGS)
    before = contents(tmp_path)
    assert before.keys() == {PARTIAL}
    for said in (aggregate(keys, tmp_path), sottovoce(*QUICK, "--out", tmp_path)):
        assert complaint(said).startswith(f"{tmp_path / PARTIAL}: is the record of a real survey;")
    assert contents(tmp_path) == before
    assert sottovoce(*QUICK, "--out", tmp_path, "--force").code == 0
    assert contents(tmp_path / "transcript.earlier-1") == before


# Links and modes


@pytest.mark.parametrize(("name", "there"), paired([PARTIAL, *sorted(FILES)], [True, False]))
def test_a_link_is_not_followed(name: str, there: bool, keys: Path, tmp_path: Path) -> None:
    out, target = tmp_path / "out", tmp_path / "target"
    out.mkdir()
    if there:
        target.write_bytes(b"kept")
    (out / name).symlink_to(target)
    for said in (aggregate(keys, out), sottovoce(*QUICK, "--out", out)):
        assert complaint(said).startswith(str(out / name))
    said = sottovoce(*QUICK, "--out", out, "--force")
    assert said.code == 0, said.err
    assert (out / "transcript.earlier-1" / name).is_symlink()
    assert contents(out).keys() - {f"transcript.earlier-1/{name}"} == FILES
    assert not any((out / file).is_symlink() for file in FILES)
    assert (target.read_bytes() if target.exists() else None) == (b"kept" if there else None)


@pytest.mark.slow
@pytest.mark.parametrize("there", ["a simulation", "nothing", "its own record"])
def test_another_records_checkpoint_beside_a_simulation_is_kept(
    there: str, held: Path, tmp_path: Path
) -> None:
    path = tmp_path / "transcript.svt.zst"
    assert sottovoce(*QUICK, "--seed", 1, "--out", tmp_path).code == 0
    beside = checkpoint_path(path)
    if there != "its own record":
        shutil.copy(checkpoint_path(held / path.name), beside)
    if there == "nothing":
        path.write_bytes(b"")
    before = contents(tmp_path)
    said = sottovoce(*QUICK, "--seed", 2, "--out", tmp_path)
    if there == "its own record":
        assert said.code == 0
        return
    assert complaint(said).startswith(f"{beside}: is not the checkpoint of {path}; ")
    with pytest.raises(UsageError, match="is not the checkpoint of"):
        simulate(VARIANT, RECORDS, path=path)
    assert contents(tmp_path) == before
    assert sottovoce(*QUICK, "--out", tmp_path, "--force").code == 0
    assert contents(tmp_path / "transcript.earlier-1") == before


@pytest.mark.parametrize("content", thinned([b"", b"{", b"{}"], 2))
def test_what_is_no_checkpoint_beside_a_simulation(content: bytes, tmp_path: Path) -> None:
    assert sottovoce(*QUICK, "--out", tmp_path).code == 0
    beside = tmp_path / "transcript.checkpoint"
    beside.write_bytes(content)
    said = sottovoce(*QUICK, "--out", tmp_path)
    if content:
        assert complaint(said).startswith(f"{beside}: is not the checkpoint of ")
        assert beside.read_bytes() == content
    else:
        assert said.code == 0


def test_the_first_checkpoint_stays_with_its_record(tmp_path: Path) -> None:
    path, name = tmp_path / "transcript.svt.zst", "transcript.first.checkpoint"
    first, *_, last = checkpoints_of(signed_run().content)

    def hold(*, fails: bool) -> None:
        with growing(path) as grown:
            grown.write(REAL)
            grown.keep(first.note)
            if fails:
                raise RuntimeError
            grown.finish(last)

    whole = FILES - {"result.json"} | {name}
    for fails, left in ((True, {PARTIAL, name}), (False, whole)):
        with suppress(RuntimeError):
            hold(fails=fails)
        assert set(contents(tmp_path)) == left
        assert (tmp_path / name).read_text() == first.note
        with pytest.raises(UsageError, match="real survey"):
            make_way(path)
        aside = make_way(path, force=True)
        assert aside is not None
        assert set(contents(aside)) == left
        shutil.rmtree(aside)
    (tmp_path / name).write_text(first.note)
    with pytest.raises(UsageError, match="is the checkpoint of a transcript that is not here"):
        make_way(path)


def test_a_pipe_in_the_place_of_a_companion_is_kept(tmp_path: Path) -> None:
    assert sottovoce(*QUICK, "--out", tmp_path).code == 0
    for name in ("transcript.checkpoint", "result.json"):
        path = tmp_path / name
        path.unlink()
        os.mkfifo(path)
        assert complaint(sottovoce(*QUICK, "--out", tmp_path)).startswith(
            f"{path}: is not a regular file;"
        )
        path.unlink()


@pytest.mark.slow
def test_a_link_beside_a_simulation_is_replaced(tmp_path: Path) -> None:
    out, target = tmp_path / "out", tmp_path / "target"
    target.write_bytes(b"kept")
    assert sottovoce(*QUICK, "--out", out).code == 0
    checkpoint = out / "transcript.checkpoint"
    checkpoint.unlink()
    checkpoint.symlink_to(target)
    assert sottovoce(*QUICK, "--out", out).code == 0
    assert target.read_bytes() == b"kept"
    assert not checkpoint.is_symlink()


def test_a_memory_behind_a_link_is_refused(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "heard"
    target.write_bytes(b"kept")
    path.symlink_to(target)
    with pytest.raises(OSError, match=str(path)), remembering(path, bytes(KEY_BYTES)):
        pass
    assert target.read_bytes() == b"kept"


def piped(path: Path) -> None:
    """A pipe at a path, that nobody writes into or reads from."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def said_alone(*arguments: object) -> tuple[int, str]:
    """A command in a program of its own, that is ended if it waits at a pipe."""
    with Program(*arguments) as asked:
        try:
            _, complained = asked.communicate(timeout=HANGS)
        finally:
            asked.kill()
    return asked.returncode, complained


@pytest.mark.parametrize("name", ["heard", "said", "notices", "attempts", "secret"])
def test_a_pipe_in_a_partys_folder_is_refused(
    name: str, waiting: tuple[Path, str], tmp_path: Path
) -> None:
    keys, where = waiting
    anna = Path(shutil.copytree(keys / "anna", tmp_path / "anna"))
    session = read_member(anna).charter.session.hex()
    path = anna / (name if name in ("secret", "attempts") else f"{name}-{session}")
    piped(path)
    answer = ("answer", anna, "--records", table(tmp_path / "r.csv", *ROWS), "--connect")
    assert said_alone(*answer, where) == (2, f"sottovoce: {path}: is not a regular file\n")


def test_a_pipe_among_checkpoints_is_refused(held: Path, tmp_path: Path) -> None:
    path = tmp_path / first_checkpoint(held / RECORD)
    piped(path)
    code, complained = said_alone("verify", held / RECORD, "--checkpoints", tmp_path)
    assert (code, complained) == (2, f"sottovoce: {path}: is not a regular file\n")


@pytest.mark.parametrize("name", ["heard", "said", "notices", "attempts"])
def test_a_file_of_a_party_with_a_second_name_is_refused(
    name: str, waiting: tuple[Path, str], tmp_path: Path
) -> None:
    keys, where = waiting
    anna = Path(shutil.copytree(keys / "anna", tmp_path / "anna"))
    session = read_member(anna).charter.session.hex()
    path = anna / (name if name == "attempts" else f"{name}-{session}")
    path.unlink(missing_ok=True)
    kept = tmp_path / "kept"
    kept.write_bytes(b"")
    path.hardlink_to(kept)
    answer = ("answer", anna, "--records", table(tmp_path / "r.csv", *ROWS), "--connect")
    said = sottovoce(*answer, where)
    assert complaint(said) == (f"{path}: has another name too, which would be written to as well")
    assert kept.read_bytes() == b""


def test_what_is_written_is_for_its_owner_alone(keys: Path, held: Path, tmp_path: Path) -> None:
    assert modes(*(held / name for name in FILES)) == {0o600}
    assert modes(held, held.parent) == {0o700}
    members = (keys / name for name in ("aggregator", "anna", "bert", "carl"))
    assert modes(keys, *members) == {0o700}
    assert modes(*(path for path in keys.glob("*/*"))) == {0o600}
    with no_mask():
        assert sottovoce("run", f"{OWN}:interrupted", "--out", tmp_path / "new").code == 130
        assert modes(tmp_path / "new" / PARTIAL) == {0o600}
        assert sottovoce(*QUICK, "--out", tmp_path / "new").code == 0
        prove = ("prove", held / "transcript.svt.zst", "anna", "--out", tmp_path / "receipt")
        assert sottovoce(*prove).code == 0
    assert modes(*(tmp_path / "new" / name for name in FILES)) == {0o600}
    assert modes(tmp_path / "new") == {0o700}
    # A proof is for others.
    assert modes(tmp_path / "receipt") == {0o666}
