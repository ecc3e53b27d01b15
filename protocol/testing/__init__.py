"""Checks that an author of a variant runs in her own tests, a line each."""

from __future__ import annotations

from protocol.attack.draws import attack_randomizer
from protocol.testing.attacks import attacked, check_attack, check_unmoved, unmoved
from protocol.testing.contracts import check_variant, contract, under_faults
from protocol.testing.randomizers import check_randomizer, lawful
from protocol.testing.schedules import Schedule, check_under_faults, make_schedules

__all__ = [
    "Schedule",
    "attack_randomizer",
    "attacked",
    "check_attack",
    "check_randomizer",
    "check_under_faults",
    "check_unmoved",
    "check_variant",
    "contract",
    "lawful",
    "make_schedules",
    "under_faults",
    "unmoved",
]
