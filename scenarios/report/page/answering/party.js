// A party of a survey of one report, in a browser: it checks what it is asked, draws, signs, and checks its receipt.

import { concat, same, toBase64, utf8 } from "./bytes.js";
import { isSoundPoint, unsigned } from "./ed25519.js";
import { included, leafHash, rootOf } from "./merkle.js";
import { decode, encode, Float, isArray, isBytes, isCount, isInt, isList, isText, Malformed, orNil } from "./msgpack.js";
import { checkpointOf, isSigned, parseCheckpoint } from "./notes.js";
import { MAGIC, parseReceipt, problemsOf, wordOf } from "./receipts.js";
import { isAttempt, sessionOf, TERMS } from "./session.js";
import { sha256 } from "./sha256.js";
import { fromUrl, keyOf } from "./signing.js";
import { protocolOf } from "./variants.js";

/** Why a page does not go on: `link`, `malformed`, `survey`, `place`, `checkpoint`, `variant` or `question`. */
export class Refused extends Error {
  constructor(reason) {
    super(`refused: ${reason}`);
    this.reason = reason;
  }
}

function must(holds, reason) {
  if (!holds) throw new Refused(reason);
}

const AGGREGATOR = "aggregator";
const RECORD = "record";
const ID = /^(?=.{1,63}$)[a-z0-9]+(-+[a-z0-9]+)*$/;
const isMap = (value) => value instanceof Map;
const isHash = isBytes(32);
const isPath = isList(isHash);
const isTerms = isArray(isBytes(0, Infinity), isAttempt, isHash, isCount, orNil(isText()));
const isPlace = isArray(isCount, isPath, isHash, isPath, isBytes(0, Infinity));
/** A word of 64 bits. */
export const random = () => crypto.getRandomValues(new BigUint64Array(1))[0];

/** What a personal link says after its `#`: PLACE.SEED.SURVEY. Throws Refused. */
export async function invitation(text) {
  const [party, ...parts] = text.replace(/^#/, "").split(".");
  must(ID.test(party) && ![AGGREGATOR, RECORD, "switch"].includes(party) && parts.length === 2, "link");
  let secret;
  let survey;
  try {
    [secret, survey] = parts.map(fromUrl);
  } catch {
    throw new Refused("link");
  }
  must(secret.length === 32 && survey.length === 32, "link");
  return { party, survey, ...(await keyOf(secret)) };
}

/** The one value that the bytes are, if it is as it should be. */
function read(bytes, isRight, options) {
  try {
    const value = decode(bytes, options);
    must(isRight(value), "malformed");
    return value;
  } catch (error) {
    if (error instanceof Malformed) throw new Refused("malformed");
    throw error;
  }
}

/** A value of msgpack with objects for maps and numbers for floats. */
function plain(value) {
  if (value instanceof Float) return value.value;
  if (Array.isArray(value)) return value.map(plain);
  return isMap(value) ? Object.fromEntries([...value].map(([name, item]) => [name, plain(item)])) : value;
}

function readTerms(encoded) {
  const names = Object.keys(TERMS);
  const values = read(encoded, (value) => Array.isArray(value) && value.length === names.length);
  names.forEach((name, i) => must(TERMS[name](values[i]), "malformed"));
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

/** A variant's protocol; terms that make no sense are refused like unknown ones. */
function protocolIn(terms) {
  let protocol = null;
  try {
    protocol = protocolOf(terms);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError)) throw error;
  }
  must(protocol, "variant");
  return protocol;
}

async function checkAttempt(checkpoint, { session, aggregator, attempt }) {
  if (checkpoint === null) return must(attempt === 1, "checkpoint");
  let signed;
  try {
    signed = parseCheckpoint(checkpoint);
  } catch {
    throw new Refused("checkpoint");
  }
  must(same(signed.session, session) && same(signed.key, aggregator) && (await isSigned(signed)), "checkpoint");
}

/** All that was agreed, from the bytes of `/terms` and `/place`, if the link is about it: nothing is taken on trust. Throws Refused. */
export async function agreed(invited, terms, place) {
  const { party, survey, key, sign } = invited;
  const [encoded, attempt, root, members, checkpoint] = read(terms, isTerms);
  const hash = sha256(encoded);
  must(same(sessionOf(hash, root, members, 1), survey), "survey");
  const session = sessionOf(hash, root, members, attempt);
  const [at, path, aggregator, aggregatorPath, asked] = read(place, isPlace);
  const isMember = (name, own, index, proof) => included(leafHash(concat(own, utf8(name))), index, members, root, proof);
  must(isMember(party, key, at, path) && isMember(AGGREGATOR, aggregator, 0, aggregatorPath), "place");
  must(isSoundPoint(aggregator) && unsigned(aggregator) !== unsigned(key), "place");
  await checkAttempt(checkpoint, { session, aggregator, attempt });
  const all = readTerms(encoded);
  const protocol = protocolIn(all);
  const { question } = protocol;
  const seq = read(asked, Array.isArray, { sorted: false })[3];
  must(isCount(seq) && same(asked, encode([session, AGGREGATOR, party, seq, question.kind, question.body])), "question");
  const { variant, parameters, survey: about, analysis } = all;
  return {
    party, key, sign, id: survey, session, attempt, place: at, members, aggregator, terms: hash, asked, seq, protocol,
    variant, parameters: plain(parameters), survey: plain(about), analysis: plain(analysis),
  };
}

/** The tree's root over the one wait of a party: for the question. */
function heardOf({ asked, seq, protocol: { question } }) {
  return rootOf([encode([0, question.kind, -1, [[0, seq, leafHash(asked)]]])]);
}

