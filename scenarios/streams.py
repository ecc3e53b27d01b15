"""The standard streams: open, and able to write every text."""

from __future__ import annotations

import codecs
import io
import os
import sys

READABLE = "sottovoce.readable"
"""The error handler for what people read: symbols become words, other characters escapes."""

ESCAPED = "sottovoce.escaped"
"""The error handler that keeps a text what it is, where ``\\uXXXX`` stands for a character."""

_ASCII = "sottovoce_ascii"
"""ASCII under a name of ours: on a stream of ``ascii`` click writes UTF-8."""

_WORDS = {
    "ε": "epsilon",
    "δ": "delta",
    "∞": "inf",
    "±": "+-",
    "\N{MULTIPLICATION SIGN}": "x",
    "·": "-",
    "…": "...",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MINUS SIGN}": "-",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
}
"""Replacements of symbols that reports use."""


def escape(character: str) -> str:
    """A character as an escape: ``\\xe9`` for a byte of a name that is not text, else ``\\u``."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def escape_surrogates(text: str) -> str:
    """A text that UTF-8 can carry: bytes of names that are not text become escapes."""
    return "".join(escape(c) if "\ud800" <= c <= "\udfff" else c for c in text)


def make_writable() -> None:
    """Make standard output and error able to write every text, whatever their encoding."""
    codecs.register_error(READABLE, _readable)
    codecs.register_error(ESCAPED, _escaped)
    codecs.unregister(_ascii)
    codecs.register(_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if is_ascii else None, errors=READABLE)


def output_encoding() -> str:
    """The encoding of standard output, by a name that other programs know."""
    encoding = sys.stdout.encoding or "utf-8"
    return "ascii" if encoding == _ASCII else encoding


def lossless(text: str) -> str:
    """A text for standard output; strings of JSON and TOML keep their meaning."""
    if codecs.lookup(output_encoding()).name.startswith("utf"):
        return text
    return text.encode("ascii", ESCAPED).decode()


def open_closed() -> None:
    """Open standard streams that were left closed: no record may be written to by their numbers."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _readable(error: UnicodeError) -> tuple[str, int]:
    text, end = _failing(error)
    return "".join(_WORDS.get(c) or escape(c) for c in text), end


def _escaped(error: UnicodeError) -> tuple[str, int]:
    text, end = _failing(error)
    return "".join(map(escape, text)), end


def _failing(error: UnicodeError) -> tuple[str, int]:
    """The characters that cannot be written, and their end."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return error.object[error.start : error.end], error.end


def _ascii(name: str) -> codecs.CodecInfo | None:
    if name != _ASCII:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        known.streamreader,
        known.streamwriter,
        known.incrementalencoder,
        known.incrementaldecoder,
        _ASCII,
    )
