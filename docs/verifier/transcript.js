// The rules (section 5 of the format) over the records of a transcript.

import { concat, hex, same, utf8 } from "./bytes.js";
import { verify as isSignedBy } from "./ed25519.js";
import { parseHeader, rosterRoot } from "./header.js";
import { leafHash, rootOf, Tree } from "./merkle.js";
import { decode, encode, isArray, isBool, isBytes, isCount, isList, isText, Malformed, orNil } from "./msgpack.js";
import { isSigned, isWitnessed, parseCheckpoint, parseWitness } from "./notes.js";
import { sha256 } from "./sha256.js";
import { pieces, Unopenable } from "./wrapper.js";

const MAGIC = utf8("sottovoce transcript 2\n");
const MIB_4 = 4194304;
const MOST_HEADER = 67108864;
const isHash = isBytes(32);
const isName = isText(255);
const isReason = isText(1024);
const ENTRIES = {
  Sent: [isCount, isBytes(0, Infinity)],
  Delivered: [isCount, isName, isName, isCount, isBool],
  Refused: [isCount, isName, isReason, isBytes(0, 256)],
  Departed: [isCount, isName, isReason],
  Ending: [isHash, isHash, isHash, orNil(isHash), isBool, isReason],
  Checkpoint: [isText(16384)],
};
const isEnvelope = isArray(isBytes(0, 255), isName, isName, isCount, isName, isBytes(0, Infinity));
const isRound = (value) => value === -1 || isCount(value);
const isHead = isArray(isList(isArray(isCount, isName, isRound, isList(isArray(isCount, isCount)))), isBytes(64));
const SALTS = 4096; // made at a time

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

  constructor(demanded) {
    this.demanded = demanded;
  }

  check(holds, rule, what) {
    if (!holds) this.broken.push({ rule, record: this.records, what });
    return holds;
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
    let name, fields, envelope;
    try {
      [name, ...fields] = decode(content);
      if (!Object.hasOwn(ENTRIES, name) || !isArray(...ENTRIES[name])(fields)) throw new Malformed("not an entry");
      if (name === "Sent" && !isEnvelope((envelope = decode(fields[1])))) throw new Malformed("not an envelope");
    } catch (error) {
      name = this.check(false, "entries", error.message) || "malformed";
    }
    if (this.ending) this.check(name === "Checkpoint", "ending", `${name} after Ending`);
    if (name === "Checkpoint") return this.checkpoint(...fields);
    if (name === "Sent") this.sent(envelope, fields[1]);
    if (name === "Delivered") this.delivered(...fields);
    if (name === "Departed") this.depart(fields[1]);
    if (name === "Ending") this.end(...fields);
    await this.leaf(content);
    if (this.waiting.length > 256) await this.settle();
  }

  setHeader(content) {
    try {
      this.header = parseHeader(content);
    } catch (error) {
      this.check(false, "header", error.message);
      throw new End();
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

  head(sender, to, seq, body) {
    sender.head = true;
    let waits, signature;
    try {
      [waits, signature] = isHead(decode(body)) ? decode(body) : [];
    } catch {
      // not msgpack: no waits
    }
    const leaves = to === "record" && sender.id !== "aggregator" && waits && this.heard(sender, seq, waits);
    if (!this.check(leaves, "head", `${sender.id}'s head is wrong`)) return;
    const signed = [this.header.session, sender.id, seq, sender.tree.root(), rootOf(leaves)];
    const over = concat(utf8("sottovoce head 2\0"), encode(signed));
    this.later(isSignedBy(sender.key, signature, over), "head", `${sender.id}'s head is not signed`);
  }

  /** The leaves of what a head lists as heard; null where something in it was not. */
  heard(sender, count, waits) {
    const leaves = [];
    const taken = new Set();
    let before = 0;
    for (const [said, kind, round, slots] of waits) {
      if (said < before || said > count) return null;
      before = said;
      const named = [];
      let last = -1;
      for (const [place, seq] of slots) {
        const envelope = this.members.get(this.header.roster[place]?.[0])?.envelopes.get(seq);
        const fits = envelope?.delivered && envelope.to === sender.id && envelope.kind === kind;
        if (!fits || place <= last || taken.has(`${place} ${seq}`)) return null;
        taken.add(`${place} ${seq}`);
        last = place;
        named.push([place, seq, envelope.hash]);
      }
      leaves.push(encode([said, kind, round, named]));
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

  end(log, roster, digest, result, complete) {
    const found = this.result();
    this.check(same(log, this.tree.root()), "ending", "another root of the log");
    this.check(same(roster, rosterRoot(this.header.roster)), "ending", "another root of the roster");
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

/** Bytes that come in pieces. */
class Queue {
  parts = [];
  length = 0;

  push(bytes) {
    this.parts.push(bytes);
    this.length += bytes.length;
  }

  peek(count) {
    if (this.parts.length !== 1 && (this.parts[0]?.length ?? 0) < count) this.parts = [concat(...this.parts)];
    return this.parts[0].subarray(0, count);
  }

  take(count) {
    const taken = this.peek(count);
    this.parts[0] = this.parts[0].subarray(count);
    this.length -= count;
    return taken;
  }
}

/** Hands the log's records to a Transcript, within the bounds of section 1. True if the file is torn. */
async function read(file, transcript) {
  const queue = new Queue();
  let total = 0;
  let torn = false;
  for await (const piece of pieces(file)) {
    queue.push(piece.content);
    total += piece.content.length;
    torn = piece.torn;
    const fits = transcript.header || total <= Math.max(MIB_4, 8 * piece.end);
    if (!transcript.check(fits, "length", "too much before the header's end")) throw new End();
    if (!transcript.secret) {
      if (queue.length) checkMagic(queue.peek(Math.min(queue.length, MAGIC.length)), transcript);
      if (queue.length < MAGIC.length + 32) continue;
      queue.take(MAGIC.length);
      await transcript.start(queue.take(32));
    }
    while (queue.length >= 4) {
      const length = new DataView(queue.peek(4).slice().buffer).getUint32(0);
      const most = transcript.header ? transcript.longest + 65536 : MOST_HEADER;
      if (!transcript.check(length <= most, "length", `a record of ${length} bytes`)) throw new End();
      if (queue.length < 4 + length) break;
      queue.take(4);
      const room = 65536 + Math.floor(piece.end / 2);
      if (transcript.header && !transcript.check(transcript.records < room, "entries", "too many entries")) throw new End();
      await transcript.record(queue.take(length));
    }
  }
  return torn || queue.length > 0 || !transcript.header;
}

function checkMagic(begin, transcript) {
  if (!transcript.check(same(begin, MAGIC.subarray(0, begin.length)), "magic", "not a transcript")) throw new End();
}

/**
 * The verdict on a file. `digest` (bytes) and `checkpoint` (a note) are from outside; of `witnesses` (verifier keys)
 * `atLeast` must have cosigned the checkpoint.
 */
export async function verify(file, { digest = null, checkpoint = null, witnesses = [], atLeast = witnesses.length } = {}) {
  const outside = checkpoint === null ? null : parseCheckpoint(checkpoint);
  const transcript = new Transcript(outside);
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
