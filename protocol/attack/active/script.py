"""A script: changes of the messages that hostile members send. It is kept as JSON.

Each hostile member runs its honest role, with the departures of the script. A move is about one
message of the honest role to each recipient in its scope: the ``nth`` of a kind. Inserted messages
are taken from a rehearsal of the honest protocol (a *world*, see
``protocol.attack.active.worlds``), so no script holds bytes of messages.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Does: TypeAlias = Literal["rewrite", "drop", "repeat", "hold", "insert", "restart"]
"""Effect of a move on a message.

``rewrite``: send it edited. ``drop``: do not send it. ``repeat``: send it as it is and an edited
copy. ``hold``: send it, edited, after ``wait`` further messages, or when its sender has ended.
``insert``: send another message too. ``restart``: send it, and begin the role anew.
"""

Scope: TypeAlias = Literal["target", "all", "others"]
"""The scope of a move: the target, all who are not hostile, or all these but the target."""

How: TypeAlias = Literal[
    "set", "add", "fill", "move", "shift", "swap", "cut", "grow", "flip", "take", "sums"
]
"""Change of a value by an edit (``protocol.attack.active.edits``)."""

Value: TypeAlias = int | float | str | bool | None


class Edit(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One change of one value of a message.

    Args:
        path: the field, and in nested values the places within it.
        how: the change.
        cells: places in an array, flattened, or in a list.
        value: the new value or the amount; bytes are written in hexadecimal.
        world: for ``take`` and ``sums``, the rehearsal that the value is taken from.
        kind, nth: for these, the ``nth`` message of another kind; by default the same message.
    """

    path: tuple[str | int, ...]
    how: How
    cells: tuple[int, ...] = ()
    value: Value = None
    world: int = 0
    kind: str = ""
    nth: int = 0

    def __str__(self) -> str:
        where = ".".join(map(str, self.path))
        cells = " and ".join(map(str, self.cells))
        match self.how:
            case "set":
                at = f" at {cells}" if cells else ""
                return f"{where}{at} = {self.value}"
            case "fill":
                but = f", but the least at {cells}" if cells else ""
                return f"all of {where} = {self.value}{but}"
            case "add":
                return f"{where} + {self.value}"
            case "move" | "shift":
                source, to = self.cells
                amount = "all" if self.value is None else self.value
                if isinstance(self.value, int) and self.value < 0:
                    amount = f"all but {-self.value}"
                turning = " (modulo)" if self.how == "shift" else ""
                return f"{where}: {amount} of cell {source} to cell {to}{turning}"
            case "take":
                said = f"{self.kind} {self.nth}" if self.kind else "the same message"
                return f"{where} as in {said} of world {self.world}"
            case "sums":
                return f"{where}: row {cells} such that the sums are those of world {self.world}"
            case _:
                return f"{where}: {self.how} {cells}".rstrip()


class Source(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Message of a rehearsal to be inserted.

    Args:
        kind: its kind.
        nth: its number among messages of this kind to the recipient, or to anybody if there are
            none.
        world: the rehearsal.
    """

    kind: str
    nth: int = 0
    world: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}" + (f" of world {self.world}" if self.world else "")


class Move(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One departure from the honest role.

    Args:
        does: the effect.
        of, nth: kind and number of the message to a recipient, from 0. An empty kind stands for the
            start, where a message can be inserted.
        to: the recipients in scope.
        edits: in this order. An edit that the kind does not allow is left out.
        before: whether a further message comes before the message.
        says: the message to insert.
        wait: of ``hold``, the number of further messages to the recipient.
        by: the hostile member; by default each of them.
    """

    does: Does
    of: str
    nth: int = 0
    to: Scope = "target"
    edits: tuple[Edit, ...] = ()
    before: bool = False
    says: Source | None = None
    wait: int = 1
    by: str = ""

    def __str__(self) -> str:
        to = {"target": "the target", "all": "all", "others": "all but the target"}[self.to]
        of = f"{self.of} {self.nth}" if self.of else "all else"
        about = f"{of} from {self.by} to {to}" if self.by else f"{of} to {to}"
        edits = "; ".join(map(str, self.edits))
        with_ = f" with {edits}" if edits else ""
        side = "before" if self.before else "after"
        match self.does:
            case "hold":
                return f"hold {about} back for {self.wait} messages{with_}"
            case "repeat":
                return f"repeat {about}, the copy {side} it{with_}"
            case "insert":
                return f"insert {self.says} {side} {about}{with_}"
            case "restart":
                return f"begin anew after {about}"
            case _:
                return f"{self.does} {about}{with_}"


class Script(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All departures of hostile members in one session."""

    moves: tuple[Move, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.moves)) or "nothing: the honest protocol"

    @property
    def takes(self) -> bool:
        """True if anything is taken from a rehearsal."""
        taken = any(e.how in ("take", "sums") for move in self.moves for e in move.edits)
        return taken or any(move.says is not None for move in self.moves)

    @property
    def worlds(self) -> frozenset[int]:
        """The rehearsals with messages or values that are taken."""
        edits = {edit.world for move in self.moves for edit in move.edits}
        return frozenset(edits | {move.says.world for move in self.moves if move.says is not None})

    def to_json(self) -> str:
        """Encode as one line of JSON, which ``msgspec.json.decode`` reads again."""
        return msgspec.json.encode(self).decode()


HONEST = Script()
"""The script without moves."""
