"""What Linux says of processes: which are there, and where they listen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

LISTENS = "0A"


def _stat(pid: int) -> list[str] | None:
    """What follows a process's name: its state, its parent, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def alive(pid: int) -> bool:
    """Whether a process is there, and not only to be waited for."""
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def ended(pids: Iterable[int], *, within: float = 20.0) -> bool:
    """Whether processes end within some seconds."""
    until = time.monotonic() + within
    left = set(pids)
    while left and time.monotonic() < until:
        left = {pid for pid in left if alive(pid)}
        time.sleep(0.02)
    return not left


def family(pid: int) -> set[int]:
    """A process and all that it started."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (stat := _stat(int(path.name))) is not None:
            parents[int(path.name)] = int(stat[1])
    found, more = {pid}, True
    while more:
        children = {child for child, parent in parents.items() if parent in found} - found
        found |= children
        more = bool(children)
    return found


def listening(pids: Iterable[int]) -> set[str]:
    """The addresses at which processes listen."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and fields[9] in inodes:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _sockets(pid: int) -> Iterator[str]:
    try:
        descriptors = [*Path(f"/proc/{pid}/fd").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            yield target.removeprefix("socket:[").removesuffix("]")


def _address(digits: str) -> str:
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    content = b"".join(words)
    if len(content) == 4:
        return str(IPv4Address(content))
    address = IPv6Address(content)
    return str(address.ipv4_mapped or address)
