// Pages in a program that is driven by lines over stdin and stdout: whatever a page has of its browser is asked for there.

import { readFileSync, readSync, writeSync } from "node:fs";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto;

// So many signatures and hashes are under way.
let pending = 0;
for (const name of ["importKey", "exportKey", "sign", "verify", "digest"]) {
  const real = crypto.subtle[name].bind(crypto.subtle);
  const counted = async (...given) => {
    pending += 1;
    try {
      return await real(...given);
    } finally {
      pending -= 1;
    }
  };
  Object.defineProperty(crypto.subtle, name, { value: counted });
}
// The time, and the number of the page that goes on.
let now = 0;
let own = 0;
Date.now = () => now;
crypto.randomUUID = () => `${own} at ${now}`;

(0, eval)(`${readFileSync(process.argv[2], "utf8")}\nglobalThis.modules = modules;`);
const { Visit } = globalThis.modules["visit.js"];
const { hex, fromHex } = globalThis.modules["bytes.js"];

let held = Buffer.alloc(0);
const part = Buffer.alloc(1 << 16);

function read() {
  for (;;) {
    const end = held.indexOf(0x0a);
    if (end >= 0) {
      const line = held.subarray(0, end).toString();
      held = held.subarray(end + 1);
      return JSON.parse(line);
    }
    const size = readSync(0, part, 0, part.length, null);
    if (size === 0) process.exit(0);
    held = Buffer.concat([held, part.subarray(0, size)]);
  }
}

function write(value) {
  let rest = Buffer.from(`${JSON.stringify(value, (_, one) => (one instanceof Uint8Array ? hex(one) : one))}\n`);
  while (rest.length) rest = rest.subarray(writeSync(1, rest));
}

/** What the other side says at once. */
function ask(tab, what, ...given) {
  write({ tab, what, given });
  const { value, gone } = read();
  if (gone) throw new Error("this page was closed");
  return value;
}

const waiting = new Map(); // by number: what settles a promise
let number = 0;

/** What the other side says some time. */
function call(tab, what, ...given) {
  number += 1;
  write({ tab, what, given, number });
  return new Promise((resolve, reject) => waiting.set(number, { resolve, reject }));
}

const visits = new Map();

function open(tab, hasLocks) {
  const storage = {
    getItem: (name) => ask(tab, "get", name),
    setItem: (name, value) => ask(tab, "put", name, value),
    removeItem: (name) => ask(tab, "remove", name),
  };
  const locks = {
    async request(name, task) {
      const lock = await call(tab, "lock", name);
      try {
        return await task();
      } finally {
        write({ tab, what: "unlock", given: [lock] });
      }
    },
  };
  const fetch = async (path, { body } = {}) => {
    const [status, content, again] = await call(tab, "fetch", path, body ? hex(body) : null);
    const headers = new Headers(again ? { "Retry-After": String(again) } : {});
    return { status, headers, arrayBuffer: async () => fromHex(content).buffer };
  };
  const visit = new Visit({
    storage,
    locks: hasLocks ? locks : null,
    fetch,
    sleep: (milliseconds) => call(tab, "sleep", milliseconds / 1000),
    words: () => BigInt(ask(tab, "word")),
    online: () => true,
    today: () => "2026-01-01",
    changed: (state) => write({ tab, what: "changed", given: [state] }),
  });
  visits.set(tab, visit);
}

function done(tab, job, error) {
  write({ tab, what: "done", given: [job, error ? String(error.stack ?? error) : null] });
}

function obey({ what, tab, given }) {
  if (what === "new") open(tab, ...given);
  else if (what === "settle") {
    const [which, value, isLost] = given;
    const { resolve, reject } = waiting.get(which);
    waiting.delete(which);
    if (isLost) reject(new TypeError("Failed to fetch"));
    else resolve(value);
  } else {
    const [job, ...rest] = given;
    const visit = visits.get(tab);
    const failed = () => (visit.state.reason === "unexpected" ? visit.error : null);
    visit[what](...rest).then(() => done(tab, job, failed()), (error) => done(tab, job, error));
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

async function settled() {
  let quiet = 0;
  while (quiet < 2) {
    await turn();
    quiet = pending === 0 ? quiet + 1 : 0;
  }
}

for (;;) {
  const command = read();
  [now, own] = command.at;
  obey(command);
  await settled();
  write({ what: "idle" });
}