/** The body of a POST: one envelope, and the head that signs it and the question. */
async function spoken(agreement, kind, said) {
  const { session, party, seq, sign, protocol: { question } } = agreement;
  const envelope = encode([session, party, AGGREGATOR, 0, kind, said]);
  const signed = encode([session, party, 1, rootOf([envelope]), heardOf(agreement)]);
  const signature = await sign(concat(utf8("sottovoce head 2\0"), signed));
  const head = encode([[[0, question.kind, -1, [[0, seq]]]], signature]);
  return encode([envelope, encode([session, party, RECORD, 1, "Head", head])]);
}

/** A report, drawn now, and the body of the POST that brings it. Codes are places of categories, one for each attribute. */
export function answer(agreement, codes, words = random) {
  return again(agreement, agreement.protocol.draw(codes, words));
}

/** The same for a report that was drawn before. */
export async function again(agreement, report) {
  return { report, body: await spoken(agreement, agreement.protocol.kind, report) };
}

/** The body of a POST that declines to answer. */
export const declined = (agreement) => spoken(agreement, "Declined", encode(["terms"]));

/** The body of the POST that asks for the state of the own place. */
export async function stateOf({ session, party, sign }) {
  return encode([party, await sign(concat(utf8("sottovoce state 1\0"), encode([session, party])))]);
}

const isShown = isArray(isCount, isBytes(16), isBytes(0, Infinity), isPath);
const isBefore = isArray(isCount, isHash, isBytes(64), isPath);
const isNamed = isArray(isCount, isCount, isCount, isBytes(16), isPath, isShown, orNil(isBefore));
const isAcknowledgement = isArray(isCount, isHash, isBytes(64), isCount, isCount, isBytes(16), isPath, isPath, isList(isNamed));

/** What a party knows of its own words. */
function own(agreement, body) {
  const [envelope, head] = read(body, isArray(isBytes(0, Infinity), isBytes(0, Infinity)));
  const [, , , , kind] = decode(envelope);
  const [, signature] = decode(decode(head)[5]);
  return { envelope, head, signature, isReport: kind === agreement.protocol.kind };
}

/** The receipt's file that an acknowledgement makes of the body that was sent, its checkpoint's note, and why it does not hold. */
export async function receiptOf(agreement, body, acknowledgement) {
  const { party, key, place, members, terms, attempt, session, aggregator } = agreement;
  const { envelope, head, signature, isReport } = own(agreement, body);
  const [size, root, signed, index, at, salt, path, roster, all] = read(acknowledgement, isAcknowledgement);
  const sent = (time, words) => encode(["Sent", time, words]);
  const named = all.filter(([seq]) => isReport && seq === 0);
  const shown = named.map(([, leaf, time, salted, proof, closing, before]) =>
    [[leaf, salted, sent(time, envelope), proof], closing, [], before]);
  const receipt = concat(MAGIC, encode([
    party, key, place, members, roster, terms, attempt,
    shown.filter(([, , , before]) => before === null).map((each) => each.slice(0, 3)), shown.filter(([, , , before]) => before !== null),
    isReport && named.length === 0 ? 1 : 0,
    [1, rootOf([envelope]), heardOf(agreement), signature], [index, salt, sent(at, head), path],
  ]));
  const checkpoint = checkpointOf(session, aggregator, BigInt(size), root, signed);
  const note = noteOf(checkpoint);
  return { receipt, note, problems: await problemsWith(agreement, parseReceipt(receipt), checkpoint) };
}

/** A checkpoint's note with the aggregator's signature alone. */
function noteOf({ signed, key, signature }) {
  const words = new TextDecoder().decode(signed);
  const origin = words.slice(0, words.indexOf("\n"));
  const line = concat(sha256(utf8(origin), Uint8Array.of(0x0a, 1), key).subarray(0, 4), signature);
  return `${words}\n\u2014 ${origin} ${toBase64(line)}\n`;
}

/** Why a receipt does not hold; a party knows of which round its report is, which a receipt alone does not say. */
async function problemsWith({ protocol }, receipt, checkpoint) {
  const problems = await problemsOf(receipt, checkpoint);
  const isOther = ({ closed }) => closed[0] !== protocol.kind || BigInt(closed[1]) !== BigInt(protocol.round);
  if (problems.length === 0 && receipt.reports.some(isOther)) return ["a closing is of another round than the report"];
  return problems;
}

/**
 * What a receipt's file says with its checkpoint's note: "counted", "late" or "not yet known"; or why it does not hold, a list.
 * With the body that was sent, the receipt has to be about the report in it.
 */
export async function counted(agreement, receipt, note, body = null) {
  let parsed;
  let checkpoint;
  try {
    parsed = parseReceipt(receipt);
    checkpoint = parseCheckpoint(note);
  } catch {
    return ["the receipt or its checkpoint is malformed"];
  }
  const { party, key, session, aggregator } = agreement;
  const { reports } = parsed;
  const isOwn = (each) => body === null || (each.said !== null && same(each.said.encoded, own(agreement, body).envelope));
  const checks = [
    [same(checkpoint.session, session) && same(checkpoint.key, aggregator), "the checkpoint is of another survey"],
    [parsed.party === party && same(parsed.key, key), "the receipt is somebody else's"],
    [reports.every(isOwn), "the receipt is about another report than the one that was sent"],
  ];
  const problems = checks.filter(([holds]) => !holds).map(([, problem]) => problem);
  problems.push(...(await problemsWith(agreement, parsed, checkpoint)));
  return problems.length ? problems : wordOf(parsed);
}
