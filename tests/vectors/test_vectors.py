"""The program's parts do what the vectors say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Bounds,
    KeepElseTable,
    KeepUniform,
    Kind,
    MatrixRandomizer,
    Me,
    Message,
    PartyId,
    PrivKV,
    ProtocolError,
    RemoteProtocolError,
    Stream,
    UnaryEncoding,
    randomize_columns,
    secret_of,
)
from protocol.crypto import merkle, shamir
from protocol.crypto.commitments import commit, opens
from protocol.crypto.octets import row_bytes
from protocol.crypto.randomness import Streams, expand, public_nonce
from protocol.crypto.sealing import Edge, edge_key
from protocol.crypto.sealing import seal as seal_letters
from protocol.messages import KERNEL_KINDS
from protocol.randomizers.keyvalue import SYMBOLS
from protocol.session.roster import Identity, Roster, agreement_key, check_keys
from protocol.sharing.masks import (
    encrypt_seeds,
    expand_mask,
    mask_seed,
    modulus_bits,
    pair_mask,
    seed_digest,
    sum_modulo,
    zero_shares,
)
from protocol.transcript import log
from protocol.transcript.checkpoints import read_note, sign_checkpoint
from protocol.transcript.consistency import consistency_problems, decode_consistency
from protocol.wire.arrays import encode_message
from protocol.wire.codec import Codec, decode_envelope, encode_envelope
from protocol.wire.framing import FrameReader, frames
from tests.scripted import Scripted
from tests.vectors.formats import FOLDER, number

Given = dict[str, Any]

FILES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
ERRORS = {
    "unknown kind": "is not a kind of this variant",
    "too long": "B, at most .* allowed",
    "malformed": "truncated|trailing|malformed|Expected|utf-8|invalid|expected 1|at most 64",
    "wrong type": "Expected",
    "malformed array": "an array as|unknown dtype|malformed shape|do not fill",
    "dtype": "dtype .*, expected",
    "shape": "axes, expected|on axis",
    "value": "value .* at .*, expected",
    "not finite": "finite",
    "not canonical": "not canonical",
    "frame over the cap": "a frame of",
    "length": "bytes",
    "out of range": "expected|less than|rounds to|too small|no entry|of a tree|negative"
    "|of respondents|probabilit|singular|at least|first 8 leaves",
    "duplicate": "twice|same key",
    "low order": "low order",
    "does not open": "does not open",
}
"""What our messages say of each class of error."""


def hexes(parts: Sequence[Any]) -> list[str]:
    return [bytes(part).hex() for part in parts]


def raw(given: Given, *names: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(given[name]) for name in names)


def rows(parts: Sequence[str]) -> NDArray[np.uint8]:
    """Hexadecimal strings of one length, as the rows of an array."""
    whole = np.frombuffer(bytes.fromhex("".join(parts)), np.uint8)
    return whole.reshape(len(parts), -1 if whole.size else 0)


def script(given: Given) -> Scripted:
    return Scripted(*map(int, given["words"]))


def numbers(values: Any) -> list[int | str]:
    return [number(int(value)) for value in values]


# --- codec


def kind_of(name: str, declared: Given) -> Kind:
    types: dict[str, Any] = {
        "int": int,
        "str": str,
        "bytes": bytes,
        "float": float,
        "list of str": tuple[str, ...],
        "array": Array,
    }
    fields = declared["fields"]
    message = msgspec.defstruct(
        name,
        [(field, types[spec["type"]]) for field, spec in fields.items()],
        bases=(Message,),
        frozen=True,
    )
    arrays = {
        field: ArraySpec(
            dtype=spec["dtype"],
            shape=tuple(Bounds(**n) if isinstance(n, dict) else n for n in spec["shape"]),
            high=tuple(spec["high"]) if isinstance(spec.get("high"), list) else spec.get("high"),
            low=spec.get("low", 0),
        )
        for field, spec in fields.items()
        if spec["type"] == "array"
    }
    return Kind(message, scalar_bytes=declared["scalar_bytes"], **arrays)


DECLARED = FILES["codec"]["parameters"]["kinds"]
CODEC = Codec([kind_of(name, kind) for name, kind in DECLARED.items()], members=4)


def shown(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case np.ndarray():
            return shown(value.tolist())
        case msgspec.Struct():
            return shown(msgspec.structs.astuple(value))
        case list() | tuple():
            return [shown(item) for item in value]
        case int():
            return number(value)
    return value


def decode_message(given: Given) -> Any:
    (body,) = raw(given, "body")
    message = CODEC.decode(given["kind"], body)
    assert CODEC.encode(message) == body
    return [shown(getattr(message, name)) for name in message.__struct_fields__]


def decode_whole_envelope(given: Given) -> Any:
    (encoded,) = raw(given, "encoded")
    envelope = decode_envelope(encoded)
    assert encode_envelope(envelope) == encoded
    return [shown(getattr(envelope, name)) for name in envelope.__struct_fields__]


# --- frames


def cuttings(stream: bytes) -> Iterator[list[bytes]]:
    yield [stream]
    for step in (1, 2, 3, 5):
        yield [stream[i : i + step] for i in range(0, len(stream), step)]


def read_frames(given: Given, came: list[bytes] | None = None) -> Any:
    (stream,) = raw(given, "stream")
    found: list[Any] = []
    for pieces in cuttings(stream):
        reader = FrameReader(given["cap"])
        payloads = [] if came is None else came
        for piece in [*pieces, b""]:
            payloads += reader.feed(piece)
        found.append({"payloads": hexes(payloads), "torn": reader.in_frame})
    assert all(each == found[0] for each in found)
    return found[0]


# --- keystream


def stream(given: Given) -> Any:
    secret, session = raw(given, "secret", "session")
    streams = Streams(secret, session)
    one, other = (streams.stream(given["party"], given["purpose"]) for _ in range(2))
    return {
        "extracted": streams._key.hex(),
        "key": one._key.hex(),
        "bytes": one.bytes(40).hex(),
        "words": numbers(other.words(5)),
    }


def child(given: Given) -> Any:
    derived = Stream(*raw(given, "key")).derive(given["purpose"])
    return {"key": derived._key.hex(), "words": numbers(derived.words(3))}


def answer(given: Given) -> Any:
    key, body = raw(given, "key", "body")
    question = CODEC.decode(given["kind"], body)
    assert encode_message(question) == body
    roster = Roster(((AGGREGATOR, Identity(AGGREGATOR, bytes(32)).public),))
    me = Me(AGGREGATOR, roster, Stream(key), session=bytes(16))
    return {"words": numbers(me.stream_for(question, given["purpose"]).words(3))}


def integers(given: Given) -> Any:
    words, bounds = script(given), list(map(int, given["bounds"]))
    one = bounds[0]
    if len(set(bounds)) == 1:
        values = words.integers(one, len(bounds))
    else:
        values = words.integers(np.array(bounds, np.uint64))
    return {"values": numbers(values), "left": words.left}


# --- randomizers


def rational(fraction: Fraction) -> str:
    return f"{fraction.numerator}/{fraction.denominator}"


def keep(randomizer: KeepUniform) -> Any:
    true, other, *_ = randomizer.row(0)
    return {
        "threshold": number(randomizer.threshold),
        "keep": rational(true - other),
        "diagonal": rational(true),
        "off_diagonal": rational(other),
        "epsilon": randomizer.epsilon,
    }


def table(given: Given) -> Any:
    made = KeepElseTable.with_table(p=given["p"], table=given["table"], mix=given["mix"])
    size = len(made.weights)
    rows = [made.row(code) for code in range(size)]
    return {
        "threshold": number(made.threshold),
        "weights": numbers(made.weights),
        "diagonal": [rational(rows[v][v]) for v in range(size)],
        "off_diagonal": [rational(rows[v - 1][v]) for v in range(size)],
        "epsilon": "infinite" if math.isinf(made.epsilon) else made.epsilon,
    }


def matrix(given: Given) -> Any:
    made = MatrixRandomizer.from_probabilities(given["rows"])
    return {
        "weights": [numbers(row) for row in made.weights],
        "epsilon": "infinite" if math.isinf(made.epsilon) else made.epsilon,
    }


def unary(given: Given) -> Any:
    kinds = {"symmetric": UnaryEncoding.symmetrized, "optimized": UnaryEncoding.optimized}
    made = kinds[given["encoding"]](given["size"], epsilon=given["epsilon"])
    return {
        "hit": number(made.hit),
        "other": number(made.other),
        "p": rational(made.p),
        "q": rational(made.q),
        "epsilon": made.epsilon,
    }


def reported(randomizer: Any, given: Given) -> Any:
    words = script(given)
    reports = randomizer.randomize(np.array(given["codes"], np.uint8), words)
    found = hexes(list(reports)) if reports.ndim == 2 else reports.tolist()
    return {"reports": found, "left": words.left}


def columns(given: Given) -> Any:
    words = script(given)
    keeps = tuple(map(KeepUniform, given["sizes"], map(int, given["thresholds"])))
    reports = randomize_columns(keeps, np.array(given["codes"], np.uint8), words)
    return {"reports": reports.tolist(), "left": words.left}


def key_value(given: Given) -> Any:
    words = script(given)
    client = PrivKV(
        keys=given["keys"],
        key_response=KeepUniform(2, int(given["key_threshold"])),
        value_response=KeepUniform(2, int(given["value_threshold"])),
    )
    reports = client.randomize_values(np.array(given["values"], np.float64), words)
    symbols = [SYMBOLS[code] for code in reports.symbols]
    return {"keys": reports.keys.tolist(), "symbols": symbols, "left": words.left}


# --- Merkle


def leaves(given: Given) -> list[bytes]:
    return [bytes.fromhex(leaf) for leaf in given["leaves"]]


def hashed(given: Given) -> list[bytes]:
    return [merkle.leaf_hash(leaf) for leaf in leaves(given)]


def path(given: Given) -> list[bytes]:
    return [bytes.fromhex(vertex) for vertex in given["path"]]


def root(given: Given) -> Any:
    found = merkle.merkle_root(leaves(given))
    assert not given["leaves"] or merkle.tree_levels(hashed(given))[-1] == (found,)
    return {"root": found.hex()}


def included(given: Given) -> bool:
    leaf, root = raw(given, "leaf", "root")
    index, count = given["index"], given["count"]
    return merkle.is_included(leaf, index=index, count=count, path=path(given), root=root)


def consistent(given: Given) -> bool:
    first_root, second_root = raw(given, "first_root", "second_root")
    return merkle.is_consistent(
        first=given["first"],
        second=given["second"],
        first_root=first_root,
        second_root=second_root,
        path=path(given),
    )


def joint_root(given: Given) -> Any:
    known = {
        int(index): merkle.leaf_hash(bytes.fromhex(leaf)) for index, leaf in given["leaves"].items()
    }
    found = merkle.joint_root(known, count=given["count"], path=path(given))
    return {"root": found and found.hex()}


# --- Log


def log_salts(given: Given) -> Any:
    salts = log.salts(*raw(given, "secret"), int(given["first"]), given["count"])
    return {"salts": [salts[i : i + 16].hex() for i in range(0, len(salts), 16)]}


def log_root(given: Given) -> Any:
    grown = log.Log(*raw(given, "secret"))
    for content in given["contents"]:
        grown.add(bytes.fromhex(content))
    return {"root": grown.root().hex()}


def sign_note(given: Given) -> Any:
    secret, session, root = raw(given, "signer", "session", "root")
    signer = Identity(AGGREGATOR, secret)
    return {"note": sign_checkpoint(signer, session=session, size=given["size"], root=root).note}


def noted(given: Given) -> Any:
    found = read_note(given["note"])
    said = msgspec.structs.asdict(found)
    del said["signature"]
    return {k: v.hex() if isinstance(v, bytes) else v for k, v in said.items()} | {
        "valid": found.valid
    }


def leads(given: Given) -> bool:
    proof = decode_consistency(given["proof"].encode())
    return not consistency_problems(proof, read_note(given["earlier"]))


# --- Shamir


def share(given: Given) -> list[str]:
    secret, key = raw(given, "secret", "key")
    made = shamir.share(
        np.frombuffer(secret, np.uint8),
        shares=given["shares"],
        threshold=given["threshold"],
        stream=Stream(key),
    )
    return hexes(list(made))


def reconstruct(given: Given) -> Any:
    places = np.array(given["places"], np.intp)[None]
    return {"secret": shamir.reconstruct(rows(given["shares"])[None], places)[0].tobytes().hex()}


# --- masks


def pair_seed(given: Given) -> Any:
    key, context = raw(given, "edge", "context")
    one, other = given["neighbours"]
    seed = mask_seed(Edge(one, other, key))
    return {"seed": seed.hex(), "digest": seed_digest(seed, context, (one, other)).hex()}


def seeds_of(given: Given) -> Any:
    (key,) = raw(given, "key")
    seeds = np.array([list(bytes.fromhex(seed)) for seed in given["seeds"]], np.uint8)
    return hexes(row_bytes(encrypt_seeds(key, seeds.reshape(-1, 32))))


def masked_sum(given: Given) -> Any:
    bits, names, n = given["bits"], given["names"], len(given["names"])
    keys = {frozenset((i, j)): bytes.fromhex(key) for i, j, key in given["edges"]}
    cells = len(given["values"][0])
    dtype = f"u{bits // 8}"

    def added(i: int, others: Sequence[int]) -> NDArray[Any]:
        total = np.zeros(cells, dtype)
        for j in others:
            seed = mask_seed(Edge(names[i], names[j], keys[frozenset((i, j))]))
            total += pair_mask(seed, cells, place=i, other=j, bits=bits)
        return total

    def own(i: int) -> NDArray[Any]:
        return expand_mask(bytes.fromhex(given["own_seeds"][i]), cells, bits=bits)

    there = range(given["uploading"])
    uploads = [
        np.array(given["values"][i], dtype) + own(i) + added(i, [j for j in range(n) if j != i])
        for i in there
    ]
    total = np.zeros(cells, dtype)
    for i in there:
        total += uploads[i] - own(i)
    for gone in range(given["uploading"], n):
        total += added(gone, there)
    return {
        "uploads": [upload.tolist() for upload in uploads],
        "total": total.tolist(),
    }


# --- sealing


def agree(given: Given) -> Any:
    seed, key = raw(given, "identity", "key")
    identity = Identity(PartyId("party-1"), seed)
    return {
        "public": identity.public.hex(),
        "point": agreement_key(key).hex(),
        "secret": identity.agree(key).hex(),
    }


def identity_keys(given: Given) -> bool:
    check_keys([(PartyId(f"party-{i}"), bytes.fromhex(key)) for i, key in enumerate(given["keys"])])
    return True


def edge_of(given: Given, me: str, peer: str) -> Edge:
    return Edge(PartyId(given[me]), PartyId(given[peer]), *raw(given, "key"))


def seal(given: Given) -> Any:
    content, salt, bound = raw(given, "content", "salt", "bound")
    edge = edge_of(given, "sender", "recipient")
    box, hidden = edge._seal(given["kind"], content, salt=salt, bound=bound)
    return {"box": box.hex(), "hidden": hidden.hex()}


def seal_all(given: Given) -> Any:
    (key,) = raw(given, "stream")
    letters = [
        (edge_of(letter, "sender", "recipient"), content, bound)
        for letter in given["letters"]
        for content, bound in [raw(letter, "content", "bound")]
    ]
    salt, boxes, _ = seal_letters(Stream(key), given["kind"], letters)
    return {"salt": salt.hex(), "boxes": [box.hex() for box in boxes]}


def open_box(given: Given) -> Any:
    box, salt, bound = raw(given, "box", "salt", "bound")
    edge = edge_of(given, "recipient", "sender")
    content, hidden = edge.open(given["kind"], box, salt=salt, bound=bound)
    return {"content": content.hex(), "hidden": hidden.hex()}


def commitment(given: Given) -> Any:
    (context,) = raw(given, "context")
    made = commit(rows([given["salt"]]), rows([given["share"]]), context=context)
    return {"commitment": made.tobytes().hex()}


def is_opened(given: Given) -> bool:
    (context,) = raw(given, "context")
    claimed, salts, shares = (rows([given[name]]) for name in ("commitment", "salt", "share"))
    return bool(opens(claimed, salts, shares, context=context)[0])


FUNCTIONS: dict[str, dict[str, Callable[[Given], Any]]] = {
    "codec": {"decode message": decode_message, "decode envelope": decode_whole_envelope},
    "frames": {
        "write": lambda g: {"stream": frames(map(bytes.fromhex, g["payloads"])).hex()},
        "read": read_frames,
    },
    "keystream": {
        "secret": lambda g: {"secret": secret_of(int(g["seed"])).hex()},
        "session": lambda g: {"session": public_nonce(*raw(g, "secret")).hex()},
        "stream": stream,
        "child": child,
        "answer": answer,
        "coins": lambda g: script(g).bernoulli(int(g["threshold"]), len(g["words"])).tolist(),
        "integers": integers,
        "order": lambda g: script(g).permutation(g["count"]).tolist(),
    },
    "randomizers": {
        "keep by p": lambda g: keep(KeepUniform.with_keep(g["size"], p=g["p"])),
        "keep by diagonal": lambda g: keep(KeepUniform.with_diagonal(**g)),
        "keep by epsilon": lambda g: keep(KeepUniform.with_epsilon(**g)),
        "keep reports": lambda g: reported(KeepUniform(g["size"], int(g["threshold"])), g),
        "columns": columns,
        "table": table,
        "table reports": lambda g: reported(
            KeepElseTable(threshold=int(g["threshold"]), weights=tuple(map(int, g["weights"]))), g
        ),
        "matrix": matrix,
        "matrix reports": lambda g: reported(
            MatrixRandomizer(tuple(tuple(map(int, row)) for row in g["weights"])), g
        ),
        "unary": unary,
        "unary reports": lambda g: reported(
            UnaryEncoding(g["size"], int(g["hit"]), int(g["other"])), g
        ),
        "key-value reports": key_value,
    },
    "merkle": {
        "root": root,
        "inclusion path": lambda g: {"path": hexes(merkle.inclusion_path(hashed(g), g["index"]))},
        "is included": included,
        "consistency path": lambda g: {
            "path": hexes(merkle.consistency_path(hashed(g), g["first"]))
        },
        "is consistent": consistent,
        "joint path": lambda g: {
            "path": hexes(merkle.joint_path(merkle.tree_levels(hashed(g)), g["indices"]))
        },
        "joint root": joint_root,
    },
    "log": {
        "salts": log_salts,
        "leaf": lambda g: {"leaf": log.log_leaf(*raw(g, "salt", "content")).hex()},
        "log root": log_root,
        "sign": sign_note,
        "read note": noted,
        "is consistent": leads,
    },
    "shamir": {"share": share, "reconstruct": reconstruct},
    "masks": {
        "cell": lambda g: {"bits": modulus_bits(g["respondents"])},
        "mask": lambda g: expand_mask(*raw(g, "seed"), g["cells"], bits=g["bits"]).tolist(),
        "pair seed": pair_seed,
        "seeds": seeds_of,
        "masked sum": masked_sum,
        "zero shares": lambda g: zero_shares(
            g["cells"], parties=g["parties"], modulus=g["modulus"], stream=Stream(*raw(g, "key"))
        ).tolist(),
        "sum": lambda g: sum_modulo(np.array(g["rows"], np.uint32), g["modulus"]).tolist(),
    },
    "sealing": {
        "agree": agree,
        "identity keys": identity_keys,
        "edge": lambda g: {
            "key": edge_key(*raw(g, "secret"), context=bytes.fromhex(g["context"])).hex()
        },
        "seal": seal,
        "seal letters": seal_all,
        "open": open_box,
        "tag": lambda g: {"tag": edge_of(g, "sender", "recipient").tag(*raw(g, "content")).hex()},
        "is tag": lambda g: edge_of(g, "recipient", "sender").is_tag(*raw(g, "tag", "content")),
        "commit": commitment,
        "opens": is_opened,
    },
}
INSIDE = {("stream", "info"), ("answer", "purpose"), ("seal", "derived")}
"""What lies between input and output, and the program does not give out."""

CASES = [
    pytest.param(file, case, id=f"{file}: {case['function']}: {case['name']}")
    for file, content in FILES.items()
    for case in content["cases"]
]


@pytest.mark.parametrize(("file", "case"), CASES)
def test_a_case(file: str, case: Given) -> None:
    function = FUNCTIONS[file][case["function"]]
    if "error" in case:
        expected = (ProtocolError, ValueError, IndexError)
        with pytest.raises(expected, match=ERRORS[case["error"]]) as caught:
            function(case["input"])
        if "field" in case:
            assert isinstance(caught.value, RemoteProtocolError)
            assert caught.value.field == case["field"]
        return
    output = case["output"]
    if isinstance(output, dict):
        output = {k: v for k, v in output.items() if (case["function"], k) not in INSIDE}
    assert function(case["input"]) == output


@pytest.mark.parametrize("file", FILES)
def test_every_part_has_cases_that_fail(file: str) -> None:
    cases = FILES[file]["cases"]
    assert {case["function"] for case in cases} == FUNCTIONS[file].keys()
    refused = [
        case for case in cases if "error" in case or case["output"] in (False, {"root": None})
    ]
    assert len(refused) >= 3


def test_what_came_before_a_frame_over_the_cap_is_returned() -> None:
    for case in FILES["frames"]["cases"]:
        if "error" in case:
            came: list[bytes] = []
            with pytest.raises(RemoteProtocolError):
                read_frames(case["input"], came)
            assert hexes(came) == case["output"]["payloads"]


def test_keys_follow_from_what_is_shown_between_input_and_output() -> None:
    for case in FILES["keystream"]["cases"]:
        if case["function"] == "stream" and "output" in case:
            extracted, info, key = raw(case["output"], "extracted", "info", "key")
            assert expand(extracted, info) == key


def test_kinds_that_every_variant_has_are_not_declared() -> None:
    assert not {kind.kind() for kind in KERNEL_KINDS} & DECLARED.keys()
