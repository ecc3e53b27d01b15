"""``sottovoce collect``: people answer from a web page, until the survey closes."""

from __future__ import annotations

import functools
import ipaddress
from pathlib import Path

import click

from parties.keeping.record_names import TRANSCRIPT
from protocol.errors import UsageError
from scenarios.cli.options import parse_address
from scenarios.cli.paths import READ_FILE
from scenarios.cli.surveys.answering import member_in
from scenarios.cli.surveys.holding import HeldOptions, hold_survey
from scenarios.cli.values import frozen_options, option, part, takes
from scenarios.errors import say
from scenarios.surveys.holding.collecting import (
    check_answerable,
    check_collected,
    collect_survey,
    is_over,
    serve_receipts,
)
from scenarios.surveys.holding.serving import Serving
from scenarios.surveys.holding.waiting import witness_seconds
from transports.web.gateway import Page


@frozen_options
class CollectOptions:
    """The options of ``sottovoce collect``."""

    held: HeldOptions = part(HeldOptions)
    listen: str = option(
        "--listen",
        metavar="HOST:PORT",
        required=True,
        help="The address to serve the page at; port 0 takes a free one, which is printed. Without "
        "--certificate it must be one of this machine alone, such as 127.0.0.1:8080.",
    )
    certificate: Path | None = option(
        "--certificate",
        type=READ_FILE,
        help="A certificate in PEM, with its chain, to serve HTTPS with. It is read again when it "
        "changes.",
    )
    key: Path | None = option(
        "--key", type=READ_FILE, help="The certificate's private key, if it is in another file."
    )
    behind_proxy: bool = option(
        "--behind-proxy",
        is_flag=True,
        help="A proxy on this machine passes requests on, with their addresses in X-Forwarded-For. "
        "An address that fails often has to wait; addresses are never written down.",
    )
    parties: str | None = option(
        "--parties",
        metavar="HOST:PORT",
        help="Where ordinary parties connect over TLS, in a survey that has some beside its links.",
    )
    again: bool = option(
        "--again",
        is_flag=True,
        help="Begin another attempt although one is over: everybody is asked once more.",
    )
    leave: bool = option(
        "--leave",
        is_flag=True,
        help="End once the result is published. By default pages are then shown whether they were "
        "counted, until Ctrl-C; the same command with --resume does that later.",
    )

    @property
    def serving(self) -> Serving:
        """Place and manner of serving the page.

        Raises:
            UsageError: a key without a certificate, or an address that others can reach without
                HTTPS.
        """
        host, port = parse_address(self.listen)
        if self.certificate is None:
            if self.key is not None:
                raise UsageError("--key: expected --certificate too")
            if not _is_own(host):
                raise UsageError(
                    f"--listen {self.listen}: without --certificate, expected an address of this "
                    "machine alone, such as 127.0.0.1:8080: answers must not travel in the clear"
                )
        if self.behind_proxy and not _is_own(host):
            raise UsageError(
                f"--listen {self.listen}: with --behind-proxy, expected an address of this machine "
                "alone: anybody else could forge the address of a request"
            )
        return Serving(host, port, self.certificate, self.key, self.behind_proxy, self.held.trusted)


@click.command()
@takes(CollectOptions)
def collect(options: CollectOptions) -> None:
    """Take answers from a web page until the survey of FOLDER closes, and publish the result.

    FOLDER is the aggregator's, made by 'sottovoce links'. 'sottovoce close' ends it.
    """
    from scenarios.report.page.collecting import collecting_page

    held, serving, page = options.held, options.serving, Page(*collecting_page())
    member = member_in(held.folder, None)
    check_collected(member)
    parties = None if options.parties is None else parse_address(options.parties)
    transcript = held.out / TRANSCRIPT
    over = is_over(member)
    if not (held.resume and transcript.is_file() and over):
        if over and not options.again:
            raise UsageError(
                f"{held.folder}: this survey is over: --resume, with the --out that it had, shows "
                "people whether they were counted; --again begins another attempt, in which an "
                "answer may reveal as much once more"
            )
        check_answerable(member, parties)
        hold = functools.partial(collect_survey, page=page, serving=serving, parties=parties)
        hold_survey(held, member, hold, witnesses_within=witness_seconds(member.charter))
    if options.leave:
        return

    def listening(where: str) -> None:
        say(
            f"the survey is over; pages are shown whether they were counted, at {where}; Ctrl-C "
            "ends this"
        )

    serve_receipts(member, page=page, serving=serving, transcript=transcript, listening=listening)


def _is_own(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
