"""Makes the vectors of this folder, from the documents and without the program's own code.

``python tests/vectors/make.py`` writes the files anew. Everything here is written for the reader:
hashes from ``hashlib``, AES, X25519, Ed25519 and ChaCha20-Poly1305 from ``cryptography``, and all
else in plain integers. ``docs/vectors.md`` says how to read the files.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

FOLDER = Path(__file__).parent
WORDS = 2**64
SAFE = 2**53
"""Beyond this, JSON's readers round integers: larger ones are written as strings."""

Case = dict[str, Any]


def number(n: int) -> int | str:
    return n if -SAFE <= n <= SAFE else str(n)


def written(value: Any) -> Any:
    """A value as the files have it."""
    match value:
        case bool():
            return value
        case int():
            return number(value)
        case bytes():
            return value.hex()
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case dict():
            return {name: written(item) for name, item in value.items()}
        case list() | tuple():
            return [written(item) for item in value]
    return value


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def some(what: str, size: int) -> bytes:
    """Bytes that mean nothing, always the same."""
    return hashlib.shake_256(what.encode()).digest(size)


def good(name: str, function: str, output: Any, /, **given: Any) -> Case:
    return {"name": name, "function": function, "input": given, "output": output}


def bad(name: str, function: str, error: str, /, **given: Any) -> Case:
    return {"name": name, "function": function, "input": given, "error": error}


# --- codec: msgpack by its specification, the shortest form of everything


class Raw(NamedTuple):
    """An item as it is written, in whichever form."""

    encoded: bytes


def packed(value: Any) -> bytes:
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return packed_int(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return sized(len(text), (0xA0, 32), (0xD9, 0xDA, 0xDB)) + text
        case bytes():
            return sized(len(value), None, (0xC4, 0xC5, 0xC6)) + value
        case list():
            head = sized(len(value), (0x90, 16), (None, 0xDC, 0xDD))
            return head + b"".join(packed(item) for item in value)
        case dict():
            head = sized(len(value), (0x80, 16), (None, 0xDE, 0xDF))
            return head + b"".join(packed(key) + packed(item) for key, item in value.items())
        case Raw():
            return value.encoded
    raise TypeError(type(value))


def packed_int(n: int) -> bytes:
    if -32 <= n < 128:
        return struct.pack(">b", n)
    for start, forms in ((0xCC, "BHIQ"), (0xD0, "bhiq")):
        for place, form in enumerate(forms):
            try:
                return bytes([start + place]) + struct.pack(">" + form, n)
            except struct.error:
                continue
    raise ValueError(n)


def sized(length: int, fixed: tuple[int, int] | None, forms: tuple[int | None, int, int]) -> bytes:
    if fixed and length < fixed[1]:
        return bytes([fixed[0] + length])
    for start, form, most in zip(forms, "BHI", (2**8, 2**16, 2**32), strict=True):
        if start is not None and length < most:
            return bytes([start]) + struct.pack(">" + form, length)
    raise ValueError(length)


FORMS = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "i8": "q", "f8": "d"}


def array(dtype: str, shape: list[int], values: Sequence[float]) -> list[Any]:
    return [dtype, shape, struct.pack(f"<{len(values)}{FORMS[dtype]}", *values)]


def spec(dtype: str, *shape: int | dict[str, int], **bounds: Any) -> dict[str, Any]:
    return {"type": "array", "dtype": dtype, "shape": list(shape), **bounds}


KINDS: dict[str, Any] = {
    "Report": {
        "scalar_bytes": 64,
        "fields": {
            "round": {"type": "int"},
            "codes": spec("u1", {"low": 1, "high": 3}, 2, high=[2, 3]),
        },
    },
    "Sums": {
        "scalar_bytes": 32,
        "fields": {
            "wide": spec("u8", {"low": 0, "high": 4}),
            "signed": spec("i8", 2, low=-5, high=6),
            "share": spec("f8", {"low": 0, "high": 2}),
        },
    },
    "Note": {
        "scalar_bytes": 48,
        "fields": {
            "text": {"type": "str"},
            "key": {"type": "bytes"},
            "weight": {"type": "float"},
            "names": {"type": "list of str"},
        },
    },
}


NUMBERS = (0, 127, 128, 255, 256, 65535, 65536, 2**32, 2**64 - 1, -1, -32, -33, -129, -(2**63))


def codec() -> Iterator[Case]:
    codes = array("u1", [2, 2], [1, 2, 0, 0])
    head = [[[0, "Ask", -1, [[0, 7], [2, 0]]], [1, "Word", 3, []]], b"\2" * 64]
    wide = [0, 2**53, 2**64 - 1]

    def report(*codes: Any) -> bytes:
        return packed([1, array(*codes)])

    def sums(wide: list[int], signed: list[int], share: list[float]) -> bytes:
        parts = (("u8", wide), ("i8", signed), ("f8", share))
        return packed([array(dtype, [len(values)], values) for dtype, values in parts])

    def note(text: str, key: bytes, weight: float, names: list[str]) -> bytes:
        return packed([text, key, weight, names])

    fine: dict[str, tuple[str, bytes, list[Any]]] = {
        "the fewest rows": ("Report", report("u1", [1, 2], [0, 2]), [1, [[0, 2]]]),
        "values at their bounds": ("Sums", sums(wide, [-5, 5], [0.5]), [wide, [-5, 5], [0.5]]),
        "arrays without a value": ("Sums", sums([], [0, 1], []), [[], [0, 1], []]),
        "text and more": (
            "Note",
            note("Gr\u00fc\u00dfe", b"\0\xff", 0.1, ["a"]),
            ["Gr\u00fc\u00dfe", "00ff", 0.1, ["a"]],
        ),
        "empty text and more": ("Note", note("", b"", -0.0, []), ["", "", -0.0, []]),
        "as many bytes as a kind may have": (
            "Note",
            note("x" * 33, b"", 0.0, []),
            ["x" * 33, "", 0.0, []],
        ),
        "a head, which every variant has": ("Head", packed(head), head),
    }
    for n in NUMBERS:
        fine[f"an integer {n}"] = "Report", packed([n, codes]), [n, [[1, 2], [0, 0]]]
    for name, (kind, body, fields) in fine.items():
        yield good(name, "decode message", fields, kind=kind, body=body)
    whole = packed([1, codes])
    refused: dict[tuple[str, str], dict[str, bytes]] = {
        ("unknown kind", "kind"): {"a kind that is not declared": whole},
        ("too long", "Note"): {"a byte more than the kind may have": note("x" * 34, b"", 0.0, [])},
        ("malformed", "Report"): {
            "no bytes at all": b"",
            "a body cut short": whole[:-1],
            "a byte after the body": whole + b"\0",
            "a byte that msgpack does not use": b"\xc1",
        },
        ("malformed", "Note"): {
            "text that is not UTF-8": note("x", b"", 0.0, []).replace(b"x", b"\xff")
        },
        ("wrong type", "Report"): {
            "a field too few": packed([1]),
            "a field too many": packed([1, codes, 1]),
            "a map instead of a list": b"\x80",
        },
        ("wrong type", "Report.round"): {
            "text for an integer": packed(["1", codes]),
            "a float for an integer": packed([1.5, codes]),
            "nil for an integer": packed([None, codes]),
        },
        ("malformed array", "Report.codes"): {
            "a number for an array": packed([1, 7]),
            "an array without its shape": packed([1, ["u1", codes[2]]]),
            "an unknown dtype": packed([1, ["u3", [2, 2], codes[2]]]),
            "a negative length": packed([1, ["u1", [-2, -2], codes[2]]]),
            "more bytes than the shape has": packed([1, ["u1", [1, 2], codes[2]]]),
        },
        ("dtype", "Report.codes"): {"another dtype": report("u2", [2, 2], [0] * 4)},
        ("shape", "Report.codes"): {
            "an axis too few": report("u1", [2], [0, 0]),
            "a row too many": report("u1", [4, 2], [0] * 8),
            "no row": report("u1", [0, 2], []),
        },
        ("value", "Report.codes"): {"a value at its column's bound": report("u1", [1, 2], [2, 0])},
        ("value", "Sums.signed"): {
            "a value below its bound": sums([], [-6, 0], []),
            "a value at its bound": sums([], [0, 6], []),
        },
        ("value", "Sums.share"): {"below 0, with no bound declared": sums([], [0, 0], [-0.5])},
        ("not finite", "Sums.share"): {"infinity": sums([], [0, 0], [float("inf")])},
        ("not finite", "Note.weight"): {"not a number": note("", b"", float("nan"), [])},
        ("not canonical", "Report"): {
            "an integer in more bytes than it needs": b"\x92\xcc\x01" + packed(codes),
            "a list with a longer head than it needs": b"\xdc\0\2" + whole[1:],
        },
        ("not canonical", "Note"): {"an integer for a float": packed(["", b"", 1, []])},
    }
    for (error, field), bodies in refused.items():
        kind = "Gift" if error == "unknown kind" else field.partition(".")[0]
        for name, body in bodies.items():
            yield {**bad(name, "decode message", error, kind=kind, body=body), "field": field}
    yield from envelopes(whole)


