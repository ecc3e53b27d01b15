"""Active attacks as tests: nothing that those who serve send moves a party to tell more."""

from __future__ import annotations

from collections.abc import Collection

from protocol.attack.active.active import SCRIPTS, attack_actively
from protocol.attack.attack import ALPHA
from protocol.messages import PartyId
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.testing.collected import as_test


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
    """Attack a party with all who serve, or some; arguments as for ``attack_actively``.

    With more scripts it sees more.

    Raises:
        AssertionError: the party gives away more than is charged; it has the script that shows it.
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


unmoved = as_test(check_unmoved)
"""A test function for pytest that attacks a party with all who serve, or some of them."""
