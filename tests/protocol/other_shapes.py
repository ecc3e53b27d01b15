"""The protocols of other shapes that stand among the examples, and what they are tried on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from protocol import Attribute, Records, Survey, Variant

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
HOMEPAGES = Survey("Homepages", (Attribute(name="page", categories=("a", "b", "c", "d")),))
WORDS = Survey("Words", (Attribute(name="word", categories=tuple(f"w{i}" for i in range(16))),))


def example(name: str) -> ModuleType:
    """The module of an example, by the name of its file."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def records(survey: Survey, people: int) -> Records:
    """Different answers of some people."""
    codes = (np.arange(people) * 3 % survey.cells).astype(np.uint8)
    return Records(survey, codes.reshape(-1, 1))


def shapes() -> dict[str, Variant]:
    """All of them, by the names of their files."""
    return {
        "shuffler": example("shuffler").Shuffled(survey=HOMEPAGES),
        "two_servers": example("two_servers").TwoServers(survey=HOMEPAGES),
        "shamir": example("shamir").Shamir(survey=HOMEPAGES),
        "sealed_ring": example("sealed_ring").SealedRing(survey=HOMEPAGES),
        "prefix_tree": example("prefix_tree").PrefixTree(survey=WORDS),
    }
