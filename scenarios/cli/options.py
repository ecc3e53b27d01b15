"""Arguments, options and output that commands share."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from protocol.errors import UsageError
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.paths import READ_FILE, READ_PATH, TEXT_WITH_FILE, WrittenFolder
from scenarios.cli.values import F, frozen_options, option, shared
from scenarios.errors import printable, say
from scenarios.files.budget import (
    BYTES_PER_BYTE,
    BYTES_PER_SECOND,
    MEGABYTES,
    SECONDS,
    SMALL,
    end_budget,
    usual_budget,
    within_budget,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from protocol.transcript.checkpoints import SignedCheckpoint
    from protocol.transcript.cosignatures import Cosigned
    from scenarios.statement.statement import Statement

# Line breaks in JSON occur only between values.
_NUMBERS = re.compile(r"(?<=\[)\n *((?:[-+.\deE]+|null)(?:,\n *(?:[-+.\deE]+|null))*)\n *(?=\])")
_BREAK = re.compile(r"\n *")


def _digest(ctx: click.Context, param: click.Parameter, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        content = bytes.fromhex(text)
    except ValueError:
        content = b""
    if len(content) != 32:
        raise UsageError(f"--digest {text!r}: expected 64 hexadecimal digits")
    return content


def _settings(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {text!r}: expected NAME=VALUE")
        given[name] = value
    return given


def set_option(
    complete: Callable[[click.Context, click.Parameter, str], list[CompletionItem]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--set NAME=VALUE``; the command gets ``settings``, texts by name."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_settings,
        shell_complete=complete,
        help="Set a parameter; repeat for each.",
    )


def budget_options(command: F) -> F:
    """``--seconds`` and ``--memory``, for commands that read untrusted files."""

    @click.option(
        "--seconds",
        type=Amount(min=0, min_open=True),
        help=f"How long it may take, by default {SECONDS} s and one more for every "
        f"{BYTES_PER_SECOND:,} bytes of the files.",
    )
    @click.option(
        "--memory",
        type=Whole(min=1),
        metavar="MB",
        help=f"How much memory it may take beyond what it begins with, by default {MEGABYTES} MB "
        f"and {BYTES_PER_BYTE} for every MB of the files above {SMALL // 2**20}.",
    )
    @functools.wraps(command)
    def within(seconds: float | None, memory: int | None, **given: Any) -> Any:
        params = click.get_current_context().params.values()
        usual = usual_budget(value for value in params if isinstance(value, Path))
        with within_budget(seconds or usual[0], memory or usual[1]):
            return command(**given)

    return cast(F, within)


def is_given(*flags: str) -> bool:
    """True if one of these options is on the command line."""
    return bool(_given(flags))


def refuse(flags: Iterable[str], why: str) -> None:
    """Raise if one of these options is on the command line.

    Args:
        flags: the options.
        why: the error's text after the option.

    Raises:
        UsageError: one is.
    """
    for flag in _given(flags):
        raise UsageError(f"{flag}{why}")


def _given(flags: Iterable[str]) -> list[str]:
    """Options from ``flags`` that are on the command line, in the order of the command's help."""
    among, context = {*flags}, click.get_current_context()
    return [
        param.opts[0]
        for param in context.command.params
        if param.opts[0] in among
        and context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]


transcript_argument = click.argument("transcript", type=READ_PATH)
digest_option = click.option(
    "--digest",
    metavar="HEX",
    callback=_digest,
    help="The digest published elsewhere, 64 hexadecimal digits: the transcript must have it.",
)
witnesses_option = click.option(
    "--witnesses",
    type=Whole(min=1),
    metavar="N",
    help="How many of the witnesses are enough, by default all.",
)
own_variant_option = click.option(
    "--variant",
    type=TEXT_WITH_FILE,
    metavar="PATH.py:Class",
    help="The variant's file and class, where the survey's is not a built-in one: it must be the "
    "very file that the charter pins.",
)
variant_option = click.option(
    "--variant",
    type=TEXT_WITH_FILE,
    metavar="PATH.py:Class",
    help="The class of a variant of your own; a built-in one is found by its name.",
)
delta_option = click.option(
    "--delta",
    type=Amount(min=0, max=1, min_open=True, max_open=True),
    required=True,
    help="The probability with which epsilon may not hold.",
)
SEEDS = Whole(0, 2**64 - 1)
"""Type of a seed."""

seed_option = click.option(
    "--seed",
    type=SEEDS,
    default=1,
    show_default=True,
    help="Decides all randomness: the same seed gives the same result.",
)
target_option = click.option(
    "--target",
    metavar="margins|pairs|A,B",
    default="margins",
    show_default=True,
    help="Which tables are wanted: every attribute, every pair, or one table of these attributes.",
)
force_option = click.option(
    "--force",
    is_flag=True,
    help="Move the record of a real survey in the folder of --out aside, with its checkpoint and "
    "result, into a new folder in it. Without --force the command stops there: such a record is "
    "never replaced.",
)
details_option = click.option(
    "--details",
    is_flag=True,
    help="Print what the verdicts rest on too: figures of each attribute, scales, all checks, "
    "messages and digests.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else."
)


