"""Active attacks as tests: nothing that a hostile aggregator sends moves a party to tell more."""

from __future__ import annotations

from protocol.attack.active.active import SCRIPTS, attack_actively
from protocol.attack.attack import ALPHA
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.testing.collected import as_test


def check_unmoved(
    variant: Variant,
    records: Records,
    *,
    target: int = 0,
    scripts: int = SCRIPTS,
    seed: int = 1,
    trials: int | None = None,
    alpha: float = ALPHA,
) -> None:
    """Attack a party with a hostile aggregator; arguments as for ``attack_actively``.

    With more scripts it sees more.

    Raises:
        AssertionError: the party gives away more than is charged; it has the script that shows it.
    """
    found = attack_actively(
        variant,
        records,
        target=target,
        scripts=scripts,
        seed=seed,
        trials=trials,
        alpha=alpha,
    )
    for finding in found.findings:
        raise AssertionError(
            f"{found.target}, {finding.rule}: {finding.what}\n"
            f"when the aggregator does this:\n{finding.script}\n"
            f"replay_script plays it again: {finding.script.to_json()}"
        )


unmoved = as_test(check_unmoved)
"""A test function for pytest that attacks a party with a hostile aggregator."""
