// node verify.js FILE... [--digest HEX] [--checkpoint FILE] [--witness-key KEY]... [--witnesses N]
// [--bodies]: a line of JSON for each file, and before it one for each message, decoded. A file may be a receipt, with --checkpoint.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";
import { parseArgs } from "node:util";

import { fromHex, hex, same, text } from "./bytes.js";
import { readBody } from "./kinds.js";
import { parseCheckpoint } from "./notes.js";
import { MAGIC, parseReceipt, problemsOf } from "./receipts.js";
import { verify } from "./transcript.js";

globalThis.crypto ??= webcrypto;
const CODES = { accepted: 0, "not sound": 1, incomplete: 2, "could not finish": 3 };
const one = { type: "string" };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { digest: one, checkpoint: one, "witness-key": { ...one, multiple: true, default: [] }, witnesses: one, bodies: { type: "boolean" } },
});

/** A message as JSON: bytes in hexadecimal, integers that JSON's readers may not have exactly as text. */
function tell({ sender, recipient, seq, kind, body }) {
  const said = { sender, recipient, seq, kind: kind[0] };
  try {
    said.fields = readBody(kind, body);
  } catch (error) {
    said.malformed = error.message;
  }
  const spelled = (_, value) => (value instanceof Uint8Array ? hex(value) : typeof value === "bigint" ? `${value}` : value);
  console.log(JSON.stringify(said, spelled));
}

const demands = {
  digest: values.digest && fromHex(values.digest),
  checkpoint: values.checkpoint ? text(readFileSync(values.checkpoint)) : null,
  witnesses: values["witness-key"],
  atLeast: values.witnesses === undefined ? undefined : Number(values.witnesses),
  told: values.bodies ? tell : undefined,
};
/** The verdict on a receipt: accepted, or not sound. */
async function judge(receipt) {
  let broken;
  try {
    broken = await problemsOf(parseReceipt(receipt), parseCheckpoint(demands.checkpoint));
  } catch (error) {
    broken = [error.message];
  }
  return { verdict: broken.length ? "not sound" : "accepted", broken };
}

for (const file of positionals) {
  const content = new Uint8Array(readFileSync(file));
  const isReceipt = same(content.subarray(0, MAGIC.length), MAGIC);
  const found = isReceipt ? await judge(content) : await verify(content, demands);
  console.log(JSON.stringify({ file, ...found }));
  process.exitCode = Math.max(process.exitCode ?? 0, CODES[found.verdict]);
}
