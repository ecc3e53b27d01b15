// The verdicts on prefixes of a vector, each so many bytes shorter than the last, from the whole file on: an object of
// verdict and how many have it.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { verify } from "../../docs/verifier/transcript.js";
import { contentOf } from "./pieces.mjs";

globalThis.crypto ??= webcrypto;
const [path, wanted, step] = process.argv.slice(2);
const { pieces, cases } = JSON.parse(readFileSync(path, "utf8"));
const file = contentOf(cases.find(({ name }) => name === wanted).file, pieces);

const found = {};
for (let size = file.length; size >= 0; size -= Number(step)) {
  const { verdict } = await verify(file.subarray(0, size));
  found[verdict] = (found[verdict] ?? 0) + 1;
}
console.log(JSON.stringify(found));
