"""The command line ``sottovoce``.

Exit 2 with one line for bad input, 1 for a failed check, 3 if it could not finish, 4
if a result could not be checked.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from scenarios.cli.group import LazyGroup, Place, option_hint
from scenarios.cli.numbers import extra_hint
from scenarios.data import DatasetError
from scenarios.errors import (
    CANNOT_FINISH,
    COMPLAINT,
    STOPPED,
    CannotFinishError,
    EngineError,
    StoppedError,
    WitnessError,
    say,
)
from scenarios.files.shadows import file_in_the_way
from scenarios.streams import make_writable, open_closed

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

CRASHED = 70
"""The exit code after a bug, as of ``sysexits.h``: no verdict on anything."""

FIRST = {
    "list": Place("listing", "List the scenarios and their parameters.", "list_"),
    "run": Place("run", "Run a scenario, a built-in one or one of your own."),
    "verify": Place("transcripts.verify", "Check that a transcript is what was recorded."),
    "audit": Place("transcripts.audit", "Audit a transcript: who was counted, what was learned."),
    "plan": Place("surveys.planning", "Propose a plan for a table of your own."),
    "estimate": Place("surveys.estimating", "Estimate tables from a transcript, with intervals."),
}

TRY = {
    "tabulate": Place(
        "tabulate", "Draw the counts of many respondents' reports by their law.", "tabulate_"
    ),
    "test": Place("test", "Test whether a variant keeps its contract, also under faults."),
    "attack": Place("attacks.attack", "Try whether a variant reveals more than its ledger says."),
}

DESIGN = {
    "design": Place("surveys.designing", "Rank the variants for a plan by predicted error."),
    "compare": Place("surveys.comparing", "Measure the errors of variants on records of your own."),
    "compose": Place("composition", "Compute what randomized reports cost together."),
    "shuffle": Place("composition", "Compute what reports cost after they were shuffled."),
}

HOLD = {
    "preflight": Place("surveys.preflight", "Check a plan or a member's folder before a survey."),
    "rehearse": Place("surveys.holding", "Hold a survey among processes of this machine."),
    "keys": Place("surveys.enrolling", "Make everybody's keys, for a rehearsal or a trial."),
    "invite": Place("surveys.enrolling", "Draw a one-time invitation for every party."),
    "admit": Place("surveys.enrolling", "Admit the parties that ask with an unused invitation."),
    "seal": Place("surveys.enrolling", "Fix the roster of a survey: all who are admitted."),
    "links": Place("surveys.linking", "Make a link for every person who answers from a web page."),
    "withdraw": Place("surveys.linking", "Take no answer by a link any more."),
    "aggregate": Place("surveys.holding", "Hold a survey as the aggregator."),
    "collect": Place("surveys.collecting", "Take answers from a web page until a survey closes."),
    "status": Place("surveys.status", "Show the attempts at a survey, and what was done by hand."),
    "close": Place("surveys.holding", "End the joining, or the collecting, of a survey."),
    "abandon": Place("surveys.holding", "Declare that an interrupted attempt will not go on."),
    "backup": Place("surveys.backing_up", "Copy an aggregator's folder and record to a file."),
    "restore": Place("surveys.backing_up", "Restore both from such a file."),
    "page": Place("transcripts.receipts", "Write a web page on which respondents check receipts."),
}

ANSWER = {
    "join": Place("surveys.enrolling", "Make your own keys, and ask to be admitted with them."),
    "accept": Place("surveys.enrolling", "Take your place in a survey once you are admitted."),
    "answer": Place("surveys.answering", "Answer a survey as a party."),
    "purse": Place(
        "surveys.purse", "Show what respondents have spent in all surveys, or merge it."
    ),
    "check": Place("transcripts.receipts", "Check a receipt: the reports of a party are counted."),
}

JUDGE = {
    "show": Place("transcripts.inspect", "Show the messages of a transcript."),
    "query": Place("transcripts.inspect", "Query a transcript in SQL."),
    "export": Place("transcripts.inspect", "Write the tables of a transcript as Parquet files."),
    "explain": Place("surveys.explaining", "Draw what one respondent sent, and what it reveals."),
    "prove": Place("transcripts.receipts", "Write a receipt: a party's reports are counted."),
    "consistency": Place(
        "transcripts.consistency", "Check that nothing was taken back between checkpoints."
    ),
    "evidence": Place(
        "transcripts.consistency", "Check evidence that a key signed contradictions."
    ),
    "witness": Place("witness", "Cosign checkpoints that extend the one before."),
}

SECTIONS: Mapping[str, Mapping[str, Place]] = {
    "For a first hour": FIRST,
    "Try a protocol": TRY,
    "Design a survey": DESIGN,
    "Hold a survey": HOLD,
    "Answer a survey": ANSWER,
    "Judge a record": JUDGE,
}
"""Commands with their modules and summaries, by purpose."""

COMMANDS = {name: place for places in SECTIONS.values() for name, place in places.items()}
"""All commands by name."""


@click.group(
    cls=LazyGroup, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="sottovoce", prog_name="sottovoce")
def commands() -> None:
    """Run survey protocols that protect every answer, record what was said, audit the record."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit."""
    open_closed()
    make_writable()
    try:
        _run(arguments)
    except Exception:
        traceback.print_exc()
        sys.exit(CRASHED)