def envelopes(report: bytes) -> Iterator[Case]:
    session = bytes(range(16))
    fine: dict[str, list[Any]] = {
        "an envelope": [session, "party-1", "aggregator", 0, "Report", report],
        "one for the record": [session, "aggregator", "record", 300, "Closed", b""],
        "names of 255 characters": [session, "s" * 255, "r" * 255, 1, "k" * 255, b"\xc0"],
        "a body of 300 bytes": [session, "a", "b", 1, "K", bytes(300)],
    }
    for name, parts in fine.items():
        yield good(name, "decode envelope", parts, encoded=packed(parts))
    whole = packed(fine["an envelope"])
    long_number = packed([session, "a", "b", 1, "K", b""]).replace(b"\xa1b\1", b"\xa1b\xcd\0\1")
    refused: dict[str, bytes] = {
        "an envelope cut short": whole[:-1],
        "a byte after the envelope": whole + b"\0",
        "five parts": packed([session, "a", "b", 0, "K"]),
        "seven parts": packed([session, "a", "b", 0, "K", b"", 0]),
        "a sender of 256 characters": packed([session, "s" * 256, "b", 0, "K", b""]),
        "text for a number": packed([session, "a", "b", "0", "K", b""]),
        "a body as text": packed([session, "a", "b", 0, "K", ""]),
        "a number in more bytes than it needs": long_number,
    }
    for name, encoded in refused.items():
        error = "not canonical" if encoded is long_number else "malformed"
        yield {**bad(name, "decode envelope", error, encoded=encoded), "field": "envelope"}


# --- frames


def framed(payloads: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)


def frames() -> Iterator[Case]:
    for name, payloads in (
        ("nothing", []),
        ("one frame", [b"abc"]),
        ("an empty frame", [b""]),
        ("several frames", [b"a", b"", b"bc", bytes(300)]),
    ):
        given = {"payloads": payloads}
        yield good(name, "write", {"stream": framed(payloads)}, **given)
    whole = framed([b"abc", b"", b"defg"])
    for name, stream, cap, payloads, inside in (
        ("frames up to the cap", whole, 4, [b"abc", b"", b"defg"], False),
        ("an empty stream", b"", 4, [], False),
        ("torn in the length", whole[:-6], 4, [b"abc", b""], True),
        ("torn before the first byte of a payload", whole[:-4], 4, [b"abc", b""], True),
        ("torn before the last byte of a payload", whole[:-1], 4, [b"abc", b""], True),
    ):
        yield good(name, "read", {"payloads": payloads, "torn": inside}, stream=stream, cap=cap)
    for name, stream, cap, payloads in (
        ("a frame over the cap, after two that are not", whole, 3, [b"abc", b""]),
        ("the largest length there is", b"\xff\xff\xff\xff", 2**20, []),
        ("a length over the cap with nothing after it", struct.pack(">I", 5), 4, []),
    ):
        before = {"payloads": payloads}
        given = {"stream": stream, "cap": cap}
        yield {**bad(name, "read", "frame over the cap", **given), "output": before}


# --- keystream


def extract(salt: bytes, secret: bytes) -> bytes:
    return hmac.new(salt, secret, "sha256").digest()


def expanded(key: bytes, info: bytes) -> bytes:
    return HKDFExpand(SHA256(), 32, info).derive(key)


def keystream(key: bytes, size: int) -> bytes:
    return Cipher(AES256(key), CTR(bytes(16))).encryptor().update(bytes(size))


def words_sent(key: bytes, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}Q", keystream(key, 8 * count)))


def secret_of(seed: int) -> bytes:
    size = (seed.bit_length() + 7) // 8
    return sha256(b"sottovoce seed 1\0" + seed.to_bytes(size, "big"))


def child_of(key: bytes, purpose: str) -> bytes:
    return expanded(key, b"sottovoce child 1\0" + purpose.encode())


def uniform(bounds: Sequence[int], words: Iterator[int]) -> list[int]:
    """Draws below each bound: a word each, then again for those that were refused, in order."""
    drawn: list[int | None] = [None] * len(bounds)
    while None in drawn:
        for place, value in enumerate(drawn):
            if value is None:
                word = next(words)
                drawn[place] = word if word < WORDS - WORDS % bounds[place] else -1
        drawn = [None if value == -1 else value for value in drawn]
    return [value % bound for value, bound in zip(drawn, bounds, strict=True) if value is not None]


