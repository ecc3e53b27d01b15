// Receipts (section 6 of the format): a party's reports were counted, by one checkpoint alone.

import { concat, same, utf8 } from "./bytes.js";
import { verify } from "./ed25519.js";
import { included, leafHash, rootFrom } from "./merkle.js";
import { decode, encode, isArray, isBytes, isCount, isInt, isList, isText, Malformed, orNil } from "./msgpack.js";
import { isSigned } from "./notes.js";
import { KERNEL_KINDS, sessionOf } from "./session.js";
import { sha256 } from "./sha256.js";

export const MAGIC = utf8("sottovoce receipt 2\n");
const RANGE = 4096n;
const isAny = isBytes(0, Infinity);
const isHash = isBytes(32);
const isName = isText(255);
const isShown = isArray(isCount, isBytes(16), isAny, isList(isHash));
const isHead = isArray(isCount, isHash, isBytes(64));
const isReceipt = isArray(
  isText(), isHash, isCount, isCount, isList(isHash), isHash, isCount, isList(isArray(isShown, isShown)), orNil(isHead), isList(isHash),
);
const isSent = isArray((name) => name === "Sent", isCount, isAny);
const isEnvelope = isArray(isBytes(0, 255), isName, isName, isCount, isName, isAny);
const isClosed = isArray(isText(), (round) => round === -1 || isCount(round), isCount, isAny, isAny);

/** The one value that the bytes are, if it is as it should be; else null. */
function read(bytes, isRight) {
  try {
    const value = decode(bytes);
    return isRight(value) ? value : null;
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

function envelopeOf([, , content]) {
  const encoded = read(content, isSent)?.[2];
  const envelope = encoded && read(encoded, isEnvelope);
  if (!envelope) return null;
  const [session, from, to, seq, kind, body] = envelope;
  return { session, from, to, seq, kind, body, encoded };
}

/** The fields of a receipt's file by name; throws Malformed where it is none. */
export function parseReceipt(bytes) {
  if (!same(bytes.subarray(0, MAGIC.length), MAGIC)) throw new Malformed("not a receipt");
  const fields = decode(bytes.subarray(MAGIC.length));
  if (!isReceipt(fields)) throw new Malformed("malformed receipt");
  const [party, key, place, members, roster, terms, attempt, counted, head, path] = fields;
  const reports = counted.map(([report, closing]) => {
    const said = envelopeOf(closing);
    const isClosing = said?.from === "aggregator" && said.to === "record" && said.kind === "Closed";
    return { report, closing, said: envelopeOf(report), envelope: said, closed: isClosing ? read(said.body, isClosed) : null };
  });
  return { party, key, place, members, roster, terms, attempt, reports, head, path };
}

function isIn([index, salt, content, path], checkpoint) {
  const inner = content.length > 1024 ? concat(Uint8Array.of(0), sha256(content)) : content;
  return included(concat(salt, inner), index, checkpoint.size, checkpoint.root, path);
}

/** Whether a bitmap is of so many members (BigInt), none of them beyond. */
const fits = (bitmap, members) =>
  BigInt(bitmap.length) === (members + 7n) / 8n && (members % 8n === 0n || bitmap.at(-1) >> Number(members % 8n) === 0);

/** Whether a range of a closing is well-formed and counts the member at `place`. */
function counts([, , first, awaited, counted], place, members) {
  const rest = BigInt(members) - BigInt(first);
  const among = rest < RANGE ? rest : RANGE;
  const at = BigInt(place) - BigInt(first);
  if (BigInt(first) % RANGE || among <= 0n || !fits(awaited, among) || !fits(counted, among)) return false;
  if (counted.some((bits, i) => bits & ~awaited[i])) return false;
  return at >= 0n && at < among && Boolean((counted[at >> 3n] >> Number(at & 7n)) & 1);
}

function isCounted(receipt, { report, closing, said, closed }) {
  return Boolean(
    said && closed && said.from === receipt.party && said.to === "aggregator" && said.kind === closed[0] &&
    !KERNEL_KINDS.includes(said.kind) && report[0] < closing[0] && counts(closed, receipt.place, receipt.members),
  );
}

async function headHolds({ party, key, reports, head, path }, session) {
  if (head === null) return path.length === 0;
  const [count, heard, signature] = head;
  const leaves = new Map(reports.filter(({ said }) => said).map(({ said }) => [BigInt(said.seq), leafHash(said.encoded)]));
  const root = rootFrom(leaves, BigInt(count), path);
  if (root === null || leaves.size !== reports.length) return false;
  const statement = concat(utf8("sottovoce head 2\0"), encode([session, party, count, root, heard]));
  return verify(key, signature, statement);
}

/** Why a receipt does not hold with a checkpoint, in words; empty if it does. */
export async function problemsOf(receipt, checkpoint) {
  const { party, key, place, members, roster, terms, attempt, reports } = receipt;
  const root = rootFrom(new Map([[BigInt(place), leafHash(concat(key, utf8(party)))]]), BigInt(members), roster);
  const { session } = checkpoint;
  const own = root && sessionOf(terms, root, members, attempt);
  const isOfSession = (envelope) => envelope !== null && same(envelope.session, session);
  const topics = new Set(reports.map(({ closed }) => closed && JSON.stringify([closed[0], String(closed[1])])));
  const checks = [
    [await isSigned(checkpoint), "the checkpoint is not signed by the key in it"],
    [
      reports.every(({ report, closing }) => isIn(report, checkpoint) && isIn(closing, checkpoint)),
      "an entry of the receipt is not in the log of the checkpoint",
    ],
    [
      reports.every(({ said, envelope }) => isOfSession(said) && isOfSession(envelope)),
      "the receipt is of another session than the checkpoint",
    ],
    [own !== null && same(own, session), "the party, its key, the terms or the attempt are not those of the session"],
    [place > 0, "the receipt is for the aggregator, which has no reports"],
    [reports.length > 0, "the receipt is empty: expected at least one report"],
    [reports.every((each) => isCounted(receipt, each)), "a report was not counted"],
    [topics.size === reports.length, "two reports are of one kind and round"],
    [await headHolds(receipt, session), "the party's signed head does not match its reports"],
  ];
  return checks.filter(([holds]) => !holds).map(([, problem]) => problem);
}
