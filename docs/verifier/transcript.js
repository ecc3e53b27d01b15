// The rules (section 5 of the format) over the records of a transcript.

import { concat, hex, same, utf8 } from "./bytes.js";
import { verify as isSignedBy } from "./ed25519.js";
import { parseHeader } from "./header.js";
import { headIn } from "./heads.js";
import { leafHash, rootOf, Tree } from "./merkle.js";
import { decode, encode, isArray, isBool, isBytes, isCount, isList, isText, Malformed, orNil } from "./msgpack.js";
import { isSigned, isWitnessed, parseCheckpoint, parseWitness } from "./notes.js";
import { sha256 } from "./sha256.js";
import { pieces, Unopenable } from "./wrapper.js";

const MAGIC = utf8("sottovoce transcript 2\n");
const START = MAGIC.length + 32; // of the first record
const FREE_HEADER = 4194304;
const MOST_HEADER = 67108864;
const isHash = isBytes(32);
const isName = isText(255);
const isReason = isText(1024);
const ENTRIES = {
  Sent: [isCount, isBytes(0, Infinity)],
  Delivered: [isCount, isName, isName, isCount, isBool],
  Refused: [isCount, isName, isReason, isBytes(0, 256)],
  Departed: [isCount, isName, isReason],
  Ending: [isHash, isHash, orNil(isHash), isBool, isReason],
  Checkpoint: [isText(16384)],
};
const isEntry = (entry) =>
  Array.isArray(entry) && typeof entry[0] === "string" && Object.hasOwn(ENTRIES, entry[0]) && isArray(...ENTRIES[entry[0]])(entry.slice(1));
const isEnvelope = isArray(isBytes(0, 255), isName, isName, isCount, isName, isBytes(0, Infinity));
const SALTS = 4096; // made at a time
const MOST_BROKEN = 1000; // that are told

function decodeOr(bytes, otherwise) {
  try {
    return decode(bytes);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return otherwise;
  }
}

/** A broken rule that ends the reading. */
class End extends Error {}

class Transcript {
  broken = [];
  tree = new Tree();
  records = 0;
  members = new Map();
  departed = new Set();
  signed = []; // promises of checkpoints that the aggregator has signed
  hasLast = false; // a checkpoint over all leaves so far
  ending = null;
  waiting = []; // signatures

  constructor(demanded, told) {
    this.demanded = demanded;
    this.told = told;
  }

  check(holds, rule, what) {
    if (!holds && this.broken.length < MOST_BROKEN) this.broken.push({ rule, record: this.records, what });
    return holds;
  }

  /** As `check`, but reading ends where it does not hold. */
  demand(...terms) {
    if (!this.check(...terms)) throw new End();
  }

  async leaf(content) {
    const place = this.tree.size % SALTS;
    if (place === 0) {
      const counter = new Uint8Array(16);
      new DataView(counter.buffer).setUint32(12, this.tree.size);
      this.salts = new Uint8Array(
        await crypto.subtle.encrypt({ name: "AES-CTR", counter, length: 64 }, this.secret, new Uint8Array(16 * SALTS)),
      );
    }
    const salt = this.salts.subarray(16 * place, 16 * (place + 1));
    const inner = content.length > 1024 ? concat(Uint8Array.of(0), sha256(content)) : content;
    this.tree.add(leafHash(concat(salt, inner)));
    this.hasLast = false;
    if (BigInt(this.tree.size) === this.demanded?.size) this.demandedRoot = this.tree.root();
  }

  async start(secret) {
    this.secret = await crypto.subtle.importKey("raw", secret, "AES-CTR", false, ["encrypt"]);
  }

  async record(content) {
    if (!this.header) {
      this.setHeader(content);
      return this.leaf(content);
    }
    this.records += 1;
    const [name, ...fields] = this.entry(content);
    if (this.ending) this.check(name === "Checkpoint", "ending", `${name} after Ending`);
    if (name === "Checkpoint") return this.checkpoint(...fields);
    if (name === "Sent") this.sent(...fields);
    if (name === "Delivered") this.delivered(...fields);
    if (name === "Departed") this.depart(fields[1]);
    if (name === "Ending") this.end(...fields);
    await this.leaf(content);
    if (this.waiting.length > 256) await this.settle();
  }

  /** The entry that a record is, an envelope decoded and, after it, encoded; ["malformed"] where it breaks rule 4. */
  entry(content) {
    try {
      const entry = decode(content);
      if (!isEntry(entry)) throw new Malformed("not an entry");
      if (entry[0] !== "Sent") return entry;
      const envelope = decode(entry[2]);
      if (!isEnvelope(envelope)) throw new Malformed("not an envelope");
      return ["Sent", envelope, entry[2]];
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      this.check(false, "entries", error.message);
      return ["malformed"];
    }
  }