@frozen_options
class PublishedCheckpoint:
    """A checkpoint published elsewhere, and the witnesses that must have cosigned it."""

    checkpoint: Path | None = option(
        "--checkpoint",
        type=READ_FILE,
        help="A checkpoint published elsewhere: the transcript must extend it.",
    )
    witness_keys: tuple[str, ...] = option(
        "--witness-key",
        multiple=True,
        metavar="NAME+ID+KEY",
        help="The verifier key of a witness that must have cosigned --checkpoint; repeat for each.",
    )
    witnesses: int | None = shared(witnesses_option)

    def read(self) -> tuple[SignedCheckpoint | None, Cosigned | None]:
        """The checkpoint, and which of the witnesses demanded have cosigned it.

        Raises:
            UsageError: the options do not fit together, or one is malformed.
        """
        if self.witness_keys and self.checkpoint is None:
            raise UsageError("--witness-key: expected --checkpoint too, the cosigned one")
        if self.witnesses is not None and not self.witness_keys:
            raise UsageError("--witnesses: expected --witness-key too")
        if self.checkpoint is None:
            return None, None
        from parties.keeping.checkpoints import checkpoint_note
        from protocol.messages import PartyId
        from protocol.session.roster import check_keys
        from protocol.transcript.checkpoints import read_note
        from protocol.transcript.cosignatures import cosigned, read_witness_key

        note = checkpoint_note(self.checkpoint)
        if not self.witness_keys:
            return read_note(note), None
        try:
            keys = [read_witness_key(key) for key in self.witness_keys]
            check_keys([(PartyId(key.name), key.key) for key in keys])
            return read_note(note), cosigned(note, keys, needed=self.witnesses)
        except ValueError as error:
            raise UsageError(f"--witness-key: {error}") from error


def clear(out: Path, *, force: bool, before: Callable[[], object] = lambda: None) -> None:
    """Prepare a folder for a record; print a line if an old record was moved aside.

    Args:
        force: move the record of a real survey aside.
        before: called before it is moved.

    Raises:
        UsageError: it holds the record of a real survey, or another program writes there.
    """
    # Imported late: commands of parties never read whole records.
    from parties.keeping.record_names import TRANSCRIPT
    from parties.keeping.records import make_way

    moved = make_way(out / TRANSCRIPT, force=force, before=before)
    if moved is not None:
        say(f"the record that was there is now in {moved}")


def json_text(values: object) -> str:
    """Values as the text that commands print and write, a row of numbers on a line."""
    from scenarios.wording.formatting import as_json

    indented = json.dumps(as_json(values), indent=1)
    return _NUMBERS.sub(lambda row: _BREAK.sub(" ", row[1]), indented)


def print_json(values: object) -> None:
    """Print values as JSON and nothing else; whatever the command's budget, all of it."""
    text = json_text(values)
    end_budget()
    click.echo(text)


def print_report(parts: Iterable[RenderableType], *, soft_wrap: bool = True) -> None:
    """Print the parts of a report, all or none, and whatever the command's budget.

    Args:
        parts: parts of the report.
        soft_wrap: do not wrap lines outside a terminal.
    """
    from rich.console import Console

    from scenarios.wording.plain import wrapped

    console = Console(soft_wrap=soft_wrap)
    if console.is_terminal:
        # By default it would break words.
        console.soft_wrap = False
        parts = map(wrapped, parts)
    with console.capture() as rendered:
        for part in parts:
            console.print(part)
    end_budget()
    console.file.write(rendered.get())
    console.file.flush()


def print_statement(said: Statement, *, as_json: bool = False, details: bool = True) -> None:
    """Print a statement for a person, or only its values as JSON.

    Args:
        said: the result.
        as_json: print its values.
        details: False to leave out what ``--details`` would show.
    """
    if as_json:
        print_json(said.values)
    else:
        from scenarios.report.terminal.statement import statement_report

        wide = any(section.place == "result" for section in said.sections)
        print_report(statement_report(said, details=details), soft_wrap=not wide)


def parse_address(text: str) -> tuple[str, int]:
    """The host and the port in ``HOST:PORT``.

    Raises:
        UsageError: the text is not an address.
    """
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal()
    if not colon or not host or "://" in text or not is_port or int(port) > 65535:
        high = ", with a port up to 65535" if is_port else ""
        hint = ", without ://" if "://" in text else high
        raise UsageError(f"{text!r}: expected HOST:PORT{hint}")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise UsageError(f"{text!r}: {host!r} is not a valid host name") from error
    return host.strip("[]"), int(port)


class _Trusted(click.ParamType):  # type: ignore[type-arg]  # takes none before click 8.4
    name = "address"

    def convert(self, value: object, param: object, ctx: click.Context | None) -> object:
        from transports.admission import trusted_network

        try:
            return trusted_network(str(value))
        except ValueError as error:
            self.fail(str(error))


trusted_option = click.option(
    "--trusted-address",
    "trusted",
    type=_Trusted(),
    multiple=True,
    metavar="ADDRESS[/PREFIX]",
    help="An address or a network that always gets a connection, even when strangers have taken "
    "all places; repeat for each. Behind a proxy, name the proxy's address.",
)


def print_page(path: Path) -> None:
    """Print that a page can be opened."""
    click.echo(f"Open {printable(str(path))} in a browser.")


def out_option(what: str, *names: str) -> Callable[[F], F]:
    """``--out FOLDER``, which must be given; the command writes files of these names into it."""
    return click.option("--out", type=WrittenFolder(*names), required=True, help=what)


def print_facts(facts: Sequence[tuple[str, str, bool | None]]) -> None:
    """Print facts on a survey that is to come, each with its subject and whether it fits."""
    width = max(len(about) for about, _, _ in facts)
    words = {True: "fits", False: "does NOT fit", None: ""}
    for about, says, fits in facts:
        click.echo(printable(" ".join(filter(None, (f"{about:{width}} ", words[fits], says)))))
