"""Attacks as tests, by an observer and by hostile members."""

from __future__ import annotations

from collections.abc import Collection

from protocol.attack.active.active import SCRIPTS, attack_actively
from protocol.attack.attack import ALPHA, attack
from protocol.audit.coalition.coalition import Observer
from protocol.messages import PartyId
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.testing.collected import as_test


def check_attack(
    variant: Variant,
    records: Records,
    *,
    target: int = 0,
    observer: Observer | None = None,
    trials: int | None = None,
    runs: int | None = None,
    copies: int | None = None,
    alpha: float = ALPHA,
    seed: int = 1,
) -> None:
    """Attack a variant (``protocol.attack.attack``); the arguments are those of ``attack``.

    More trials find smaller leaks.

    Raises:
        AssertionError: the view reveals more than the ledger charges.
    """
    found = attack(
        variant,
        records,
        target=target,
        observer=observer,
        trials=trials,
        runs=runs,
        copies=copies,
        alpha=alpha,
        seed=seed,
    )
    worst = found.worst
    if found.accused:
        raise AssertionError(
            f"{worst.pair}: the view tells at least epsilon {worst.lower:.4f}, and the ledger says "
            f"at most {worst.bound:.4f}: {worst.right} of {worst.guesses} guesses were right that "
            f"went by {worst.event}"
        )


def check_unmoved(
    variant: Variant,
    records: Records,
    *,
    target: int = 0,
    hostile: Collection[PartyId] | None = None,
    scripts: int = SCRIPTS,
    seed: int = 1,
    trials: int | None = None,
    alpha: float = ALPHA,
) -> None:
    """Attack a party with all that serve, or some; arguments as for ``attack_actively``.

    More scripts find more.

    Raises:
        AssertionError: the party gives away more than is charged; with the script that shows it.
    """
    found = attack_actively(
        variant,
        records,
        target=target,
        hostile=hostile,
        scripts=scripts,
        seed=seed,
        trials=trials,
        alpha=alpha,
    )
    for finding in found.findings:
        raise AssertionError(
            f"{found.target}, {finding.rule}: {finding.what}\n"
            f"when this is done by {', '.join(found.hostile)}:\n{finding.script}\n"
            f"replay_script plays it again: {finding.script.to_json()}"
        )


attacked = as_test(check_attack)
"""A test function for pytest that attacks a variant."""

unmoved = as_test(check_unmoved)
"""A test function for pytest that attacks a party with all who serve, or some of them."""