def _run(arguments: Sequence[str] | None) -> None:
    if sys.platform == "win32":
        # Locks and file modes would silently have no effect.
        _complain(
            "Windows is not supported: it lacks the file locks and file modes that protect keys "
            "and records; use Linux, macOS or WSL"
        )
        sys.exit(2)
    in_the_way = file_in_the_way()
    if in_the_way is not None:
        _complain(in_the_way)
        sys.exit(2)
    from protocol.errors import ProtocolError, SurveyError, UsageError
    from protocol.surveys.limits import TooMuchError

    try:
        code = commands.main(
            args=None if arguments is None else list(arguments), standalone_mode=False
        )
    except BaseExceptionGroup as group:
        # Tasks pass an interrupt on in a group; anything else in one is a bug.
        interrupted, rest = group.split(KeyboardInterrupt)
        if interrupted is None or rest is not None:
            raise
        _say_interrupted()
        sys.exit(INTERRUPTED)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        _say_interrupted(*error.args)
        sys.exit(INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        sys.exit(2)
    except click.NoSuchOption as error:
        hint = "" if error.ctx is None else option_hint(error, error.ctx)
        _complain(f"no option {error.option_name!r}{hint}")
        sys.exit(2)
    except click.ClickException as error:
        given = sys.argv[1:] if arguments is None else arguments
        _complain(error.format_message() + extra_hint(error, given))
        sys.exit(2)
    except (UsageError, DatasetError, SurveyError) as error:
        _complain(str(error))
        sys.exit(2)
    except StoppedError as error:
        _complain(str(error))
        sys.exit(STOPPED)
    except (CannotFinishError, TooMuchError) as error:
        _complain(str(error))
        sys.exit(CANNOT_FINISH)
    except ProtocolError as error:
        _complain("; ".join((str(error), *getattr(error, "__notes__", ()))))
        sys.exit(1)
    except (EngineError, WitnessError) as error:
        _complain(str(error))
        sys.exit(1)
    except BrokenPipeError:
        # The reader of the output is gone; otherwise the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        _complain("out of memory")
        sys.exit(2)
    except OSError as error:
        from parties.keeping.writing import reason

        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{reason(error)}")
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def script(file: str) -> None:
    """Run a scenario file as a script: ``file.py [NAME] [OPTIONS]``, like ``sottovoce run``."""
    arguments = sys.argv[1:]
    target = str(Path(file))
    if arguments and not arguments[0].startswith("-"):
        target = f"{target}:{arguments.pop(0)}"
    main(["run", target, *arguments])


def _say_interrupted(*more: object) -> None:
    """Report in one line that Ctrl-C ended a command, followed by ``more``."""
    say("; ".join(("interrupted", *map(str, more))))


def _complain(text: str) -> None:
    say(f"{COMPLAINT}{' '.join(text.split())}")
