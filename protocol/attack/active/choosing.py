"""Choice of the next script: those of a plan, then some after each that led somewhere."""

from __future__ import annotations

import math

from protocol.attack.active.moves import combined, followed, sampled, single_moves
from protocol.attack.active.script import HONEST, Script
from protocol.attack.active.worlds import Library, Study
from protocol.crypto.randomness import Stream

SHARE = 0.5
"""The share of scripts that are single moves; the rest is made of those that led somewhere."""

FOLLOWED = 30
"""How many moves are tried at first after a script that led somewhere."""

STALE = 150
"""After how many scripts that bring nothing new the search ends, once the plan is done."""

TURNS = 960
"""How many scripts are made at most for one batch, those included that were tried before."""


class Choice:
    """Chooses scripts, none of them twice.

    Args:
        study, library: the target of the attack.
        scripts: the most scripts to try.
        stream: the randomness of the choice.
    """

    def __init__(self, study: Study, library: Library, *, scripts: int, stream: Stream) -> None:
        self._study = study
        self._library = library
        self._stream = stream
        self._singles = single_moves(study, library)
        most = math.ceil(SHARE * scripts)
        self._plan = [HONEST, *sampled(study, library, most=most, stream=stream)]
        self._led: list[tuple[float, Script]] = []
        self._following: list[list[Script]] = []
        self._chosen: set[Script] = set()
        self._tried = 0
        self._stale = 0

    def batch(self, most: int) -> list[Script]:
        """The next scripts, up to a number; empty if nothing new is expected."""
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
            # One after each of those that led somewhere, in turn.
            after = self._following.pop(0)
            script = after.pop(0)
            if after:
                self._following.append(after)
            return script
        if self._stale >= STALE:
            return None
        best = [one for _, one in sorted(self._led, key=lambda pair: -pair[0])]
        return combined(best, self._singles, self._stream.derive(f"turn {self._tried} {turn}"))

    def tried(self, script: Script, *, new: bool, excess: float) -> None:
        """Note a script that was played.

        Args:
            new: whether the target's behaviour was new.
            excess: the excess over the charge, by a pilot.
        """
        self._tried += 1
        self._stale = 0 if new else self._stale + 1
        if not new and excess <= 0:
            return
        self._led.append((max(excess, 0.0), script))
        turns = self._stream.derive(f"after {self._tried}")
        after = followed(script, self._study, self._library, stream=turns)
        order = turns.permutation(len(after)).tolist()
        if after:
            self._following.append([after[place] for place in order[:FOLLOWED]])
