// What the second verifier says of vectors of transcripts, of every one or every n-th: by name.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

import { fromHex } from "../../docs/verifier/bytes.js";
import { verify } from "../../docs/verifier/transcript.js";
import { contentOf } from "./pieces.mjs";

globalThis.crypto ??= webcrypto;
const { pieces, cases } = JSON.parse(readFileSync(process.argv[2], "utf8"));

const said = {};
const step = Number(process.argv[3] ?? 1);
for (const { name, file, given = {} } of cases.filter((_, place) => place % step === 0)) {
  const { digest, checkpoint, witnesses, needed } = given;
  const demands = { digest: digest && fromHex(digest), checkpoint, witnesses, atLeast: needed };
  const found = await verify(contentOf(file, pieces), demands);
  said[name] = [found.verdict, found.verdict === "sound" ? [found.size, found.root, found.digest] : null];
}
console.log(JSON.stringify(said));
