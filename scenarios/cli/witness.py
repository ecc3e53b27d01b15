"""``sottovoce witness``: cosigning checkpoints of surveys that others hold."""

from __future__ import annotations

import time
from pathlib import Path

import click
import trio

from protocol.errors import UsageError
from scenarios.cli.numbers import Whole
from scenarios.cli.options import trusted_option
from scenarios.cli.paths import READ_FILE, READ_FOLDER
from scenarios.errors import printable
from scenarios.surveys.witnessing.server import serve
from scenarios.surveys.witnessing.state import make_witness, witnessing
from transports.admission import Network


@click.command()
@click.option(
    "--key",
    type=READ_FILE,
    required=True,
    help="The file with the witness's private key.",
)
@click.option(
    "--state",
    type=READ_FOLDER,
    required=True,
    help="The folder for the last checkpoint of each survey, and for evidence of forks. Never "
    "restore it from a copy: a witness that forgets can cosign a fork.",
)
@click.option(
    "--new-key",
    metavar="NAME",
    help="Make the key and an empty state first, for a witness of this name, such as "
    "witness.example.org/1. Nothing is overwritten.",
)
@click.option(
    "--trust",
    "logs",
    multiple=True,
    metavar="sottovoce/SESSION/KEY",
    help="The origin of a survey to cosign, as 'sottovoce keys' prints it; repeat for each.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=Whole(0, 65535),
    default=8089,
    show_default=True,
    help="The port to listen at; 0 takes a free one, which is printed.",
)
@trusted_option
def witness(
    key: Path,
    state: Path,
    new_key: str | None,
    logs: tuple[str, ...],
    host: str,
    port: int,
    trusted: tuple[Network, ...],
) -> None:
    """Cosign the checkpoints of surveys, each only if it extends the last one.

    An aggregator asks over HTTP (C2SP, tlog-witness). With --new-key and without --trust, make the
    key, print its verifier key, and end.
    """
    if new_key is not None:
        click.echo(make_witness(key, state, new_key).text)
        if not logs:
            return
    if not logs:
        raise UsageError("expected --trust ORIGIN for each survey, or --new-key NAME")

    def say(line: str) -> None:
        click.echo(line, err=True)

    with witnessing(key, state, logs, time.time) as opened:
        say(printable(f"witness {opened.key.text}"))

        async def main() -> None:
            await serve(
                opened,
                host=host,
                port=port,
                listening=lambda where: say(f"listening on {where}"),
                said=say,
                trusted=trusted,
            )

        trio.run(main)
