"""What tests cost: the processor seconds of each file, said after a run. One far above fails.

Counted are the seconds of the process that runs a test, and of those that it started and waited
for. What several files share (a browser, a survey that is set up once) counts for the first.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

SHARE = 20.0
"""What a file may cost in the fast tier, in processor seconds; at twice as much the run fails."""

NAMED = 10
"""So many files are named after a run."""

_COST = "processor seconds"


class Budget:
    """Counts in the processes that run tests, and adds up in the one that reports on them."""

    def __init__(self, *, limit: float) -> None:
        self.limit = limit
        self.of_file: Counter[str] = Counter()
        self.beside = 0.0
        self._since = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((_COST, self._lap()))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        costs = [cost for name, cost in report.user_properties if name == _COST]
        self.of_file[report.nodeid.partition("::")[0]] += sum(costs)

    def pytest_collection_finish(self) -> None:
        """Until here tests were imported and found."""
        self.beside += self._lap()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_COST] = self.beside + self._lap()
        elif self.dear and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.beside += getattr(node, "workeroutput", {}).get(_COST, 0.0)

    def _lap(self) -> float:
        """What was spent since it was asked last."""
        times = os.times()
        now = times.user + times.system + times.children_user + times.children_system
        since, self._since = self._since, now
        return now - since

    @property
    def dear(self) -> list[str]:
        """The files that cost too much."""
        return [file for file, cost in self.of_file.items() if cost > self.limit]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.of_file:
            return
        tests = sum(self.of_file.values())
        named = (f"{file} {cost:.1f}" for file, cost in self.of_file.most_common(NAMED))
        whole = f"{tests + self.beside:.0f} processor seconds, {self.beside:.0f} beside tests"
        terminalreporter.write_line(f"{whole}; {', '.join(named)}")
        for file in self.dear:
            cost = f"{self.of_file[file]:.0f} processor seconds"
            terminalreporter.write_line(f"{file} costs {cost}, allowed are {self.limit:.0f}")


def pytest_configure(config: pytest.Config) -> None:
    fast = config.option.markexpr == "not slow"
    config.pluginmanager.register(Budget(limit=2 * SHARE if fast else float("inf")), "budget")
