// What the second verifier says of every vector of transcripts: an object of name and verdict.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { fromHex } from "../../docs/verifier/bytes.js";
import { verify } from "../../docs/verifier/transcript.js";
import { contentOf } from "./pieces.mjs";

globalThis.crypto ??= webcrypto;
const { pieces, cases } = JSON.parse(readFileSync(process.argv[2], "utf8"));

const said = {};
for (const { name, file, given = {} } of cases) {
  const { digest, checkpoint, witnesses, needed } = given;
  const demands = { digest: digest && fromHex(digest), checkpoint, witnesses, atLeast: needed };
  const found = await verify(contentOf(file, pieces), demands);
  said[name] = [found.verdict, found.verdict === "sound" ? [found.size, found.root, found.digest] : null];
}
console.log(JSON.stringify(said));
