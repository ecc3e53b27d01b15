// node verify.js FILE... [--digest HEX] [--checkpoint FILE] [--witness-key KEY]... [--witnesses N]: a line of JSON for each file.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";
import { parseArgs } from "node:util";

import { fromHex, text } from "./bytes.js";
import { verify } from "./transcript.js";

globalThis.crypto ??= webcrypto;
const CODES = { accepted: 0, "not sound": 1, incomplete: 2, "could not finish": 3 };
const one = { type: "string" };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { digest: one, checkpoint: one, "witness-key": { ...one, multiple: true, default: [] }, witnesses: one },
});
const demands = {
  digest: values.digest && fromHex(values.digest),
  checkpoint: values.checkpoint ? text(readFileSync(values.checkpoint)) : null,
  witnesses: values["witness-key"],
  atLeast: values.witnesses === undefined ? undefined : Number(values.witnesses),
};
for (const file of positionals) {
  const found = await verify(new Uint8Array(readFileSync(file)), demands);
  console.log(JSON.stringify({ file, ...found }));
  process.exitCode = Math.max(process.exitCode ?? 0, CODES[found.verdict]);
}
