// Signed notes: checkpoints, cosignatures, consistency proofs (section 6 of the format).

import { compare, concat, fromBase64, fromHex, hex, same, text, utf8 } from "./bytes.js";
import { isSoundPoint, unsigned, verify } from "./ed25519.js";
import { consistent } from "./merkle.js";
import { sha256 } from "./sha256.js";

const MOST_NOTE = 16384;
const MOST_LINES = 64;
const NUMBER_MAX = 2n ** 63n - 1n;
const ED25519 = 1;
const COSIGNATURE = 4;

const keyHash = (name, kind, key) => sha256(utf8(name), Uint8Array.of(0x0a, kind), key).subarray(0, 4);
const bigEndian = (bytes) => bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);

function number(digits) {
  if (!/^(0|[1-9][0-9]{0,18})$/.test(digits) || BigInt(digits) > NUMBER_MAX) throw new Error(`not a number: ${digits}`);
  return BigInt(digits);
}

function base64Of(spelled, length) {
  const bytes = fromBase64(spelled);
  if (bytes.length !== length) throw new Error(`expected ${length} bytes`);
  return bytes;
}

function signatureLine(line) {
  const match = /^\u2014 ([^+\p{White_Space}\x00-\x1f]+) ([^ ]+)$/u.exec(line);
  if (!match) throw new Error("not a signature's line");
  const bytes = fromBase64(match[2]);
  if (bytes.length < 4) throw new Error("a signature's line of fewer than four bytes");
  return { name: match[1], hash: bytes.subarray(0, 4), signature: bytes.subarray(4) };
}

const linesOf = (signatures, name, hash) => signatures.filter((line) => line.name === name && same(line.hash, hash));

/** The parts of a checkpoint's note; throws where it is not one. Whether it is signed, `isSigned` says. */
export function parseCheckpoint(note) {
  if ([...note].length > MOST_NOTE) throw new Error("the note is too long");
  const lines = note.split("\n");
  if (lines.length < 6 || lines.at(-1) !== "" || lines[3] !== "") throw new Error("not a checkpoint's lines");
  const origin = /^sottovoce\/([0-9a-f]{64})\/([0-9a-f]{64})$/.exec(lines[0]);
  if (!origin) throw new Error("not an origin of sottovoce");
  const signatures = lines.slice(4, -1).map(signatureLine);
  const key = fromHex(origin[2]);
  const own = linesOf(signatures, lines[0], keyHash(lines[0], ED25519, key));
  if (signatures.length > MOST_LINES || own.length !== 1) throw new Error("too many signatures, or not one by the origin's key");
  return {
    origin: lines[0],
    session: fromHex(origin[1]),
    key,
    size: number(lines[1]),
    root: base64Of(lines[2], 32),
    signature: own[0].signature,
    signatures,
    signed: utf8(lines.slice(0, 3).join("\n") + "\n"),
  };
}

/** Whether the origin's key has signed. */
export const isSigned = ({ key, signature, signed }) => verify(key, signature, signed);

/** A witness's verifier key: `<name>+<hash>+<base64>`. */
export function parseWitness(spelled) {
  const match = /^([^+\p{White_Space}\x00-\x1f]+)\+([0-9a-f]{8})\+(.*)$/u.exec(spelled);
  if (!match) throw new Error("not a verifier key");
  const bytes = base64Of(match[3], 33);
  const witness = { name: match[1], key: bytes.subarray(1), hash: keyHash(match[1], COSIGNATURE, bytes.subarray(1)) };
  if (bytes[0] !== COSIGNATURE || hex(witness.hash) !== match[2]) throw new Error("not a cosigner's key");
  if (!isSoundPoint(witness.key)) throw new Error("not a sound key");
  return witness;
}

/** How many lines of the witness are right and how many wrong. */
async function cosignatures(checkpoint, witness) {
  const lines = linesOf(checkpoint.signatures, witness.name, witness.hash);
  let right = 0;
  for (const { signature } of lines) {
    if (signature.length !== 72) continue;
    const time = bigEndian(signature.subarray(0, 8));
    const statement = concat(utf8(`cosignature/v1\ntime ${time}\n`), checkpoint.signed);
    if (time <= NUMBER_MAX && (await verify(witness.key, signature.subarray(8), statement))) right += 1;
  }
  return { right, wrong: lines.length - right };
}

/** Whether so many of the witnesses have cosigned, and no line of theirs is wrong. A key counts once. */
export async function isWitnessed(checkpoint, witnesses, atLeast) {
  const keys = new Set();
  for (const witness of witnesses) {
    const { right, wrong } = await cosignatures(checkpoint, witness);
    if (wrong) return false;
    if (right) keys.add(unsigned(witness.key));
  }
  return keys.size >= atLeast;
}

/** Whether a consistency proof's text holds from an earlier checkpoint, a note as well. */
export async function holdsFrom(earlierNote, proof) {
  const lines = proof.split("\n");
  const old = /^old (.*)$/.exec(lines[0]);
  const gap = lines.indexOf("");
  if (!old || gap < 1 || gap > 64) throw new Error("not a consistency proof");
  const path = lines.slice(1, gap).map((line) => base64Of(line, 32));
  const earlier = parseCheckpoint(earlierNote);
  const later = parseCheckpoint(lines.slice(gap + 1).join("\n"));
  return (
    (await isSigned(earlier)) && (await isSigned(later)) && earlier.origin === later.origin &&
    earlier.size === number(old[1]) && consistent(earlier.size, later.size, earlier.root, later.root, path)
  );
}