  setHeader(content) {
    try {
      this.header = parseHeader(content);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      this.demand(false, "header", error.message);
    }
    this.kinds = new Map(this.header.kinds.map((kind) => [kind[0], kind]));
    this.longest = Math.max(...this.header.kinds.map(([, most]) => most));
    for (const [id, key] of this.header.roster) {
      this.members.set(id, { id, key, tree: new Tree(), envelopes: new Map(), last: -1 });
    }
  }

  sent(envelope, encoded) {
    const [session, from, to, seq, kind, body] = envelope;
    const sender = this.members.get(from);
    this.check(same(session, this.header.session), "session", "an envelope of another session");
    this.check(sender, "sender", `${from} is not in the roster`);
    this.check(to === "record" || this.members.has(to), "recipient", `${to} is not in the roster`);
    this.check(this.kinds.has(kind), "kind", `${kind} is not among the kinds`);
    this.check(body.length <= (this.kinds.get(kind)?.[1] ?? Infinity), "body-size", "too large a body");
    if (this.kinds.has(kind)) this.told({ sender: from, recipient: to, seq, kind: this.kinds.get(kind), body });
    if (!sender) return;
    this.check(!this.departed.has(from), "departed", `${from} sends and is gone`);
    this.check(!sender.head, "head", `${from} sends after its head`);
    this.checkSeq(sender, seq);
    if (kind === "Head") this.head(sender, to, seq, body);
    sender.last = seq;
    sender.lastTo = to;
    sender.lastKind = kind;
    sender.lastHash = leafHash(encoded);
    sender.envelopes.set(seq, { to, kind, hash: sender.lastHash, delivered: false });
    sender.tree.add(sender.lastHash);
  }

  checkSeq(sender, seq) {
    if (seq === sender.tree.size && sender.last < seq) return;
    const rule = sender.envelopes.has(seq) ? "seq-repeat" : seq < sender.last ? "seq-order" : "seq-gap";
    this.check(false, rule, `${sender.id} says number ${seq} after ${sender.last}`);
  }

  /** Rule 16, "Heads" in section 6. */
  head(sender, to, count, body) {
    sender.head = true;
    const head = headIn(body);
    const fits = head !== null && to === "record" && sender.id !== "aggregator" && count === sender.tree.size;
    const heard = fits ? this.heard(sender.id, count, head[0]) : null;
    if (!this.check(heard, "head", `${sender.id}'s head is wrong`)) return;
    const over = encode([this.header.session, sender.id, count, sender.tree.root(), rootOf(heard)]);
    const signed = isSignedBy(sender.key, head[1], concat(utf8("sottovoce head 2\0"), over));
    this.later(signed, "head", `${sender.id}'s head is not signed`);
  }

  /** The leaves of what a party's waits heard; null if it cannot have heard it so. */
  heard(id, count, waits) {
    const leaves = [];
    const pairs = new Set();
    let before = 0;
    for (const [said, kind, round, heard] of waits) {
      if (said < before || said > count) return null;
      before = said;
      const told = [];
      for (const [place, seq] of heard) {
        const envelope = this.members.get(this.header.roster[place]?.[0])?.envelopes.get(seq);
        const fits = envelope?.to === id && envelope.kind === kind && envelope.delivered;
        if (!fits || pairs.has(`${place} ${seq}`) || (told.length && place <= told.at(-1)[0])) return null;
        pairs.add(`${place} ${seq}`);
        told.push([place, seq, envelope.hash]);
      }
      leaves.push(encode([said, kind, round, told]));
    }
    return leaves;
  }

  later(promise, rule, what) {
    const { records } = this;
    this.waiting.push(promise.then((holds) => holds || this.broken.push({ rule, record: records, what })));
  }

  async settle() {
    await Promise.all(this.waiting.splice(0));
  }

  delivered(at, from, to, seq, repeat) {
    const envelope = this.members.get(from)?.envelopes.get(seq);
    const named = envelope?.to === to && this.members.has(to);
    if (!this.check(named, "delivery", `${from}'s number ${seq} to ${to} was not sent`)) return;
    this.check(envelope.delivered === repeat, "delivered-twice", `${from}'s number ${seq}: repeat is ${repeat}`);
    envelope.delivered = true;
  }

  depart(party) {
    if (this.check(this.members.has(party), "departed", `${party} is not in the roster`)) this.departed.add(party);
  }

  end(log, digest, result, complete) {
    const found = this.result();
    this.check(same(log, this.tree.root()), "ending", "another root of the log");
    this.check(same(digest, this.canonicalDigest()), "ending", "another digest");
    this.check(result && found ? same(result, found) : result === found, "ending", "another result");
    this.ending = { complete };
  }

