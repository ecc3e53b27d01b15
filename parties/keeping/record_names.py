"""Names of the files of a run's record."""

from __future__ import annotations

from pathlib import Path

TRANSCRIPT = "transcript.svt.zst"
"""The name that the commands give a transcript, which is packed."""

_SUFFIXES = (".zst", ".svt")

RESULT = "result.json"
"""The name of the published result beside it."""

PARTIAL = ".partial"
"""The suffix of a transcript's name while it grows; it stays if the run fails."""

TRANSCRIPT_ENDINGS = (".svt", ".svt.zst", f".svt{PARTIAL}", f".svt.zst{PARTIAL}")
"""Endings of the names of transcripts, packed or not, whole or growing."""

CHECKPOINT = ".checkpoint"
"""The suffix of a checkpoint's name, in place of the transcript's."""


def partial_path(path: Path) -> Path:
    """The file in which a transcript grows, and stays if its run fails."""
    return path.with_name(path.name + PARTIAL)


def record_stem(transcript: Path) -> str:
    """A transcript's name without its suffixes."""
    name = transcript.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix) or name
    return name


def checkpoint_path(transcript: Path) -> Path:
    """The file beside a transcript for its last checkpoint."""
    return transcript.with_name(record_stem(transcript) + CHECKPOINT)


def first_checkpoint_path(transcript: Path) -> Path:
    """The file beside a transcript for its first checkpoint, cosigned before any message."""
    return transcript.with_name(f"{record_stem(transcript)}.first{CHECKPOINT}")


RECORD_FILES = (
    TRANSCRIPT,
    partial_path(Path(TRANSCRIPT)).name,
    checkpoint_path(Path(TRANSCRIPT)).name,
    first_checkpoint_path(Path(TRANSCRIPT)).name,
    RESULT,
)
"""The names of the files that a command may write of a record into its folder."""
