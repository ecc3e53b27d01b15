// The verdicts on all prefixes of a vector, from no byte to the whole file: an object of verdict and how many have it.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { verify } from "../../docs/verifier/transcript.js";
import { contentOf } from "./pieces.mjs";

globalThis.crypto ??= webcrypto;
const [path, wanted] = process.argv.slice(2);
const { pieces, cases } = JSON.parse(readFileSync(path, "utf8"));
const file = contentOf(cases.find(({ name }) => name === wanted).file, pieces);

const found = {};
for (let size = 0; size <= file.length; size++) {
  const { verdict } = await verify(file.subarray(0, size));
  found[verdict] = (found[verdict] ?? 0) + 1;
}
console.log(JSON.stringify(found));