  checkpoint(note) {
    let parsed;
    try {
      parsed = parseCheckpoint(note);
    } catch (error) {
      return this.check(false, "checkpoint", error.message);
    }
    const fits = this.isOurs(parsed) && parsed.size === BigInt(this.tree.size) && same(parsed.root, this.tree.root());
    this.check(fits, "checkpoint", "a checkpoint of something else");
    const signed = isSigned(parsed);
    this.later(signed, "checkpoint", "a checkpoint that is not signed");
    this.signed.push(signed.then((holds) => (holds ? parsed : null)));
    this.hasLast = true;
  }

  isOurs({ session, key }) {
    return this.header && same(session, this.header.session) && same(key, this.header.roster[0][1]);
  }

  canonicalDigest() {
    const members = [...this.members.values()].map(({ id, tree }) => encode([id, tree.size, tree.root()]));
    return rootOf([encode([2, this.header.session, this.header.seed]), ...members]);
  }

  /** The leaf hash of the aggregator's last envelope, if that is the result. */
  result() {
    const { lastTo, lastKind, lastHash } = this.members.get("aggregator");
    return lastTo === "record" && lastKind !== "Closed" ? lastHash : null;
  }

  /** Rule 20. */
  async published(witnesses, atLeast) {
    const outside = this.demanded;
    const ours = this.isOurs(outside) && (await isSigned(outside));
    this.check(ours, "published", "the checkpoint is not of this session and aggregator");
    const reached = this.demandedRoot && same(this.demandedRoot, outside.root);
    this.check(reached, "published", "the checkpoint is of another log");
    for (const inside of await Promise.all(this.signed)) {
      const contradicts = inside && this.isOurs(inside) && inside.size === outside.size && !same(inside.root, outside.root);
      this.check(!contradicts, "published", "a checkpoint of the file contradicts it");
    }
    this.check(await isWitnessed(outside, witnesses, atLeast), "published", "witnesses are missing or wrong");
  }
}

/** Hands the log's records to a Transcript, within the bounds of section 1. True if the file is torn. */
async function read(file, transcript) {
  let held = new Uint8Array(0);
  let total = 0;
  let torn = false;
  for await (const piece of pieces(file)) {
    held = concat(held, piece.content);
    total += piece.content.length;
    torn = piece.torn;
    const fits = transcript.header || total <= Math.max(FREE_HEADER, 8 * piece.end);
    transcript.demand(fits, "length", "too much before the header's end");
    let at = 0;
    if (!transcript.secret) {
      transcript.demand(same(held.subarray(0, MAGIC.length), MAGIC.subarray(0, held.length)), "magic", "not a transcript");
      if (held.length < START) continue;
      await transcript.start(held.subarray(MAGIC.length, (at = START)));
    }
    while (held.length >= at + 4) {
      const length = new DataView(held.buffer, held.byteOffset).getUint32(at);
      const most = transcript.header ? transcript.longest + 65536 : MOST_HEADER;
      transcript.demand(length <= most, "length", `a record of ${length} bytes`);
      if (held.length < at + 4 + length) break;
      const room = !transcript.header || transcript.records < 65536 + Math.floor(piece.end / 2);
      transcript.demand(room, "entries", "more entries than a file of this length can have");
      await transcript.record(held.subarray(at + 4, (at += 4 + length)));
    }
    held = held.subarray(at);
  }
  return torn || held.length > 0 || !transcript.header;
}

/**
 * The verdict on a file. `digest` (bytes) and `checkpoint` (a note) are from outside; of `witnesses` (verifier keys)
 * `atLeast` must have cosigned the checkpoint. `told` is called with every envelope as it is read.
 */
export async function verify(
  file,
  { digest = null, checkpoint = null, witnesses = [], atLeast = witnesses.length, told = () => {} } = {},
) {
  const outside = checkpoint === null ? null : parseCheckpoint(checkpoint);
  const transcript = new Transcript(outside, told);
  let ended = false;
  let torn = false;
  let unopened = null;
  try {
    torn = await read(file, transcript);
  } catch (error) {
    if (error instanceof End) ended = true;
    else if (error instanceof Unopenable) unopened = error.message;
    else throw error;
  }
  await transcript.settle();
  if (!ended && transcript.ending && !unopened) {
    transcript.check(!torn, "ending", "the file does not end after whole checkpoints");
    transcript.check(transcript.hasLast || !transcript.signed.length, "checkpoint", "no checkpoint over all leaves");
  }
  const found = transcript.header ? transcript.canonicalDigest() : null;
  if (digest && !unopened && !ended) transcript.check(found && same(digest, found), "digest", "another digest");
  if (outside && (!unopened || transcript.demandedRoot)) await transcript.published(witnesses.map(parseWitness), atLeast);
  const incomplete = torn || !transcript.ending?.complete;
  return {
    verdict: unopened ? "could not finish" : transcript.broken.length ? "not sound" : incomplete ? "incomplete" : "accepted",
    broken: transcript.broken,
    unopened,
    digest: found && hex(found),
    size: transcript.tree.size,
    root: hex(transcript.tree.root()),
  };
}
