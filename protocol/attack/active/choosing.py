"""Choice of the next script: those of a plan, then some after each useful one."""

from __future__ import annotations

import math

from protocol.attack.active.moves import combined, followed, sampled, single_moves
from protocol.attack.active.script import HONEST, Script
from protocol.attack.active.worlds import Library, Study
from protocol.crypto.randomness import Stream

SHARE = 0.5
"""The share of scripts that are single moves; the rest is made from useful scripts."""

FOLLOWED = 30
"""The most moves that are tried after a useful script."""

STALE = 150
"""Number of scripts without anything new after which the search ends, once the plan is done."""

TURNS = 960
"""The most scripts that are made for one batch, with those that were tried before."""


class Choice:
    """Choice of scripts, each at most once.

    Args:
        study, library: of the attack.
        scripts: the most scripts that are tried.
        stream: decides the choice.
    """

    def __init__(self, study: Study, library: Library, *, scripts: int, stream: Stream) -> None:
        self._study = study
        self._library = library
        self._stream = stream
        self._singles = single_moves(study, library)
        most = math.ceil(SHARE * scripts)
        self._plan = [HONEST, *sampled(study, library, most=most, stream=stream)]
        self._useful: list[tuple[float, Script]] = []
        self._following: list[list[Script]] = []
        self._chosen: set[Script] = set()
        self._tried = 0
        self._stale = 0

    def batch(self, most: int) -> list[Script]:
        """The next scripts, at most ``most``; none if the search is over."""
        batch: list[Script] = []
        for turn in range(1, TURNS + 1):
            if len(batch) >= most:
                break
            script = self._next(turn)
            if script is None:
                break
            if script not in self._chosen:
                self._chosen.add(script)
                batch.append(script)
        return batch

    def _next(self, turn: int) -> Script | None:
        if self._plan:
            return self._plan.pop(0)
        if self._following:
            # One after each useful script, in turn.
            after = self._following.pop(0)
            script = after.pop(0)
            if after:
                self._following.append(after)
            return script
        if self._stale >= STALE:
            return None
        best = [one for _, one in sorted(self._useful, key=lambda pair: -pair[0])]
        return combined(best, self._singles, self._stream.derive(f"turn {self._tried} {turn}"))

    def tried(self, script: Script, *, new: bool, excess: float) -> None:
        """Take note of a script that was played.

        Args:
            new: whether the target showed a new behaviour.
            excess: over the charge, by a pilot.
        """
        self._tried += 1
        self._stale = 0 if new else self._stale + 1
        if not new and excess <= 0:
            return
        self._useful.append((max(excess, 0.0), script))
        turns = self._stream.derive(f"after {self._tried}")
        after = followed(script, self._study, self._library, stream=turns)
        order = turns.permutation(len(after)).tolist()
        if after:
            self._following.append([after[place] for place in order[:FOLLOWED]])
