"""Small files for every command, each made when it is first asked for."""

from __future__ import annotations

import contextlib
import shutil
from functools import cached_property
from pathlib import Path

from parties.keeping.attempts import counting
from parties.keeping.checkpoints import checkpoint_note, read_checkpoint
from parties.keeping.members import key_secret
from parties.keeping.record_names import checkpoint_path
from protocol import AGGREGATOR, PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import log_origin
from protocol.transcript.cosignatures import WitnessKey, cosign, with_lines
from protocol.variants import RRIndependent
from scenarios import Outcome, simulate
from scenarios.cli.example_variants import HABITS, varied_respondents
from scenarios.surveys.holding.aggregating import aggregate_survey
from scenarios.surveys.members import read_member
from scenarios.surveys.witnessing.state import make_witness
from tests.scenarios import command, survey_folders
from tests.scenarios.command import sottovoce
from tests.scenarios.linked_surveys import in_days
from tests.scenarios.survey_folders import PLANS, WHO, hold, make_folders

ATTRIBUTES = """
[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["young", "middle", "old"]
"""
TERMS = 'title = "Health"\nepsilon = 2.0\nquorum = 2\nmax_records = 30\n'
ROWS = ("no,young", "yes,old", "no,middle", "no,old", "yes,young", "no,old") * 5
QUIET = '''\
"""A variant in a file of its own, as a real survey may have one."""

from protocol import FrequencyOracle, KeepUniform


class Quiet(FrequencyOracle, frozen=True):
    """Keeps an answer with probability 0.6."""

    name = "quiet"

    @property
    def randomizer(self) -> KeepUniform:
        """The same for everybody."""
        return KeepUniform.with_keep(self.survey.cells, p=0.6)
'''
CLIENTS = '''\
"""What an attack can be made on, beside variants."""

import random

from protocol import KeepUniform


def truthful(value):
    return value


def noisy(value):
    return value if random.random() < 0.6 else random.choice("ab")


RANDOMIZER = KeepUniform.with_keep(3, p=0.5)
'''


COSIGNING, SILENT = (Identity(PartyId("witness"), bytes([n]) * 32) for n in (1, 2))


class CrashedError(Exception):
    """The aggregator is gone."""


def _ran(*arguments: object) -> None:
    said = sottovoce(*arguments)
    assert said.code == 0, said.err