def streams() -> Iterator[Case]:
    for seed in (0, 1, 255, 256, 2**64, 2**256 + 7):
        secret = secret_of(seed)
        yield good(f"seed {seed}", "secret", {"secret": secret}, seed=str(seed))
    yield bad("a seed below 0", "secret", "out of range", seed="-1")
    secret = secret_of(1)
    session = hmac.new(secret, b"sottovoce session 1", "sha256").digest()[:16]
    yield good("a session", "session", {"session": session}, secret=secret)
    yield bad("a secret of 31 bytes", "session", "length", secret="00" * 31)
    extracted = extract(session, secret)
    for party, purpose in (
        ("aggregator", "role"),
        ("party-1", "role"),
        ("party-1", "identity"),
        ("a", "bc"),
        ("ab", "c"),
        ("party-1", "Grüße"),
    ):
        name = party.encode()
        info = b"sottovoce stream 1" + struct.pack(">I", len(name)) + name + purpose.encode()
        key = expanded(extracted, info)
        yield good(
            f"the stream of {party} for {purpose}",
            "stream",
            {
                "extracted": extracted,
                "info": info,
                "key": key,
                "bytes": keystream(key, 40),
                "words": words_sent(key, 5),
            },
            secret=secret,
            session=session,
            party=party,
            purpose=purpose,
        )
    for name, wrong in (("a secret", {"secret": "00" * 33}), ("a session", {"session": "00" * 15})):
        given = {"secret": secret, "session": session, "party": "a", "purpose": "b"}
        yield bad(f"{name} of another length", "stream", "length", **(given | wrong))
    key = bytes(32)
    for purpose in ("", "x", "Grüße"):
        child = child_of(key, purpose)
        yield good(
            f"the child for {purpose!r}",
            "child",
            {"key": child, "words": words_sent(child, 3)},
            key=key,
            purpose=purpose,
        )
    yield bad("a key of 16 bytes", "child", "length", key="00" * 16, purpose="x")
    body = packed([1, array("u1", [2, 2], [1, 2, 0, 0])])
    asked = sha256(b"Report\0" + body)
    for purpose in ("answer", "share"):
        about = f"{purpose} {asked.hex()}"
        child = child_of(key, about)
        yield good(
            f"what answers a question, for {purpose!r}",
            "answer",
            {"purpose": about, "words": words_sent(child, 3)},
            key=key,
            kind="Report",
            body=body,
            purpose=purpose,
        )
    words = [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    for threshold in (0, 1, 2**63, 2**64 - 1, 2**64):
        yield good(
            f"coins of {threshold} in 2**64",
            "coins",
            [word < threshold for word in words],
            words=words,
            threshold=threshold,
        )
    for threshold in (-1, 2**64 + 1):
        given = {"words": words, "threshold": threshold}
        yield bad(f"coins of {threshold}", "coins", "out of range", **given)
    last = WORDS - WORDS % 7
    for name, bounds, script in (
        ("one bound", [7] * 4, [0, 6, 7, last - 1]),
        ("words in the last run, which is incomplete", [7] * 3, [last, 8, last, 2**64 - 1, 9, 10]),
        ("a bound of 1", [1] * 2, [5, 2**64 - 1]),
        ("a power of two refuses no word", [2**32] * 2, [2**64 - 1, 2**32]),
        ("the largest bound", [2**64] * 2, [2**64 - 1, 0]),
        ("a bound for each", [2, 3, 2**63 + 1], [5, 2**64 - 1, 2**64 - 1, 4, 3]),
    ):
        rest = iter(script)
        yield good(
            name,
            "integers",
            {"values": uniform(bounds, rest), "left": len(list(rest))},
            words=script,
            bounds=bounds,
        )
    for bound in (0, 2**64 + 1):
        given = {"words": [1], "bounds": [bound]}
        yield bad(f"a bound of {bound}", "integers", "out of range", **given)
    for name, script in (
        ("an order", [30, 10, 20, 2**64 - 1, 0]),
        ("two equal words: all are drawn anew", [5, 1, 5, 3, 2, 1]),
    ):
        n = 5 if name == "an order" else 3
        chosen = script if n == 5 else script[3:]
        order = sorted(range(n), key=lambda place: chosen[place])
        yield good(name, "order", order, words=script, count=n)


# --- randomizers


def logarithm(ratio: Fraction) -> float:
    with localcontext() as context:
        context.prec = 90
        return float((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())


def exponential(x: float) -> Fraction:
    with localcontext() as context:
        context.prec = 120
        return Fraction(Decimal(x).exp())


def halves_to_even(x: Fraction) -> int:
    whole, rest = divmod(x, 1)
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)
    return int(whole) + bool(up)


def keep_law(size: int, threshold: int) -> dict[str, Any]:
    a = Fraction(threshold, WORDS)
    other = (1 - a) / size
    return {
        "threshold": threshold,
        "keep": a,
        "diagonal": a + other,
        "off_diagonal": other,
        "epsilon": logarithm((a + other) / other),
    }


def keep_report(size: int, threshold: int, codes: Sequence[int], words: Iterator[int]) -> list[int]:
    first = [next(words) for _ in codes]
    last = WORDS - (WORDS - threshold) % size
    refused = [place for place, word in enumerate(first) if word >= max(last, threshold)]
    again = dict(zip(refused, uniform([size] * len(refused), words), strict=True))
    return [
        code if word < threshold else again.get(place, (word - threshold) % size)
        for place, (code, word) in enumerate(zip(codes, first, strict=True))
    ]


def inverse(weights: Sequence[int], word: int) -> int:
    return sum(total <= word for total in itertools.accumulate(weights))


def table_weights(table: Sequence[float], mix: float) -> list[int]:
    positive = [Fraction(max(entry, 0.0)) for entry in table]
    share, total = Fraction(mix), sum(positive)
    law = [(1 - share) * entry / total + share / len(table) for entry in positive]
    weights = [max(1, int(x * WORDS + Fraction(1, 2))) if x else 0 for x in law]
    largest = weights.index(max(weights))
    weights[largest] += WORDS - sum(weights)
    if weights[largest] == WORDS:
        weights[largest] -= 1
        weights[0 if largest else 1] = 1
    return weights


def table_law(threshold: int, weights: Sequence[int]) -> dict[str, Any]:
    p, fakes = Fraction(threshold, WORDS), [Fraction(weight, WORDS) for weight in weights]
    least = (1 - p) * min(fakes)
    return {
        "threshold": threshold,
        "weights": weights,
        "diagonal": [(p + (1 - p) * fake) for fake in fakes],
        "off_diagonal": [((1 - p) * fake) for fake in fakes],
        "epsilon": logarithm((p + least) / least) if least else "infinite",
    }


def matrix_weights(row: Sequence[float]) -> list[int]:
    weights = [max(1, halves_to_even(Fraction(entry) * WORDS)) if entry else 0 for entry in row]
    weights[weights.index(max(weights))] += WORDS - sum(weights)
    return weights


def unary_report(
    size: int, hit: int, other: int, codes: Sequence[int], words: Iterator[int]
) -> list[bytes]:
    reports = []
    for code in codes:
        drawn = [next(words) for _ in range(size)]
        bits = [word < other for word in drawn]
        bits[code] = drawn[code] >= WORDS - hit
        whole = sum(bit << place for place, bit in enumerate(bits))
        reports.append(whole.to_bytes((size + 7) // 8, "little"))
    return reports


def key_value_reports(
    keys: int,
    thresholds: tuple[int, int],
    rows: Sequence[Sequence[float | None]],
    script: list[int],
) -> tuple[list[int], list[int], int]:
    words = iter(script)
    asked = uniform([keys] * len(rows), words)
    values = [row[key] for row, key in zip(rows, asked, strict=True)]
    held = keep_report(2, thresholds[0], [int(value is not None) for value in values], words)
    signs = []
    for value in values:
        positive = (next(words) >> 11) < (1 + Fraction(value or 0.0)) * 2**52
        signs.append(int(positive))
    turned = keep_report(2, thresholds[1], signs, words)
    symbols = [
        0 if not kept else 1 if sign else -1 for kept, sign in zip(held, turned, strict=True)
    ]
    return asked, symbols, len(list(words))


def randomizers() -> Iterator[Case]:
    for size, p in ((2, 0.5), (3, 0.7), (1000, 0.1), (5, 2.0**-64), (2, 1 - 2.0**-53)):
        threshold = halves_to_even(Fraction(p) * WORDS)
        given = {"size": size, "p": p}
        yield good(f"keep of {size} with {p}", "keep by p", keep_law(size, threshold), **given)
    for size, diagonal in ((2, 0.75), (3, 0.4), (10, 0.91)):
        a = (Fraction(diagonal) * size - 1) / (size - 1)
        threshold = halves_to_even(a * WORDS)
        given = {"size": size, "diagonal": diagonal}
        yield good(
            f"keep of {size} with diagonal {diagonal}",
            "keep by diagonal",
            keep_law(size, threshold),
            **given,
        )
    for size, epsilon in ((2, 1.0), (3, 0.5), (16, 2.0), (1000, 0.01), (2, 30.0)):
        odds = exponential(epsilon)
        threshold = int((odds - 1) / (odds + size - 1) * WORDS)
        given = {"size": size, "epsilon": epsilon}
        yield good(
            f"keep of {size} with epsilon {epsilon}",
            "keep by epsilon",
            keep_law(size, threshold),
            **given,
        )
    for function, name, given in (
        ("keep by p", "a probability of 0", {"size": 2, "p": 0.0}),
        ("keep by p", "a probability of 1", {"size": 2, "p": 1.0}),
        ("keep by p", "a probability that rounds to 0", {"size": 2, "p": 2.0**-66}),
        ("keep by p", "one category", {"size": 1, "p": 0.5}),
        ("keep by diagonal", "a diagonal of 1/size", {"size": 2, "diagonal": 0.5}),
        ("keep by diagonal", "a diagonal of 1", {"size": 3, "diagonal": 1.0}),
        ("keep by epsilon", "epsilon 0", {"size": 2, "epsilon": 0.0}),
        ("keep by epsilon", "an epsilon below 2**-64", {"size": 2, "epsilon": 1e-30}),
    ):
        yield bad(name, function, "out of range", **given)
    size, threshold = 5, 2**62
    edge = WORDS - (WORDS - threshold) % size
    codes = [2, 2, 0, 1, 0]
    script = [threshold - 1, threshold, threshold + 1, edge - 1, WORDS // 2]
    refusing = [edge, 0, edge, WORDS - 1, 0, WORDS - 1, 7, 8, 9]
    for name, given_codes, drawn in (
        ("words around the threshold", codes, script),
        ("words in the last run, which is incomplete", codes, refusing),
    ):
        words = iter(drawn)
        reports = keep_report(size, threshold, given_codes, words)
        yield good(
            name,
            "keep reports",
            {"reports": reports, "left": len(list(words))},
            size=size,
            threshold=threshold,
            codes=given_codes,
            words=drawn,
        )
    given = {"size": size, "threshold": threshold, "codes": [5], "words": [0]}
    yield bad("a code that is not a category", "keep reports", "out of range", **given)
    columns = [(5, 2**62), (3, 2**63 + 1)]
    records = [[4, 2], [0, 1], [3, 0]]
    edges = [WORDS - (WORDS - threshold) % size for size, threshold in columns]
    drawn = [edges[0], 0, WORDS - 1, 2**63, edges[1], 2**63 + 2, 7, 8, WORDS - 1, 9]
    first, again = drawn[:6], iter(drawn[6:])
    reports = [[*record] for record in records]
    refused = []
    for place, word in enumerate(first):
        column, row = divmod(place, 3)
        size, threshold = columns[column]
        if word >= edges[column]:
            refused.append((row, column, size))
        elif word >= threshold:
            reports[row][column] = (word - threshold) % size
    bounds = [size for *_, size in refused]
    for (row, column, _), value in zip(refused, uniform(bounds, again), strict=True):
        reports[row][column] = value
    yield good(
        "a block of records, column by column, those refused at the end",
        "columns",
        {"reports": reports, "left": len(list(again))},
        sizes=[size for size, _ in columns],
        thresholds=[threshold for _, threshold in columns],
        codes=records,
        words=drawn,
    )
    tables: list[tuple[str, float, list[float], float]] = [
        ("a table", 0.5, [0.25, 0.5, 0.25], 0.0),
        ("a table that does not sum to 1, mixed", 0.3, [3.0, -1.0, 1.0, 0.0], 0.25),
        ("a table with a zero and no mix", 0.7, [0.0, 0.1, 0.9], 0.0),
        ("all in one category", 0.7, [0.0, 2.0], 0.0),
        ("only the mix", 0.9, [1.0, 0.0, 0.0], 1.0),
        ("a third each", 0.6, [1.0, 1.0, 1.0], 0.0),
    ]
    for name, p, table, mix in tables:
        weights = table_weights(table, mix)
        law = table_law(halves_to_even(Fraction(p) * WORDS), weights)
        yield good(name, "table", law, p=p, table=table, mix=mix)
    for name, p, table, mix in (
        ("no positive entry", 0.5, [0.0, -1.0], 0.0),
        ("one entry", 0.5, [1.0], 0.0),
        ("a mix above 1", 0.5, [1.0, 1.0], 1.5),
        ("p of 1", 1.0, [1.0, 1.0], 0.0),
    ):
        yield bad(name, "table", "out of range", p=p, table=table, mix=mix)
    weights = [2**62, 0, 2**63, 2**62]
    drawn = [0, 0, 2**63, 0, 2**63, 2**62 - 1, 2**63, 2**62, 2**64 - 1, 2**64 - 1]
    pairs = list(zip(drawn[::2], drawn[1::2], strict=True))
    codes = [3, 3, 3, 3, 3]
    reports = [
        code if coin < 2**63 else inverse(weights, fake)
        for code, (coin, fake) in zip(codes, pairs, strict=True)
    ]
    yield good(
        "two words a report, the second used only if the first is not below the threshold",
        "table reports",
        {"reports": reports, "left": 0},
        threshold=2**63,
        weights=weights,
        codes=codes,
        words=drawn,
    )
    square = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]]
    rows = [matrix_weights(row) for row in square]
    yield good(
        "a matrix with a zero",
        "matrix",
        {"weights": rows, "epsilon": "infinite"},
        rows=square,
    )
    square = [[0.75, 0.25], [0.4, 0.6]]
    rows = [matrix_weights(row) for row in square]
    ratios = [Fraction(max(column), min(column)) for column in zip(*rows, strict=True)]
    yield good(
        "a matrix",
        "matrix",
        {"weights": rows, "epsilon": logarithm(max(ratios))},
        rows=square,
    )
    for name, wrong in (
        ("a row that does not sum to 1", [[0.5, 0.4], [0.5, 0.5]]),
        ("a negative probability", [[1.5, -0.5], [0.5, 0.5]]),
        ("two equal rows", [[0.5, 0.5], [0.5, 0.5]]),
        ("a certain report", [[1.0, 0.0], [0.5, 0.5]]),
    ):
        yield bad(name, "matrix", "out of range", rows=wrong)
    drawn = [rows[0][0] - 1, rows[0][0], rows[1][0] - 1, rows[1][0], 2**64 - 1]
    codes = [0, 0, 1, 1, 0]
    yield good(
        "words around the weights",
        "matrix reports",
        {
            "reports": [inverse(rows[code], word) for code, word in zip(codes, drawn, strict=True)],
            "left": 0,
        },
        weights=rows,
        codes=codes,
        words=drawn,
    )
    for encoding, size, epsilon in (
        ("symmetric", 2, 1.0),
        ("symmetric", 10, 2.0),
        ("symmetric", 256, 0.1),
        ("optimized", 10, 1.0),
        ("optimized", 1000, 3.0),
    ):
        parts = 2 if encoding == "symmetric" else 1
        other = -int(-WORDS / (1 + exponential(epsilon / parts)) // 1)
        hit = WORDS - other if encoding == "symmetric" else WORDS // 2
        p, q = Fraction(hit, WORDS), Fraction(other, WORDS)
        law = {"hit": hit, "other": other, "p": p, "q": q}
        law["epsilon"] = logarithm(p * (1 - q) / (q * (1 - p)))
        given = {"encoding": encoding, "size": size, "epsilon": epsilon}
        yield good(f"{encoding} of {size} with epsilon {epsilon}", "unary", law, **given)
    for size, epsilon in ((1, 1.0), (2, 0.0), (2**16 + 1, 1.0), (2, 1e-30)):
        given = {"encoding": "symmetric", "size": size, "epsilon": epsilon}
        yield bad(f"unary of {size} with {epsilon}", "unary", "out of range", **given)
    drawn = [2**62 - 1, 2**62, *[2**63] * 7, 0, *[2**64 - 1] * 9, 0]
    around = [2**63, 2**62, 2**63 - 1, 2**62 - 1, 2**63 - 1, 2**62 - 1]
    for name, size, hit, script, codes in (
        ("a word for each of ten bits, which it flips", 10, 3 * 2**62, drawn, [0, 9]),
        ("words around both thresholds", 3, 2**63, around, [0, 2]),
    ):
        words = iter(script)
        reports = unary_report(size, hit, 2**62, codes, words)
        given = {"size": size, "hit": hit, "other": 2**62, "codes": codes, "words": script}
        output = {"reports": reports, "left": len(list(words))}
        yield good(name, "unary reports", output, **given)
    given = {"size": 3, "hit": 2**62, "other": 2**62, "codes": [0], "words": [0] * 3}
    yield bad("a hit as likely as another", "unary reports", "out of range", **given)
    holdings: list[list[float | None]] = [[0.5, None], [None, -1.0], [1.0, 0.0], [None, None]]
    # Keys 0 1 0 1; the last key is not held and said to be; signs around their edges; no turn.
    told = [0, 1, 2, 3, 0, 0, 0, 2**63 + 1]
    scripts = {
        "words at the edge of the sign": [*told, 3 * 2**62, 0, 2**64 - 1, 2**63, 0, 0, 0, 0],
        "words below the edge of the sign": [*told, 3 * 2**62 - 1, 0, 0, 2**63 - 1, 0, 0, 0, 0],
        "any words": words_sent(some("key-value", 32), 20),
    }
    for name, script in scripts.items():
        keys, symbols, left = key_value_reports(2, (2**63, 2**62), holdings, script)
        yield good(
            name,
            "key-value reports",
            {"keys": keys, "symbols": symbols, "left": left},
            keys=2,
            key_threshold=2**63,
            value_threshold=2**62,
            values=holdings,
            words=script,
        )


# --- Merkle trees, as RFC 9162 defines them


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return sha256(b"")
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0])
    k = split(len(leaves))
    return sha256(b"\1" + tree_hash(leaves[:k]) + tree_hash(leaves[k:]))


def split(n: int) -> int:
    return 1 << (n - 1).bit_length() - 1


def inclusion_path_at(m: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*inclusion_path_at(m, leaves[:k]), tree_hash(leaves[k:])]
    return [*inclusion_path_at(m - k, leaves[k:]), tree_hash(leaves[:k])]


def proof_of(m: int, leaves: Sequence[bytes], whole: bool = True) -> list[bytes]:
    if m == len(leaves):
        return [] if whole else [tree_hash(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*proof_of(m, leaves[:k], whole), tree_hash(leaves[k:])]
    return [*proof_of(m - k, leaves[k:], False), tree_hash(leaves[:k])]


def joint_path(leaves: Sequence[bytes], indices: Iterable[int]) -> list[bytes]:
    """Level by level, left to right: a vertex beside one that is known, and not known itself."""
    path, chosen, width = [], set(indices), 1
    while width < len(leaves):
        known = {index // width for index in chosen}
        for vertex in range(-(-len(leaves) // width)):
            if vertex not in known and vertex ^ 1 in known:
                path.append(tree_hash(leaves[vertex * width : (vertex + 1) * width]))
        width *= 2
    return path


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def log_leaves(secret: bytes, contents: Sequence[bytes]) -> list[bytes]:
    """The leaves of a transcript's log: a salt, then the content, or 0 and its hash."""
    leaves = []
    for index, content in enumerate(contents):
        # One block of the cipher, of the place.
        place = index.to_bytes(16, "big")
        salt = Cipher(AES256(secret), ECB()).encryptor().update(place)
        leaves.append(salt + (content if len(content) <= 1024 else b"\0" + sha256(content)))
    return leaves


def based(content: bytes) -> str:
    return base64.b64encode(content).decode()


def checkpoint_note(secret: bytes, session: bytes, size: int, root: bytes) -> str:
    """A signed note (C2SP) of an aggregator's Ed25519 key."""
    key = Ed25519PrivateKey.from_private_bytes(secret)
    public = key.public_key().public_bytes_raw()
    name = f"sottovoce/{session.hex()}/{public.hex()}"
    text = f"{name}\n{size}\n{based(root)}\n"
    key_id = sha256(name.encode() + b"\n\1" + public)[:4]
    return f"{text}\n\u2014 {name} {based(key_id + key.sign(text.encode()))}\n"


def merkle() -> Iterator[Case]:
    for n in (0, 1, 2, 3, 4, 5, 7, 8, 9):
        leaves = [b"leaf %d" % i for i in range(n)]
        given = {"leaves": leaves}
        yield good(f"a tree of {n}", "root", {"root": tree_hash(leaves)}, **given)
    yield good("an empty leaf", "root", {"root": tree_hash([b""])}, leaves=[""])
    for n in (1, 2, 3, 5, 8):
        leaves = [b"leaf %d" % i for i in range(n)]
        for index in range(n):
            yield good(
                f"leaf {index} of {n}",
                "inclusion path",
                {"path": inclusion_path_at(index, leaves)},
                leaves=leaves,
                index=index,
            )
    leaves = [b"leaf %d" % i for i in range(7)]
    for index in (-1, 7):
        given = {"leaves": leaves, "index": index}
        yield bad(f"leaf {index} of 7", "inclusion path", "out of range", **given)
    for index in (2, 6):
        path, root = inclusion_path_at(index, leaves), tree_hash(leaves)
        claim = {"leaf": leaves[index], "index": index, "count": 7, "path": path, "root": root}
        shorter = tree_hash(leaves[:6])
        for name, change, holds in (
            ("as it is", {}, True),
            ("another leaf", {"leaf": leaves[1]}, False),
            ("another place", {"index": index - 1}, False),
            ("a place outside", {"index": 7}, False),
            ("a negative place", {"index": -1}, False),
            ("another size", {"count": 16}, False),
            ("a tree of no leaf", {"count": 0}, False),
            ("another root", {"root": shorter}, False),
            ("a vertex changed", {"path": [flipped(path[0]), *path[1:]]}, False),
            ("a vertex too few", {"path": path[:-1]}, False),
            ("a vertex too many", {"path": [*path, path[-1]]}, False),
            ("vertices in another order", {"path": path[::-1]}, False),
            ("no vertex", {"path": []}, False),
        ):
            yield good(f"leaf {index} of 7, {name}", "is included", holds, **(claim | change))
        inner = sha256(b"\0" + leaves[0]) + sha256(b"\0" + leaves[1])
        claim = {**claim, "leaf": inner, "index": 0, "path": inclusion_path_at(0, leaves)[1:]}
        yield good(f"an inner vertex for a leaf ({index})", "is included", False, **claim)
    for first in range(8):
        proof = proof_of(first, leaves) if first else []
        yield good(
            f"{first} leaves grew to 7",
            "consistency path",
            {"path": proof},
            leaves=leaves,
            first=first,
        )
    yield bad("8 leaves of 7", "consistency path", "out of range", leaves=leaves, first=8)
    for first in (3, 4, 6):
        proof = proof_of(first, leaves)
        claim = {
            "first": first,
            "second": 7,
            "first_root": tree_hash(leaves[:first]),
            "second_root": tree_hash(leaves),
            "path": proof,
        }
        other = tree_hash([*leaves[: first - 1], b"rewritten"])
        for name, change, holds in (
            ("as it is", {}, True),
            ("another beginning", {"first_root": other}, False),
            ("another end", {"second_root": other}, False),
            ("one leaf more at first", {"first": first + 1}, False),
            ("another size", {"second": 16}, False),
            ("it shrank", {"first": 7, "second": first}, False),
            ("a vertex changed", {"path": [*proof[:-1], flipped(proof[-1])]}, False),
            ("a vertex too few", {"path": proof[:-1]}, False),
            ("a vertex too many", {"path": [*proof, proof[-1]]}, False),
            ("no vertex", {"path": []}, False),
        ):
            yield good(f"{first} of 7, {name}", "is consistent", holds, **(claim | change))
    empty = {"first": 0, "second": 7, "first_root": sha256(b""), "path": []}
    empty["second_root"] = tree_hash(leaves)
    yield good("everything extends nothing", "is consistent", True, **empty)
    wrong = {**empty, "first_root": empty["second_root"]}
    yield good("nothing has one root alone", "is consistent", False, **wrong)
    same = {**empty, "first": 7, "first_root": empty["second_root"]}
    yield good("a tree extends itself", "is consistent", True, **same)
    for name, change in (
        ("and a vertex", {"path": [sha256(b"")]}),
        ("and another root", {"first_root": sha256(b"")}),
    ):
        yield good(f"a tree, itself {name}", "is consistent", False, **(same | change))
    for indices in ([0], [6], [0, 1], [1, 2], [0, 3, 6], [5, 4, 0], list(range(7))):
        path = joint_path(leaves, indices)
        about = {"leaves": leaves, "indices": indices}
        yield good(f"leaves {indices} at once", "joint path", {"path": path}, **about)
        claim = {
            "leaves": {str(index): leaves[index] for index in indices},
            "count": 7,
            "path": path,
        }
        root = {"root": tree_hash(leaves)}
        yield good(f"the root of leaves {indices}", "joint root", root, **claim)
        yield good(
            f"leaves {indices} and a vertex too many",
            "joint root",
            {"root": None},
            **{**claim, "path": [*path, sha256(b"")]},
        )
    for name, change in (
        ("no leaf", {"leaves": {}}),
        ("a leaf outside", {"leaves": {"7": leaves[0]}}),
        ("a vertex too few", {"leaves": {"0": leaves[0]}, "path": [sha256(b"")]}),
    ):
        claim = {"leaves": {}, "count": 7, "path": [], **change}
        yield good(f"jointly, {name}", "joint root", {"root": None}, **claim)


# --- the log of a transcript: salted leaves, signed notes, consistency proofs


def consistency_text(contents: Sequence[bytes], secret: bytes, first: int, note: str) -> str:
    lines = [f"old {first}", *map(based, proof_of(first, log_leaves(secret, contents)))]
    return "\n".join([*lines, "", note])


def logs() -> Iterator[Case]:
    secret, session, signer = some("log", 32), some("session", 32), some("aggregator", 32)
    for first, count in ((0, 3), (1, 2), (255, 2), (2**32 - 1, 2)):
        place = first.to_bytes(16, "big")
        stream = Cipher(AES256(secret), CTR(place)).encryptor().update(bytes(16 * count))
        salts = [stream[i : i + 16] for i in range(0, len(stream), 16)]
        given = {"secret": secret, "first": number(first), "count": count}
        yield good(f"{count} from {first}", "salts", {"salts": salts}, **given)
    lengths = (1, 16, 1023, 1024, 1025, 3000)
    for length in lengths:
        content = b"\x90" + some("content", length - 1)
        [leaf] = log_leaves(secret, [content])
        given = {"salt": leaf[:16], "content": content}
        yield good(f"a content of {length} bytes", "leaf", {"leaf": leaf}, **given)
    contents = [b"\x90" + some(f"content {i}", 10 * i) for i in range(1, 10)]
    contents[4] += some("more", 1024)
    roots = {}
    for size in (0, 1, 2, 3, 5, 8, 9):
        roots[size] = tree_hash(log_leaves(secret, contents[:size]))
        given = {"secret": secret, "contents": contents[:size]}
        yield good(f"a log of {size}", "log root", {"root": roots[size]}, **given)
    notes = {size: checkpoint_note(signer, session, size, root) for size, root in roots.items()}
    for size, root in roots.items():
        given = {"signer": signer, "session": session, "size": size, "root": root}
        yield good(f"a log of {size}", "sign", {"note": notes[size]}, **given)
    yield from read_notes(notes[9], session, roots[9], signer)
    for first, last in ((1, 2), (1, 9), (3, 5), (5, 8), (8, 9), (9, 9)):
        text = consistency_text(contents[:last], secret, first, notes[last])
        claim = {"earlier": notes[first], "proof": text}
        yield good(f"{first} to {last}", "is consistent", True, **claim)
    text = consistency_text(contents, secret, 3, notes[9])
    fork = checkpoint_note(signer, session, 3, sha256(b"fork"))
    another = checkpoint_note(some("another", 32), session, 3, roots[3])
    for name, claim in (
        ("a fork", {"earlier": fork, "proof": text}),
        ("another key", {"earlier": another, "proof": text}),
        ("another size", {"earlier": notes[5], "proof": text}),
        ("another proof", {"earlier": notes[3], "proof": text.replace("old 3", "old 5")}),
        ("not signed", {"earlier": resigned(notes[3]), "proof": text}),
        ("later not signed", {"earlier": notes[3], "proof": text[:-93] + notes[5][-93:]}),
        ("a hash too few", {"earlier": notes[3], "proof": without_line(text, 1)}),
    ):
        yield good(name, "is consistent", False, **claim)
    for name, wrong in (
        ("no size", text.replace("old 3", "old")),
        ("a zero before", text.replace("old 3", "old 03")),
        ("no checkpoint", text[: text.index("\n\n")]),
        ("a short hash", text.replace("old 3", f"old 3\n{based(bytes(31))}")),
    ):
        yield bad(name, "is consistent", "malformed", earlier=notes[3], proof=wrong)


def resigned(note: str) -> str:
    """The note with another signature in the right form."""
    at = note.rindex(" ") + 1
    signature = base64.b64decode(note[at:])
    return note[:at] + based(signature[:4] + bytes(64)) + "\n"


def without_line(text: str, place: int) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:place], *lines[place + 1 :]])


def read_notes(note: str, session: bytes, root: bytes, signer: bytes) -> Iterator[Case]:
    key = Ed25519PrivateKey.from_private_bytes(signer).public_key().public_bytes_raw()
    said = {"session": session, "key": key, "size": 9, "root": root, "valid": True}
    witness = f"\u2014 witness.example/w {based(bytes(76))}\n"
    text, _, line = note.partition("\n\n")
    for name, other, valid in (
        ("as it is", note, True),
        ("with a witness's signature", note + witness, True),
        ("with a witness's signature before", f"{text}\n\n{witness}{line}", True),
        ("with another signature", resigned(note), False),
    ):
        yield good(name, "read note", {**said, "valid": valid}, note=other)
    for name, wrong in (
        ("nothing", ""),
        ("no signature", f"{text}\n\n"),
        ("a witness's signature alone", f"{text}\n\n{witness}"),
        ("its own signature twice", note + line),
        ("no line end", note[:-1]),
        ("an empty line more", note.replace("\n\n", "\n\n\n")),
        ("a line more", note.replace("\n\n", "\nmore\n\n")),
        ("a zero before the size", note.replace("\n9\n", "\n09\n")),
        ("no size", note.replace("\n9\n", "\n\n")),
        ("a size of 2**63", note.replace("\n9\n", f"\n{2**63}\n")),
        ("a root without padding", note.replace("=\n\n", "\n\n")),
        ("a short root", note.replace(based(root), based(root[:31]))),
        ("another origin", note.replace("sottovoce/", "elsewhere/")),
        ("digits in upper case", note.replace(key.hex(), key.hex().upper())),
        ("a hyphen for the dash", note.replace("\u2014", "-")),
        ("another key's number", note.replace(line.split()[2][:5], "AAAAA")),
        ("too many signatures", note + witness * 64),
    ):
        yield bad(name, "read note", "malformed", note=wrong)


# --- Shamir over GF(256)


def times(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return product


def reciprocal(a: int) -> int:
    return next(b for b in range(256) if times(a, b) == 1)


def vanishing(bit: int, x: int) -> int:
    """``s_bit(x)``: s_0(x) = x, and s_{b+1}(x) = s_b(x) (s_b(x) + s_b(2**b))."""
    if bit == 0:
        return x
    below = vanishing(bit - 1, x)
    return times(below, below ^ vanishing(bit - 1, 1 << (bit - 1)))


def basis(i: int, x: int) -> int:
    """``X_i(x)``: the product of ``s_b(x) / s_b(2**b)`` over the bits b of i."""
    value = 1
    for bit in range(8):
        if i >> bit & 1:
            unit = reciprocal(vanishing(bit, 1 << bit))
            value = times(value, times(vanishing(bit, x), unit))
    return value


def shares_of(secret: bytes, shares: int, threshold: int, key: bytes) -> list[bytes]:
    length = len(secret)
    drawn = keystream(key, (threshold - 1) * length)
    rows = [secret, *(drawn[i * length : (i + 1) * length] for i in range(threshold - 1))]
    made = []
    for point in range(1, shares + 1):
        values = [basis(i, point) for i in range(threshold)]
        share = bytearray(length)
        for row, value in zip(rows, values, strict=True):
            for place in range(length):
                share[place] ^= times(row[place], value)
        made.append(bytes(share))
    return made


def interpolated(places: Sequence[int], shares: Sequence[bytes]) -> bytes:
    secret = bytearray(len(shares[0]))
    for place, share in zip(places, shares, strict=True):
        weight = 1
        for other in places:
            if other != place:
                ratio = times(other + 1, reciprocal((other + 1) ^ (place + 1)))
                weight = times(weight, ratio)
        for at, octet in enumerate(share):
            secret[at] ^= times(weight, octet)
    return bytes(secret)


def shamir() -> Iterator[Case]:
    for secret, shares, threshold in (
        (b"\x2a", 1, 1),
        (b"\x2a", 3, 2),
        (b"\0\xff", 5, 3),
        (b"sixteen bytes ok", 7, 7),
        (b"", 3, 2),
        (b"\x07", 255, 4),
    ):
        key = some(f"shamir {shares} {threshold}", 32)
        made = shares_of(secret, shares, threshold, key)
        given = {"secret": secret, "shares": shares, "threshold": threshold, "key": key}
        yield good(f"{threshold} of {shares}, {len(secret)} B", "share", made, **given)
    for shares, threshold in ((3, 0), (3, 4), (256, 3), (0, 0)):
        given = {"secret": "2a", "shares": shares, "threshold": threshold, "key": "00" * 32}
        yield bad(f"{threshold} of {shares}", "share", "out of range", **given)
    secret = b"\0\x01\x80\xff"
    made = shares_of(secret, 6, 3, some("shamir", 32))
    for name, places, given_shares in (
        ("the first three", [0, 1, 2], made[:3]),
        ("any three, in any order", [5, 0, 3], [made[5], made[0], made[3]]),
        ("more than needed", [0, 1, 2, 4, 5], [made[i] for i in (0, 1, 2, 4, 5)]),
        ("too few: another secret, and nothing shows it", [0, 1], made[:2]),
        (
            "a wrong share: another secret, and nothing shows it",
            [0, 1, 2],
            [flipped(made[0]), *made[1:3]],
        ),
        ("shares at each other's places", [1, 0, 2], made[:3]),
        ("the last place", [254], [b"\x11"]),
    ):
        yield good(
            name,
            "reconstruct",
            {"secret": interpolated(places, given_shares)},
            places=places,
            shares=given_shares,
        )
    for name, places, error in (
        ("a place twice", [0, 1, 1], "duplicate"),
        ("a place below 0", [0, 1, -1], "out of range"),
        ("a place above 254", [0, 1, 255], "out of range"),
        ("no share", [], "out of range"),
    ):
        given = {"places": places, "shares": made[: len(places)]}
        yield bad(name, "reconstruct", error, **given)


# --- masks


def mask_of(seed: bytes, cells: int, bits: int) -> list[int]:
    step = bits // 8
    octets = keystream(seed, cells * step)
    return [int.from_bytes(octets[i : i + step], "little") for i in range(0, len(octets), step)]


def mask_seed(edge: bytes, names: Sequence[str]) -> bytes:
    return box_keys(edge, "mask", *sorted(names), b"")[:32]


def seed_digest(seed: bytes, context: bytes, names: Sequence[str]) -> bytes:
    return sha256(context + b"mask\0" + "\0".join(sorted(names)).encode() + b"\0" + seed)[:16]


def encrypted(key: bytes, seeds: Sequence[bytes]) -> list[bytes]:
    covered = b"".join(seeds)
    octets = bytes(a ^ b for a, b in zip(keystream(key, len(covered)), covered, strict=True))
    return [octets[i : i + 32] for i in range(0, len(octets), 32)]


def masks() -> Iterator[Case]:
    for respondents, bits in ((1, 16), (2**16 - 1, 16), (2**16, 32), (2**32 - 1, 32)):
        given = {"respondents": respondents}
        yield good(f"cells for {respondents}", "cell", {"bits": bits}, **given)
    for respondents in (0, -1, 2**32):
        given = {"respondents": respondents}
        yield bad(f"cells for {respondents}", "cell", "out of range", **given)
    for bits, cells in ((16, 5), (32, 5), (16, 0)):
        seed = some("mask", 32)
        yield good(
            f"{cells} cells of {bits} bits",
            "mask",
            mask_of(seed, cells, bits),
            seed=seed,
            cells=cells,
            bits=bits,
        )
    yield bad("8 bits", "mask", "out of range", seed="00" * 32, cells=1, bits=8)
    yield bad("a short seed", "mask", "length", seed="00" * 31, cells=1, bits=16)
    names = ["party-1", "party-2", "party-3", "party-4"]
    context = some("context", 72)
    edges = {
        pair: some(f"edge {pair[0]} {pair[1]}", 32) for pair in itertools.combinations(range(4), 2)
    }
    for i, j in ((0, 1), (1, 0), (2, 3)):
        ends = [names[i], names[j]]
        seed = mask_seed(edges[min(i, j), max(i, j)], ends)
        yield good(
            f"{names[i]} with {names[j]}",
            "pair seed",
            {"seed": seed, "digest": seed_digest(seed, context, ends)},
            edge=edges[min(i, j), max(i, j)],
            context=context,
            neighbours=ends,
        )
    for k in (0, 1, 3):
        key, seeds = some("seed key", 32), [some(f"seed {row}", 32) for row in range(k)]
        yield good(f"{k} seeds", "seeds", encrypted(key, seeds), key=key, seeds=seeds)
    yield bad("a short key", "seeds", "length", key="00" * 31, seeds=["00" * 32])
    yield from sums(names, edges)
    for parties, cells, modulus in (
        (1, 2, 7),
        (3, 4, 7),
        (4, 3, 2**16 + 1),
        (2, 2, 1),
        (3, 2, 2**32),
    ):
        key = some(f"zero {modulus}", 32)
        words = itertools.chain(words_sent(key, 64))
        drawn = uniform([modulus] * ((parties - 1) * cells), words)
        rows = [drawn[i * cells : (i + 1) * cells] for i in range(parties - 1)]
        rows.append([-sum(row[cell] for row in rows) % modulus for cell in range(cells)])
        yield good(
            f"zeros among {parties}, modulo {modulus}",
            "zero shares",
            rows,
            parties=parties,
            cells=cells,
            modulus=modulus,
            key=key,
        )
    for parties, modulus in ((0, 7), (3, 0), (3, 2**32 + 1)):
        given = {"parties": parties, "cells": 1, "modulus": modulus, "key": "00" * 32}
        yield bad(
            f"zeros among {parties}, modulo {modulus}", "zero shares", "out of range", **given
        )
    rows = [[6, 5, 0], [6, 2, 0], [6, 6, 1]]
    total = [sum(column) % 7 for column in zip(*rows, strict=True)]
    yield good("a sum modulo 7", "sum", total, rows=rows, modulus=7)
    large = [[2**32 - 1]] * 5
    yield good(
        "a sum of large residues", "sum", [5 * (2**32 - 1) % 2**32], rows=large, modulus=2**32
    )


def sums(names: Sequence[str], edges: Mapping[tuple[int, int], bytes]) -> Iterator[Case]:
    """Whole sums among parties that are all neighbours; the last may vanish before it uploads."""
    values = [[1, 0, 3], [0, 0, 4], [2, 2, 0], [1, 1, 1]]
    own = [some(f"own {name}", 32) for name in names]
    everyone = range(len(names))
    for bits, uploading in ((16, 4), (32, 4), (16, 3)):
        modulus = 2**bits

        def pair(i: int, j: int, bits: int = bits) -> list[int]:
            """What i adds for j: the mask if i is first, else what takes it out."""
            seed = mask_seed(edges[min(i, j), max(i, j)], (names[i], names[j]))
            return [(1 if i < j else -1) * cell for cell in mask_of(seed, 3, bits)]

        uploads = []
        for i in range(uploading):
            added = [values[i], mask_of(own[i], 3, bits), *(pair(i, j) for j in everyone if j != i)]
            uploads.append([sum(column) % modulus for column in zip(*added, strict=True)])
        total = [sum(row[cell] for row in values[:uploading]) for cell in range(3)]
        gone = "" if uploading == 4 else ", one of which vanished before its upload"
        yield good(
            f"a sum of four in cells of {bits} bits{gone}",
            "masked sum",
            {"uploads": uploads, "total": total},
            names=names,
            edges=[[*pair, key] for pair, key in edges.items()],
            own_seeds=own,
            bits=bits,
            values=values,
            uploading=uploading,
        )


# --- boxes and commitments


def agreement_key(public: bytes) -> bytes:
    prime = 2**255 - 19
    y = int.from_bytes(public, "little") % 2**255
    u = (1 + y) * pow(1 - y, -1, prime) % prime
    return u.to_bytes(32, "little")


def box_keys(key: bytes, purpose: str, sender: str, recipient: str, salt: bytes) -> bytes:
    info = b"\0".join((purpose.encode(), sender.encode(), recipient.encode(), salt))
    return HKDFExpand(SHA512(), 64, info).derive(key)


def sealing() -> Iterator[Case]:
    seeds = {name: some(f"identity {name}", 32) for name in ("party-1", "party-2", "aggregator")}
    publics = {
        name: Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        for name, seed in seeds.items()
    }
    secret = b""
    for mine, theirs in (("party-1", "party-2"), ("party-2", "party-1"), ("party-1", "aggregator")):
        scalar = hashlib.sha512(seeds[mine]).digest()[:32]
        point = agreement_key(publics[theirs])
        agreed = X25519PrivateKey.from_private_bytes(scalar).exchange(
            X25519PublicKey.from_public_bytes(point)
        )
        secret = secret or agreed
        yield good(
            f"{mine} with {theirs}",
            "agree",
            {"public": publics[mine], "point": point, "secret": agreed},
            identity=seeds[mine],
            key=publics[theirs],
        )
    prime = 2**255 - 19
    order_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    mine = publics["party-1"]
    negative = mine[:31] + bytes([mine[31] ^ 0x80])
    for name, keys, error in (
        ("y of 0", [bytes(32)], "low order"),
        ("y of 1", [(1).to_bytes(32, "little")], "low order"),
        ("y of -1", [(prime - 1).to_bytes(32, "little")], "low order"),
        ("a point of order 8", [order_8.to_bytes(32, "little")], "low order"),
        ("its negative", [(prime - order_8).to_bytes(32, "little")], "low order"),
        ("y of p + 2, not reduced", [(prime + 2).to_bytes(32, "little")], "low order"),
        ("31 bytes", [bytes(31)], "length"),
        ("a key twice", [mine, mine], "duplicate"),
        ("a key and its negative", [mine, negative], "duplicate"),
    ):
        yield bad(name, "identity keys", error, keys=keys)
    yield good("three keys", "identity keys", True, keys=list(publics.values()))
    context, salt, bound = some("sum", 60), some("salt", 16), some("bound", 64)
    key = extract(context, secret)
    given = {"secret": secret, "context": context}
    yield good("the key of an edge", "edge", {"key": key}, **given)
    edge = {"key": key, "sender": "party-1", "recipient": "party-2"}
    for content in (b"", b"a share", some("content", 100)):
        keys_ = box_keys(key, "Deal", "party-1", "party-2", salt)
        box = ChaCha20Poly1305(keys_[:32]).encrypt(bytes(12), content, bound)
        about = {**edge, "kind": "Deal", "salt": salt, "bound": bound}
        yield good(
            f"a box of {len(content)} B",
            "seal",
            {"derived": keys_, "box": box, "hidden": keys_[32:]},
            **about,
            content=content,
        )
        opened = {"content": content, "hidden": keys_[32:]}
        yield good(f"opening {len(content)} B", "open", opened, **about, box=box)
    for name, change in (
        ("a byte changed", {"box": flipped(box)}),
        ("cut short", {"box": box[:-1]}),
        ("a byte longer", {"box": box + b"x"}),
        ("of no byte", {"box": b""}),
        ("shorter than a tag", {"box": "00"}),
        ("bound to something else", {"bound": flipped(bound)}),
        ("bound to nothing", {"bound": ""}),
        ("another salt", {"salt": flipped(salt)}),
        ("another kind", {"kind": "Unmask"}),
        ("the other direction", {"sender": "party-2", "recipient": "party-1"}),
        ("another sender", {"sender": "party-3"}),
        ("another key", {"key": flipped(key)}),
    ):
        yield bad(f"a box, {name}", "open", "does not open", **{**about, "box": box, **change})
    ends = (("party-1", "party-2"), ("party-1", "aggregator"))
    for about_, contents, bounds in (
        ("no letter", [], []),
        ("two letters", [b"a share", b""], [bound, b""]),
        ("two letters, cut elsewhere", [b"a shar", b"e"], [bound, b""]),
    ):
        rows = list(zip(ends, contents, bounds, strict=False))
        parts = [b"Deal"]
        for (sender, recipient), content, bound_ in rows:
            parts += [sender.encode(), recipient.encode(), bound_, content]
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        secret = keystream(child_of(key, "salts of boxes"), 32)
        made = hmac.digest(secret, framed, "sha256")[:16]
        boxes = [
            ChaCha20Poly1305(box_keys(key, "Deal", *names, made)[:32]).encrypt(
                bytes(12), content, bound_
            )
            for names, content, bound_ in rows
        ]
        letters = [
            {"key": key, "sender": a, "recipient": b, "content": content, "bound": bound_}
            for (a, b), content, bound_ in rows
        ]
        output = {"salt": made, "boxes": boxes}
        yield good(about_, "seal letters", output, stream=key, kind="Deal", letters=letters)
    digest = sha256(b"survivors")
    tag = box_keys(key, "tag", "party-1", "party-2", digest)[:16]
    yield good("a tag", "tag", {"tag": tag}, **edge, content=digest)
    for name, change, holds in (
        ("as it is", {}, True),
        ("of another content", {"content": flipped(digest)}, False),
        ("changed", {"tag": flipped(tag)}, False),
        ("cut short", {"tag": tag[:-1]}, False),
        ("of another sender", {"sender": "party-3"}, False),
        ("turned round", {"sender": "party-2", "recipient": "party-1"}, False),
    ):
        about = {**edge, "content": digest, "tag": tag, **change}
        yield good(f"a tag, {name}", "is tag", holds, **about)
    session = bytes(range(16))
    for part, share in ((0, some("share", 32)), (1, b""), (1, b"\x2a")):
        context = session + bytes([part])
        commitment = sha256(context + salt + share)[:16]
        claim = {"context": context, "salt": salt, "share": share}
        yield good(
            f"a commitment to {len(share)} B, part {part}",
            "commit",
            {"commitment": commitment},
            **claim,
        )
    for name, change, holds in (
        ("as it is", {}, True),
        ("another share", {"share": "2b"}, False),
        ("another salt", {"salt": flipped(salt)}, False),
        ("another part", {"context": session + b"\0"}, False),
        ("a byte moved from salt to share", {"share": "002a"}, False),
    ):
        about = {**claim, "commitment": commitment, **change}
        yield good(f"opening a commitment, {name}", "opens", holds, **about)
    yield bad("a salt of 15 bytes", "commit", "length", **{**claim, "salt": bytes(15)})


FILES: dict[str, tuple[str, dict[str, Any], Callable[[], Iterable[Case]]]] = {
    "codec": (
        "Messages and envelopes as msgpack, in the one encoding that is accepted.",
        {
            "kinds": KINDS,
            "bytes_of_an_array": "the product of its longest lengths, times the size, plus 32",
            "errors": {
                "unknown kind": "the kind is not declared",
                "too long": "more bytes than scalar_bytes and all arrays may have",
                "malformed": "not msgpack, cut short, or followed by more; of envelopes also types",
                "wrong type": "another type or number of fields than declared",
                "malformed array": "not [dtype, shape, bytes] of one size",
                "dtype": "another dtype than declared",
                "shape": "another number of axes, or a length out of its bounds",
                "value": "a value out of its bounds",
                "not finite": "infinity or not a number",
                "not canonical": "another encoding of what would be accepted",
            },
        },
        codec,
    ),
    "frames": (
        "Frames on a stream: the payload's length in four bytes, big-endian, then the payload.",
        {
            "errors": {"frame over the cap": "refused as soon as the length is read"},
            "torn": "whether the stream ends inside a frame",
        },
        frames,
    ),
    "keystream": (
        "Secrets, sessions and streams by HKDF-SHA256 and AES-256-CTR, and draws from words.",
        {
            "secret": "SHA-256('sottovoce seed 1' 00 seed), the seed big-endian without zeros",
            "session": "HMAC-SHA256(secret, 'sottovoce session 1'), its first 16 bytes",
            "stream": "HKDF: salt session, secret, info 'sottovoce stream 1' u32(len party) party "
            "purpose; key of 32 bytes; AES-256-CTR from block 0",
            "child": "HKDF-Expand of the stream's key, info 'sottovoce child 1' 00 purpose",
            "answer": "the child for: purpose, a space, hex of SHA-256(kind 00 body)",
            "words": "eight bytes each, little-endian",
            "coins": "word < threshold",
            "integers": "word mod bound; a word of at least 2**64 - 2**64 mod bound is refused; "
            "after a pass over all, those refused are drawn anew, in order",
            "order": "the order that sorts the words; with two equal ones, all are drawn anew",
        },
        streams,
    ),
    "randomizers": (
        "Thresholds and exact probabilities of randomizers, and reports from given words.",
        {
            "denominator": "2**64",
            "keep": "word < threshold keeps; else (word - threshold) mod size; a word of at least "
            "2**64 - (2**64 - threshold) mod size is refused, and after all codes have had their "
            "words, those refused get 'integers' of the keystream's vectors below size",
            "columns": "as 'keep', the words column by column; of up to 512 records, those refused "
            "are drawn anew after all columns have had their words, else after each column",
            "table": "two words a code: the coin's, and the fake's by cumulative weights",
            "matrix": "a word a code, by the cumulative weights of its row",
            "unary": "a word a bit: the bit of the code is 1 if word >= 2**64 - hit, any other if "
            "word < other; bit v in byte v // 8, least significant first",
            "key-value": "in turn, for all: the keys ('integers' below their number); 'keep' of 2 "
            "on whether the key is held; +1 if (word >> 11) < (1 + value) 2**52, a missing value "
            "being 0; 'keep' of 2 on whether it is +1. Not held: 0, else the sign",
            "epsilon": "the natural logarithm of the exact ratio, rounded once",
        },
        randomizers,
    ),
    "merkle": (
        "Trees and proofs of RFC 9162 over SHA-256, and proofs of several leaves at once.",
        {
            "leaf": "SHA-256(00 leaf)",
            "inner": "SHA-256(01 left right)",
            "joint path": "all vertices that do not follow from the leaves given, level by level "
            "from the leaves upward, each from left to right",
        },
        merkle,
    ),
    "log": (
        "The log of a transcript: salted leaves, signed notes (C2SP), consistency proofs as text.",
        {
            "salts": "AES-256(secret, place), the place as 16 bytes, big-endian; one for each leaf "
            "from the first on",
            "leaf": "salt content, or salt 00 SHA-256(content) if that has more than 1024 bytes",
            "log root": "the Merkle tree hash of the leaves (merkle.json)",
            "sign": "text 0a 'EM DASH' name ' ' base64(SHA-256(name 0a 01 key)[:4] signature) 0a; "
            "the text is name 0a size 0a base64(root) 0a, the name 'sottovoce/' session '/' key in "
            "hexadecimal digits; Ed25519 over the text, by the key that 'signer' is the secret of",
            "read note": "valid says whether the signature is right",
            "is consistent": "whether the proof, which ends with the later note, leads there from "
            "the earlier one, both signed by one key",
        },
        logs,
    ),
    "shamir": (
        "Shamir's secret sharing, byte by byte over GF(256) with x^8 + x^4 + x^3 + x + 1.",
        {
            "share": "share s, from 0, is f(s + 1), where f = secret X_0 + c_1 X_1 + ...; c_i is "
            "the i-th row of the keystream of 'key', as long as the secret, from 1",
            "basis": "X_i(x) is the product of s_b(x) / s_b(2**b) over the bits b of i, where "
            "s_0(x) = x and s_{b+1}(x) = s_b(x) (s_b(x) + s_b(2**b))",
            "reconstruct": "f(0) by Lagrange from all shares given",
        },
        shamir,
    ),
    "masks": (
        "Masks that cancel in a sum, and additive shares of zero.",
        {
            "mask": "AES-256-CTR of the seed from block 0, cells little-endian",
            "pair seed": "HKDF-Expand-SHA512 of the pair's edge, its first 32 bytes, info 'mask' "
            "00 names 00, sorted and joined by 00; digest: SHA-256(context 'mask' 00 names 00 "
            "seed), its first 16 bytes",
            "seeds": "one after the other, XOR the AES-256-CTR keystream of the key from block 0",
            "masked sum": "modulo 2**bits: values, the own mask, and for each neighbour the pair's "
            "mask, added by the first on the roster and subtracted by the second. The total: "
            "uploads, less own masks, and for who vanished plus what it would have added",
            "zero shares": "all rows but the last are 'integers' of the keystream's vectors below "
            "modulus, row by row; the last makes every column 0 modulo modulus",
        },
        masks,
    ),
    "sealing": (
        "Boxes and tags between two members, and commitments to shares.",
        {
            "agree": "X25519 with the first half of SHA-512(identity), and u = (1 + y) / (1 - y)",
            "edge": "HKDF-Extract-SHA256, salt context",
            "derived": "HKDF-Expand-SHA512, 64 bytes, info kind 00 sender 00 recipient 00 salt",
            "seal": "ChaCha20-Poly1305, key derived[:32], nonce zero, associated data bound",
            "hidden": "derived[32:]",
            "seal letters": "the salt of all is HMAC-SHA256, 16 bytes, under the first 32 bytes of "
            "the stream's child 'salts of boxes', of the kind and, for each letter, sender, "
            "recipient, bound and content, each after its length in 8 bytes, big-endian",
            "tag": "derived[:16] of kind 'tag', with the content as the salt",
            "commit": "SHA-256(context salt share), its first 16 bytes",
        },
        sealing,
    ),
}


def files() -> dict[str, str]:
    """The text of every file, by its name."""
    made = {}
    for name, (description, parameters, cases) in FILES.items():
        listed = list(cases())
        names = [(case["function"], case["name"]) for case in listed]
        if len(set(names)) != len(names):
            raise ValueError(f"{name}: a case is there twice")
        content = {"description": description, "parameters": parameters, "cases": listed}
        made[f"{name}.json"] = json.dumps(written(content), indent=1, ensure_ascii=False) + "\n"
    return made


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
