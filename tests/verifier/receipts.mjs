// What receipts say with checkpoints: reads pairs of a receipt, hexadecimal, and a note; prints the word of each that holds, else what is wrong; null for what is malformed.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { fromHex } from "../../docs/verifier/bytes.js";
import { parseCheckpoint } from "../../docs/verifier/notes.js";
import { parseReceipt, problemsOf, wordOf } from "../../docs/verifier/receipts.js";

globalThis.crypto ??= webcrypto;
const said = [];
for (const [receipt, note] of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  try {
    const parsed = parseReceipt(fromHex(receipt));
    const problems = await problemsOf(parsed, parseCheckpoint(note));
    said.push(problems.length ? problems : wordOf(parsed));
  } catch {
    said.push(null);
  }
}
console.log(JSON.stringify(said));
