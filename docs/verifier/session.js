// A session's id, and the kinds that every session has (section 2 of the format).

import { utf8 } from "./bytes.js";
import { encode } from "./msgpack.js";
import { sha256 } from "./sha256.js";

export const KERNEL_KINDS = ["Closed", "Declined", "Left", "Head"];

export const sessionOf = (terms, roster, members) =>
  sha256(utf8("sottovoce session 2\0"), encode([terms, roster, members]));