class Inputs:
    """Paths and texts by their names, for ``str.format_map``.

    Args:
        folder: where they are made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> object:
        return getattr(self, name)

    def _write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        return path

    # Tables and plans

    @cached_property
    def table(self) -> Path:
        return survey_folders.table(self._folder / "table.csv", *ROWS)

    @cached_property
    def others(self) -> Path:
        """As many other answers."""
        return survey_folders.table(self._folder / "others.csv", *["yes,old"] * len(ROWS))

    @cached_property
    def loud(self) -> Path:
        """The answers of the table in capital letters."""
        return survey_folders.table(self._folder / "loud.csv", *(row.upper() for row in ROWS))

    @cached_property
    def people(self) -> Path:
        rows = (f"p{place},{row}" for place, row in enumerate(ROWS))
        return survey_folders.people_table(self._folder / "people.csv", *rows)

    @cached_property
    def numbers(self) -> Path:
        """Numbers, texts that differ by case, rare ones, and many different ones."""
        lines = ["steps,smokes,drinks,town"]
        for n in range(300):
            smokes = ("yes", "Yes", "no")[n % 3]
            drinks = "often" if n > 9 else f"x{n % 5}"
            lines.append(f"{n % 50},{smokes},{drinks},t{n % 7}")
        return self._write("numbers.csv", "\n".join(lines) + "\n")

    @cached_property
    def dictionary(self) -> Path:
        """A data dictionary of REDCap."""
        header = "Variable / Field Name,Field Type,Field Label"
        choices = '"Choices, Calculations, OR Slider Labels"'
        rows = ("number,text,Number,", "smokes,yesno,Do you smoke?,")
        return self._write("dictionary.csv", "\n".join((f"{header},{choices}", *rows)) + "\n")

    @cached_property
    def bare(self) -> Path:
        """A table whose first row looks like a record."""
        return self._write(
            "bare.csv", "".join(f"{20 + n % 50},{'yes' if n % 3 else 'no'}\n" for n in range(90))
        )

    @cached_property
    def plan(self) -> Path:
        return self._write("plan.toml", TERMS + ATTRIBUTES)

    @cached_property
    def forgiving(self) -> Path:
        """The plan, for a table in capital letters."""
        text = (TERMS + ATTRIBUTES).replace("categories", "ignore_case = true\ncategories")
        return self._write("forgiving.toml", text)

    @cached_property
    def summed(self) -> Path:
        return self._write("summed.toml", PLANS["secure-sum"])

    @cached_property
    def taxes(self) -> Path:
        """One question."""
        text = 'title = "Taxes"\n[[attributes]]\nname = "cheats"\ncategories = ["no", "yes"]\n'
        return self._write("taxes.toml", text)

    @cached_property
    def cheats(self) -> Path:
        return self._write("cheats.csv", "cheats\n" + "no\n" * 9 + "yes\n")

    @cached_property
    def bits(self) -> Path:
        """A plan whose tables of pairs of attributes can disagree."""
        terms = 'title = "Bits"\nvariant = "marg-ps"\nk = 2\nepsilon = 1.0\n'
        asked = '[[attributes]]\nname = "{}"\ncategories = ["0", "1"]\n'
        return self._write("bits.toml", terms + "".join(map(asked.format, "abc")))

    @cached_property
    def bit_rows(self) -> Path:
        return self._write("bits.csv", "a,b,c\n" + "0,1,0\n1,1,0\n0,0,1\n" * 20)

    @cached_property
    def margins(self) -> Path:
        """Of a population."""
        return self._write("margins.csv", "age,share\nyoung,0.5\nmiddle,0.2\nold,0.3\n")

    @cached_property
    def town_margins(self) -> Path:
        return self._write("town.csv", "smokes,share\nno,0.9\nyes,0.1\n")

    @cached_property
    def habits_margins(self) -> Path:
        return self._write("habits.csv", "smokes,share\nno,0.9\nyes,0.1\n")

    @cached_property
    def drop(self) -> Path:
        return self._write("drop.toml", "drop = 0.5\n")

    @cached_property
    def keep(self) -> Path:
        return self._write("keep.toml", "p = 0.9\n")

    @cached_property
    def ids(self) -> Path:
        return self._write("names.txt", "anna\nbert\n")

    @cached_property
    def adult(self) -> Path:
        command.write_adult(self._folder / "adult", 12)
        return self._folder / "adult"

    @cached_property
    def fewer(self) -> Path:
        """Another folder of raw data."""
        command.write_adult(self._folder / "fewer", 9)
        return self._folder / "fewer"

    # Code

    @cached_property
    def own(self) -> Path:
        return command.OWN

    @cached_property
    def clients(self) -> Path:
        return self._write("clients.py", CLIENTS)

    @cached_property
    def quiet(self) -> str:
        return f"{self._write('quiet.py', QUIET)}:Quiet"

    @cached_property
    def quiet_plan(self) -> Path:
        _, attributes = self.quiet, ATTRIBUTES
        return self._write(
            "quiet.toml", f'title = "Habit"\nvariant = "quiet.py:Quiet"\n{attributes}'
        )

    @cached_property
    def leaking(self) -> str:
        """A variant that gives its record away to a hostile aggregator."""
        return f"{command.ROOT}/tests/protocol/attack/planted/reports.py:Unworried"

    @cached_property
    def scripts(self) -> Path:
        """The folder with what is found of it."""
        out = self._folder / "attacked"
        attack = ("attack", self.leaking, "--active", "--scripts", 12, "--trials", 50)
        assert sottovoce(*attack, "--out", out).code == 1
        return out

    # Records of simulations

    def _recorded(self, name: str, *arguments: object) -> Path:
        _ran("run", *arguments, "--out", self._folder / name)
        return self._folder / name / "transcript.svt.zst"

    @cached_property
    def record(self) -> Path:
        tried = (self.plan, "--records", self.table, "--seed", 1, "--parties", 5)
        return self._recorded("record", *tried)

    @cached_property
    def checkpoint(self) -> Path:
        return checkpoint_path(self.record)

    @cached_property
    def contradiction(self) -> Path:
        """A checkpoint of the same session, signed by the same key, over other answers."""
        tried = (self.plan, "--records", self.others, "--seed", 1, "--parties", 5)
        return checkpoint_path(self._recorded("contradiction", *tried))

    @cached_property
    def checkpoints(self) -> Path:
        """Every checkpoint of the record."""
        _ran("verify", self.record, "--checkpoints", self._folder / "checkpoints")
        return self._folder / "checkpoints"

    @cached_property
    def early(self) -> Path:
        return min(self.checkpoints.iterdir(), key=lambda path: read_checkpoint(path).size)

    @cached_property
    def middle(self) -> Path:
        """The last checkpoint but one."""
        sized = sorted(self.checkpoints.iterdir(), key=lambda path: read_checkpoint(path).size)
        return sized[-2]

    @cached_property
    def consistency(self) -> Path:
        path = self._folder / "record.consistency"
        _ran("prove", self.record, "--since", self.early, "--out", path)
        return path

    @cached_property
    def evidence(self) -> Path:
        """Two checkpoints of one size, signed by one key."""
        path = self._folder / "evidence.json"
        given = ("--checkpoint", self.contradiction, "--evidence", path)
        assert sottovoce("verify", self.record, *given).code == 1
        return path

    @cached_property
    def loud_record(self) -> Path:
        """Of a plan that takes answers in capital letters."""
        return self._recorded("loud", self.forgiving, "--records", self.loud, "--seed", 1)

    @cached_property
    def bit_record(self) -> Path:
        return self._recorded("bits", self.bits, "--records", self.bit_rows, "--seed", 1)

    @cached_property
    def own_record(self) -> Path:
        return self._recorded("own", f"{self.own}:roll-call")

    # A survey that was held

    @cached_property
    def _published(self) -> list[Outcome]:
        return []

    @cached_property
    def keys(self) -> Path:
        """The members' folders, after the survey; each paid from a purse beside its folder."""
        (self._folder / "survey").mkdir()
        keys = make_folders(self._folder / "survey")
        hold(keys, self._folder / "held", dict.fromkeys(WHO), publish=self._published.append)
        return keys

    @cached_property
    def held(self) -> Path:
        """The folder with its record."""
        return self.keys.parent.with_name("held")

    @cached_property
    def outcome(self) -> Outcome:
        """A larger survey's, to be published."""
        return simulate(
            RRIndependent.with_keep(HABITS, 0.6), varied_respondents(HABITS, 30), seed=1
        )

    @cached_property
    def receipt(self) -> Path:
        path = self._folder / "anna.receipt"
        _ran("prove", self.held / "transcript.svt.zst", "anna", "--out", path)
        return path

    # Members' folders

    def _keys_for(self, name: str, plan: Path) -> Path:
        _ran("keys", plan, "--count", 3, "--out", self._folder / name)
        return self._folder / name

    @cached_property
    def fresh(self) -> Path:
        """Of a survey that nobody has held."""
        return self._keys_for("fresh", self.plan)

    @cached_property
    def quiet_keys(self) -> Path:
        return self._keys_for("quiet-keys", self.quiet_plan)

    @cached_property
    def backup(self) -> Path:
        """Of an aggregator that has begun."""
        path = self._folder / "backup"
        _ran("backup", self.begun / "aggregator", path, "--out", self.begun / "result")
        return path

    @cached_property
    def begun(self) -> Path:
        """An aggregator's folder, and beside it the record of the attempt that it has begun."""
        folder = self._keys_for("begun", self.plan)
        (folder / "result").mkdir()
        (folder / "nothing").mkdir()

        def crash(_: str) -> None:
            raise CrashedError

        with contextlib.suppress(CrashedError):
            aggregate_survey(
                read_member(folder / AGGREGATOR),
                host="127.0.0.1",
                port=0,
                transcript=folder / "result" / "transcript.svt.zst",
                joining=60.0,
                listening=crash,
            )
        return folder

    # Joining a survey of a variant in a file of its own

    @cached_property
    def invited(self) -> Path:
        """An organiser's folder."""
        folder = self._folder / "invited"
        _ran("invite", self.quiet_plan, "--party", "anna", "--out", folder)
        return folder

    @cached_property
    def invitation(self) -> Path:
        return self.invited / "invitations" / "anna.json"

    @cached_property
    def anna(self) -> Path:
        """The folder of a party that has asked to be admitted."""
        folder = self._folder / "anna"
        _ran("join", self.invitation, "--out", folder, "--variant", self.quiet)
        return folder

    @cached_property
    def admitted(self) -> Path:
        """An organiser's folder, when everybody is admitted."""
        folder = self._folder / "admitted"
        shutil.copytree(self.invited, folder)
        _ran("admit", folder, self.anna / "request.json")
        return folder

    @cached_property
    def admission(self) -> Path:
        """What the organiser answers her."""
        folder = self._folder / "sealed"
        shutil.copytree(self.admitted, folder)
        _ran("seal", folder, "--variant", self.quiet)
        return folder / "sealed" / "admissions" / "anna.json"

    # Links

    @cached_property
    def more_ids(self) -> Path:
        return self._write("more.txt", "anna\nbert\ncarl\n")

    @cached_property
    def closing_plan(self) -> Path:
        terms = TERMS.replace("max_records = 30\n", "")
        return self._write("closing.toml", f"{terms}closes = {in_days(20)}\n{ATTRIBUTES}")

    def _linked_for(self, name: str, *options: object) -> Path:
        made = ("--url", "https://a.org/", "--out", self._folder / name, *options)
        _ran("links", self.closing_plan, "--count", 4, "--spare", 1, *made)
        return self._folder / name

    @cached_property
    def linked(self) -> Path:
        """The folder with links, and with the aggregator's folder."""
        return self._linked_for("linked")

    @cached_property
    def collected(self) -> Path:
        """Likewise, of a survey that is over."""
        folder = self._linked_for("collected")
        with counting(folder / AGGREGATOR) as counter:
            counter.take(lambda _: b"a header")
            counter.begin()
            counter.finish()
        return folder

    @cached_property
    def certificate(self) -> Path:
        """A certificate and its key in one file."""
        files = [self.linked / AGGREGATOR / name for name in ("certificate.pem", "identity.key")]
        return self._write("both.pem", "".join(file.read_text() for file in files))

    @cached_property
    def organiser(self) -> Path:
        """The folder of an organiser who has a key, and nothing else."""
        _ran("links", "--key", self._folder / "organiser")
        return self._folder / "organiser"

    @cached_property
    def organiser_key(self) -> str:
        """The public key."""
        path = self.organiser / "identity.key"
        return Identity(AGGREGATOR, key_secret(path.read_bytes(), path)).public.hex()

    @cached_property
    def received(self) -> Path:
        """The aggregator's folder, as made for the organiser by somebody else."""
        return self._linked_for("apart", "--organiser", self.organiser_key) / AGGREGATOR

    # Witnesses

    @cached_property
    def witness(self) -> Path:
        """A folder with a witness's key and its state."""
        make_witness(
            self._folder / "witness" / "key", self._folder / "witness" / "state", "w.org/1"
        )
        return self._folder / "witness"

    @cached_property
    def stranger(self) -> Path:
        """Another witness's."""
        folder = self._folder / "stranger"
        make_witness(folder / "key", folder / "state", "w.org/2")
        return folder

    @cached_property
    def asked(self) -> str:
        """The verifier key of the witness that has cosigned."""
        return WitnessKey("w.org/3", COSIGNING.public).text

    @cached_property
    def silent(self) -> str:
        """The verifier key of one that has not."""
        return WitnessKey("w.org/4", SILENT.public).text

    @cached_property
    def cosigned(self) -> Path:
        """The record's checkpoint, cosigned."""
        note = checkpoint_note(self.checkpoint)
        text = note.partition("\n\n")[0] + "\n"
        line = cosign(COSIGNING, name="w.org/3", text=text.encode(), time=1_800_000_000)
        return self._write("cosigned.checkpoint", with_lines(note, [line]))

    @cached_property
    def origin(self) -> str:
        checkpoint = read_checkpoint(self.checkpoint)
        return log_origin(checkpoint.session, checkpoint.key)

    @cached_property
    def other_origin(self) -> str:
        checkpoint = read_checkpoint(self.held / "transcript.checkpoint")
        return log_origin(checkpoint.session, checkpoint.key)
