"""What the package says of itself when it is built."""

from __future__ import annotations

import email
import re
import tomllib
from email.message import Message
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

_TARGET = re.compile(r"""(?:\]\(|\]: *|\b(?:href|src)=["']?)([^)\s"'>]+)""")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def metadata() -> Message:
    """The metadata that a wheel has, with the long description as its payload."""
    builder = WheelBuilder(str(ROOT))
    return email.message_from_string(builder.config.core_metadata_constructor(builder.metadata))


def test_links_and_pictures_of_the_long_description_work_without_the_repository(
    metadata: Message,
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert _FENCED.findall(shown) == _FENCED.findall(readme)
    targets = _TARGET.findall(_FENCED.sub("", shown))
    relative = [target for target in targets if not re.match("https://|#", target)]
    assert relative == []
    # Pictures are files, other targets are pages.
    source = URLS["Source"]
    assert f"]({source}/raw/HEAD/docs/run.svg)" in shown
    assert f"]({source}/blob/HEAD/docs/results.md#how-sure-is-it)" in shown
    # Nothing else is changed.
    for kind in ("raw", "blob"):
        shown = shown.replace(f"]({source}/{kind}/HEAD/", "](")
    assert shown.strip() == readme.strip()


def test_addresses_are_those_of_one_repository(metadata: Message) -> None:
    shown = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert shown == URLS
    assert shown.keys() == {"Changelog", "Documentation", "Homepage", "Issues", "Source"}
    assert all(address.startswith(shown["Source"]) for address in shown.values())
    for name in ("Changelog", "Documentation"):
        _, _, path = shown[name].partition("/blob/HEAD/")
        assert (ROOT / path).is_file()


def test_systems_and_versions_of_python_are_declared(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier", [])
    systems = [c for c in classifiers if c.startswith("Operating System :: ")]
    assert systems == ["Operating System :: MacOS", "Operating System :: POSIX :: Linux"]
    lowest = metadata["Requires-Python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {lowest}" in classifiers
    assert metadata["Author"] == "The sottovoce authors"
