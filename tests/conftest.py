"""Tests run on the data that comes with the package, and can be interrupted, wherever they run."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.raw_data import VARIABLE

pytest_plugins = ["tests.budget"]


@pytest.fixture(scope="session", autouse=True)
def without_raw_data() -> Iterator[None]:
    """The environment names no folder: who needs it has ``tests.raw_data.RAW``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        yield


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """None for one file, which is sooner done than workers are started.

    Else one more than processors: tests of processes, clocks and links wait now and then.
    """
    files = {Path(given.partition("::")[0]) for given in config.args}
    if len(files) == 1 and files.pop().is_file():
        return 0
    return (os.cpu_count() or 1) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Workers that find all tests share the work of compiling them: each begins elsewhere."""
    # What is imported and found stays: to look for garbage in it costs a fifth of finding it.
    gc.disable()
    given = getattr(session.config, "workerinput", None)
    if given is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    place, workers = int(given["workerid"].removeprefix("gw")), given["workercount"]
    for file in files[place::workers]:
        with contextlib.suppress(Exception):  # It is said when the tests are found.
            importlib.import_module(".".join(file.relative_to(session.config.rootpath).parts)[:-3])


def pytest_collection_finish() -> None:
    """Garbage is looked for again, but not among the tests that were found."""
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """How fast examples are made says nothing where other programs run, too."""
    settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")
    # A job in a shell's background ignores Ctrl-C, which some tests are about.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def purse_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests spend is nobody's, and what one file spends no other file lacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
