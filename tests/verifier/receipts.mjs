// Whether receipts hold with checkpoints: reads pairs of a receipt, hexadecimal, and a note; prints true or false for each.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { fromHex } from "../../docs/verifier/bytes.js";
import { parseCheckpoint } from "../../docs/verifier/notes.js";
import { parseReceipt, problemsOf } from "../../docs/verifier/receipts.js";

globalThis.crypto ??= webcrypto;
const said = [];
for (const [receipt, note] of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  try {
    said.push((await problemsOf(parseReceipt(fromHex(receipt)), parseCheckpoint(note))).length === 0);
  } catch {
    said.push(false);
  }
}
console.log(JSON.stringify(said));
