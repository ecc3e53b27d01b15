// The header, and the session that it binds (section 2 of the format).

import { concat, same, utf8 } from "./bytes.js";
import { isSoundPoint, unsigned } from "./ed25519.js";
import { isKinds } from "./kinds.js";
import { rootOf } from "./merkle.js";
import { decode, encode, isArray, isBytes, isInt, isList, isText, Malformed, orNil } from "./msgpack.js";
import { isAttempt, sessionOf } from "./session.js";
import { sha256 } from "./sha256.js";

const isMap = (value) => value instanceof Map;
const FIELDS = {
  variant: isText(),
  parameters: isMap,
  survey: isMap,
  analysis: orNil(isMap),
  nonce: isBytes(16),
  attempt: isAttempt,
  session: isBytes(32),
  roster: isList(isArray(isText(), isBytes(32))),
  kinds: isKinds,
  recording: (value) => value === "full",
  seed: orNil((value) => isInt(value) && value >= 0),
  transport: orNil(isText()),
  program: isText(),
};
const TERMS = ["variant", "parameters", "survey", "analysis", "nonce", "kinds"];

function must(holds, what) {
  if (!holds) throw new Malformed(what);
}

function checkRoster(roster) {
  const ids = new Set();
  const keys = new Set();
  must(roster[0]?.[0] === "aggregator", "the roster does not begin with the aggregator");
  for (const [id, key] of roster) {
    must(/^(?=.{1,63}$)[a-z0-9]+(-+[a-z0-9]+)*$/.test(id) && id !== "record" && id !== "switch", `not an id: ${id}`);
    must(isSoundPoint(key), `${id}'s key is not sound`);
    ids.add(id);
    keys.add(unsigned(key));
  }
  must(ids.size === roster.length && keys.size === roster.length, "the roster has an id or a key twice");
}

const rosterRoot = (roster) => rootOf(roster.map(([id, key]) => concat(key, utf8(id))));

/** The header's fields by name; throws Malformed where the bytes are no header. */
export function parseHeader(bytes) {
  const fields = decode(bytes, { sorted: false }); // its own fields are not, but what is in them
  must(isMap(fields) && [...fields.keys()].join() === Object.keys(FIELDS).join(), "not the fields in their order");
  for (const [name, isRight] of Object.entries(FIELDS)) {
    const value = fields.get(name);
    must(isRight(value) && same(encode(value), encode(value, false)), `${name} is not as it should be`);
  }
  const header = Object.fromEntries(fields);
  checkRoster(header.roster);
  const terms = sha256(encode(TERMS.map((name) => header[name])));
  const { roster, attempt } = header;
  must(same(header.session, sessionOf(terms, rosterRoot(roster), roster.length, attempt)), "another session follows");
  return header;
}
