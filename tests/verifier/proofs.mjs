// What the second verifier says of the vectors of trees, notes and proofs: an object of name and answer.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { fromHex, hex } from "../../docs/verifier/bytes.js";
import { isEvidence } from "../../docs/verifier/evidence.js";
import { consistent, included, leafHash, rootOf } from "../../docs/verifier/merkle.js";
import { holdsFrom, isSigned, parseCheckpoint, parseWitness } from "../../docs/verifier/notes.js";
import { parseReceipt, problemsOf } from "../../docs/verifier/receipts.js";
import { contentOf } from "./pieces.mjs";

globalThis.crypto ??= webcrypto;
const bytes = (list) => list.map(fromHex);

const ANSWERS = {
  root: ({ leaves }) => ({ root: hex(rootOf(bytes(leaves))) }),
  "is included": ({ leaf, index, count, path, root }) => included(leafHash(fromHex(leaf)), index, count, fromHex(root), bytes(path)),
  "is consistent"({ earlier, proof, first, second, first_root, second_root, path }) {
    if (earlier !== undefined) return holdsFrom(earlier, proof);
    return consistent(BigInt(first), BigInt(second), fromHex(first_root), fromHex(second_root), bytes(path));
  },
  async "read note"({ note }) {
    const checkpoint = parseCheckpoint(note);
    const { session, key, size, root } = checkpoint;
    return { session: hex(session), key: hex(key), size: Number(size), root: hex(root), valid: await isSigned(checkpoint) };
  },
};

const HOLDS = {
  consistency: ({ earlier, proof }) => holdsFrom(earlier, proof),
  receipts: async ({ receipt, checkpoint }, pieces) =>
    (await problemsOf(parseReceipt(contentOf(receipt, pieces)), parseCheckpoint(checkpoint))).length === 0,
  evidence: ({ evidence }) => isEvidence(evidence),
  "witness keys": ({ key }) => Boolean(parseWitness(key)),
};

const said = {};
for (const file of process.argv.slice(2)) {
  const { pieces, cases } = JSON.parse(readFileSync(file, "utf8"));
  for (const { name, function: asked, group, input, ...given } of cases) {
    const answer = ANSWERS[asked] ?? HOLDS[group];
    if (answer === undefined) continue;
    try {
      said[`${asked ?? group}: ${name}`] = await answer(input ?? given, pieces);
    } catch {
      said[`${asked ?? group}: ${name}`] = group ? false : "malformed";
    }
  }
}
console.log(JSON.stringify(said));
