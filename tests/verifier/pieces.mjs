// The bytes of a file of the vectors, as docs/vectors.md says.

import { concat } from "../../docs/verifier/bytes.js";

export function contentOf(parts, pieces) {
  const bytes = parts.map((part) => {
    const [spelled, times = "1"] = part.split("*");
    return Buffer.from((pieces[spelled] ?? spelled).repeat(Number(times)), "hex");
  });
  return concat(...bytes);
}
