// Visits against a server that is played: reads the bundled script of visit.js with a party that counts its draws, and prints by case what went wrong.

import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto;
(0, eval)(`${readFileSync(process.argv[2], "utf8")}\nglobalThis.modules = modules;`);
const { Visit, purseIn } = globalThis.modules["visit.js"];
const { draws } = globalThis.modules["party.js"];
const { encode } = globalThis.modules["msgpack.js"];
const { hex, text, utf8 } = globalThis.modules["bytes.js"];
const { sha256 } = globalThis.modules["sha256.js"];

const LINK = "p-1.seed.survey";
const KEY = `sottovoce ${"07".repeat(32)} p-1`;

class Killed extends Error {}

/** A browser's storage. At a given change, before or after it, everything in this tab stops. */
class Storage {
  constructor(items = new Map()) {
    this.items = items;
    this.changes = 0;
    this.killAt = Infinity;
    this.isFull = false;
  }

  getItem(name) {
    return this.items.get(name) ?? null;
  }

  change(apply) {
    this.changes += 1;
    if (this.changes === Math.ceil(this.killAt)) {
      if (this.killAt === this.changes) apply();
      this.killed?.();
      throw new Killed();
    }
    apply();
  }

  setItem(name, value) {
    if (this.isFull) throw new DOMException("full", "QuotaExceededError");
    this.change(() => this.items.set(name, String(value)));
  }

  removeItem(name) {
    this.change(() => this.items.delete(name));
  }
}

/** Web Locks: one at a time. */
class Locks {
  last = Promise.resolve();

  request(name, task) {
    const mine = this.last.then(() => task());
    this.last = mine.catch(() => {});
    return mine;
  }
}

/** A survey with one place. `faults` are used up one by one by requests for an answer, or by those that they name. */
class Server {
  constructor() {
    this.attempt = 1;
    this.bodies = new Map(); // by attempt, what it has on record
    this.seen = []; // what has arrived, whatever became of it
    this.faults = [];
    this.isClosed = false;
    this.receipt = null;
    this.asked = [];
    this.forges = false;
  }

  fetch = async (path, { method = "GET", body } = {}) => {
    this.asked.push(`${method} ${path}`);
    const fault = this.faults[0];
    const isHit = fault && (fault.path ? path.startsWith(fault.path) : path.startsWith("/answer/"));
    if (isHit) this.faults.shift();
    if (isHit && fault.is === "down") throw new TypeError("failed to fetch");
    if (isHit && fault.status) return new Response("no", { status: fault.status, headers: fault.headers });
    if (isHit && fault.is === "portal") return new Response("<h1>Please pay</h1>");
    const response = await this.answer(path, body);
    if (isHit && fault.is === "lost") throw new TypeError("network error");
    return response;
  };

  async answer(path, body) {
    const known = this.bodies.get(this.attempt);
    if (path === "/terms") return new Response(encode(["terms", this.attempt]));
    if (path === "/place/p-1") return new Response(encode("asks p-1"));
    if (path.startsWith("/place/")) return new Response("", { status: 404 });
    if (path === "/state") return new Response(encode([known !== undefined, known ? this.receipt : null, known && this.receipt ? "note" : null, !known && !this.isClosed]));
    const said = text(body);
    this.seen.push(said);
    if (path !== `/answer/p-1/${hex(sha256(body))}`) return new Response("", { status: 400 });
    if (known !== undefined && known !== said) return new Response("", { status: 409 });
    if (this.isClosed) return new Response("", { status: 410 });
    if (!said.startsWith(`${this.attempt} `)) return new Response("", { status: 400 });
    this.bodies.set(this.attempt, said);
    return new Response(utf8(`given ${this.forges ? "else" : said}`));
  }
}

let word = 0;
/** A tab: a visit with the storage of its browser. */
function tab(server, storage, more = {}) {
  const states = [];
  const waits = [];
  const visit = new Visit({
    fetch: server.fetch,
    storage,
    locks: new Locks(),
    sleep: async (milliseconds) => void waits.push(milliseconds),
    online: () => true,
    today: () => "2026-11-28",
    words: () => (word += 1),
    changed: (state) => states.push(state),
    ...more,
  });
  if (storage) storage.killed = () => visit.stop();
  return { visit, states, waits };
}

async function opened(server, storage, more) {
  const made = tab(server, storage, more);
  await made.visit.open(LINK);
  return made;
}

const problems = [];
let current = "";
const must = (holds, what) => holds || problems.push(`${current}: ${what}`);
const equal = (found, expected, what) => must(JSON.stringify(found) === JSON.stringify(expected), `${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
const drawn = async (task) => {
  const before = draws.made;
  await task();
  return draws.made - before;
};

const CASES = {
  async "an answer is stored, sent once and acknowledged"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit, states } = await opened(server, storage);
    equal(visit.state, { name: "asking", earlier: 0 }, "the state");
    equal(server.asked, ["GET /place/p-1", "GET /terms", "POST /state"], "what opening asks for");
    equal([...storage.items], [], "stored by opening");
    equal(await drawn(() => visit.send([1, 0])), 1, "draws");
    equal([visit.state.name, visit.state.counted, visit.state.declined], ["sent", "not yet known", false], "the state");
    equal(server.seen.length, 1, "posts");
    equal(visit.state.shown[0].value, [server.seen[0].slice(2)], "what is shown");
    equal([...new Set(states.map(({ name }) => name))], ["opening", "asking", "sending", "sent"].slice(states[0].name === "opening" ? 0 : 1), "the states");
    equal(purseIn(storage), [{ survey: "07".repeat(32), place: "p-1", attempt: 1, epsilon: 1, date: "2026-11-28" }], "the purse");
    must(![...storage.items.values()].join().includes("[1,0]"), "true answers are stored");
  },
  async "nothing is shown as sent before it is acknowledged"() {
    const [server, storage] = [new Server(), new Storage()];
    server.faults = [{ is: "down" }, { status: 503 }, { status: 500 }];
    const { visit, states } = await opened(server, storage);
    await visit.send([0]);
    must(states.filter(({ name }) => name !== "sent").every((state) => !("shown" in state)), "shown too early");
    equal([...new Set(states.map(({ waiting }) => waiting))], [undefined, null, "server"], "what it waits for");
    equal([...new Set(states.filter(({ name }) => name === "sending").map(({ isStored }) => isStored))], [undefined, true], "whether it is stored");
    equal(new Set(server.seen).size, 1, "bodies");
  },
  async "a lost reply, refusals for a while and a portal: the very same bytes again"() {
    const [server, storage] = [new Server(), new Storage()];
    server.faults = [{ is: "lost" }, { status: 503, headers: { "Retry-After": "7" } }, { status: 429, headers: { "Retry-After": "9999" } }, { is: "portal" }, { status: 502 }];
    const { visit, waits } = await opened(server, storage);
    equal(await drawn(() => visit.send([0])), 1, "draws");
    equal(visit.state.name, "sent", "the state");
    equal(new Set(server.seen).size, 1, "bodies");
    equal(waits, [1000, 7000, 300000, 8000, 15000], "waits");
  },
  async "offline it says so, and goes on"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit, states } = await opened(server, storage, { online: () => false });
    server.faults = [{ is: "down" }, { is: "down" }];
    await visit.send([0]);
    must(states.some(({ name, waiting }) => name === "sending" && waiting === "offline"), "it does not say that it is offline");
    equal(visit.state.name, "sent", "the state");
  },
  async "opening waits for the server, too"() {
    const [server, storage] = [new Server(), new Storage()];
    server.faults = [{ path: "/place", is: "down" }, { path: "/place", is: "portal" }, { path: "/terms", status: 503 }, { path: "/terms", is: "portal" }, { path: "/state", is: "portal" }];
    const { visit, states } = await opened(server, storage);
    equal(visit.state.name, "asking", "the state");
    must(states.some(({ name, waiting }) => name === "opening" && waiting === "server"), "it does not say that it waits");
  },
  async "a double click sends once"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit } = await opened(server, storage);
    equal(await drawn(() => Promise.all([visit.send([0]), visit.send([1])])), 1, "draws");
    equal(server.seen.length, 1, "posts");
  },
  async "two tabs send one body"() {
    const [server, items, locks] = [new Server(), new Map(), new Locks()];
    const tabs = await Promise.all([1, 2].map(() => opened(server, new Storage(items), { locks })));
    equal(await drawn(() => Promise.all(tabs.map(({ visit }, i) => visit.send([i])))), 1, "draws");
    equal(new Set(server.seen).size, 1, "bodies");
    equal(tabs.map(({ visit }) => visit.state.name), ["sent", "sent"], "the states");
  },
  async "one tab sends while another declines"() {
    const [server, items, locks] = [new Server(), new Map(), new Locks()];
    const tabs = await Promise.all([1, 2].map(() => opened(server, new Storage(items), { locks })));
    await Promise.all([tabs[0].visit.send([0]), tabs[1].visit.decline()]);
    equal(new Set(server.seen).size, 1, "bodies");
    equal(tabs.map(({ visit }) => visit.state.name), ["sent", "sent"], "the states");
  },
  async "even where locks lock nothing, what was stored first is sent"() {
    const [server, items] = [new Server(), new Map()];
    const locks = { request: (name, task) => task() };
    const tabs = await Promise.all([1, 2].map(() => opened(server, new Storage(items), { locks })));
    await Promise.all(tabs.map(({ visit }, i) => visit.send([i])));
    equal(new Set(server.seen).size, 1, "bodies");
  },
  async "without locks a claim that another tab has overwritten is worth nothing"() {
    const [server, storage] = [new Server(), new Storage()];
    const sleep = async () => storage.items.set(`${KEY} tab`, JSON.stringify(["other", Date.now()]));
    const { visit } = await opened(server, storage, { locks: null, sleep });
    equal(await drawn(() => visit.send([0])), 0, "draws");
    equal(visit.state, { name: "refused", reason: "tab" }, "the state");
  },
  async "a visit that was left while it drew stores nothing"() {
    const [server, storage] = [new Server(), new Storage()];
    const made = await opened(server, storage, { words: () => made.visit.stop() });
    await made.visit.send([0]);
    equal([[...storage.items.keys()], server.seen], [[], []], "storage and posts");
  },
  async "without locks the second tab is refused"() {
    const [server, items] = [new Server(), new Map()];
    const sleep = () => new Promise((woken) => setTimeout(woken, 5));
    const tabs = await Promise.all([1, 2].map(() => opened(server, new Storage(items), { locks: null, sleep })));
    await Promise.all(tabs.map(({ visit }, i) => visit.send([i])));
    equal(tabs.map(({ visit }) => visit.state.reason ?? visit.state.name), ["sent", "tab"], "the states");
    equal(new Set(server.seen).size, 1, "bodies");
    equal([...items.keys()].filter((name) => name.endsWith(" tab")), [], "left claims");
    const { visit } = await opened(server, new Storage(items), { locks: null });
    equal(visit.state.name, "sent", "a later tab's state");
  },
  async "without locks a claim of a tab that was closed grows old"() {
    const [server, storage] = [new Server(), new Storage()];
    storage.items.set(`${KEY} tab`, JSON.stringify(["x", Date.now() - 60000]));
    const { visit } = await opened(server, storage, { locks: null });
    await visit.send([0]);
    equal(visit.state.name, "sent", "the state");
  },
  async "a reload shows the same, and asks what became of it"() {
    const [server, storage] = [new Server(), new Storage()];
    const first = await opened(server, storage);
    await first.visit.send([0]);
    server.receipt = utf8(`counted: ${server.seen[0]}`);
    const { visit } = await opened(server, storage);
    equal([visit.state.name, visit.state.counted], ["sent", "counted"], "the state");
    equal(visit.state.shown, first.visit.state.shown, "what is shown");
    equal(server.seen.length, 1, "posts");
    equal(text(visit.state.receipt), text(server.receipt), "the receipt");
    server.receipt = null;
    server.faults = [{ path: "/state", status: 404 }];
    equal(text((await opened(server, storage)).visit.state.receipt), `counted: ${server.seen[0]}`, "the receipt, once it is stored");
  },
  async "counted stands only with a receipt about this very report"() {
    for (const receipt of ["forged: x", "counted: another"]) {
      const [server, storage] = [new Server(), new Storage()];
      server.receipt = utf8(receipt);
      const { visit } = await opened(server, storage);
      await visit.send([0]);
      equal([visit.state.name, visit.state.counted], ["sent", "wrong"], receipt);
      must(visit.state.problems.length > 0, "no reason");
      equal([text(visit.state.receipt), text(visit.state.wrong.receipt)], [`given ${server.seen[0]}`, receipt], "both receipts");
      equal(text(Uint8Array.from(Buffer.from(JSON.parse(storage.items.get(KEY)).receipt, "hex"))), `given ${server.seen[0]}`, "the one that is kept");
    }
  },
  async "a server that forgets what it acknowledged is told on"() {
    const [server, storage] = [new Server(), new Storage()];
    await (await opened(server, storage)).visit.send([0]);
    server.bodies.clear();
    const { visit } = await opened(server, storage);
    equal([visit.state.name, visit.state.counted], ["sent", "denied"], "the state");
    equal(server.seen.length, 1, "posts");
  },
  async "cleared storage: nothing is asked, nothing is sent"() {
    const server = new Server();
    await (await opened(server, new Storage())).visit.send([0]);
    const { visit } = await opened(server, new Storage());
    equal([visit.state.name, visit.state.conflict], ["elsewhere", false], "the state");
    equal(server.seen.length, 1, "posts");
  },
  async "somebody else was faster"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit } = await opened(server, storage);
    server.bodies.set(1, "1 other");
    await visit.send([0]);
    equal([visit.state.name, visit.state.conflict], ["elsewhere", true], "the state");
    must(!("shown" in visit.state), "it is shown as sent");
    const later = await opened(server, storage);
    equal([later.visit.state.name, later.visit.state.conflict], ["elsewhere", true], "the later state");
    equal(new Set(server.seen).size, 1, "bodies");
  },
  async "closed before it arrived: not counted, not shown"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit } = await opened(server, storage);
    server.isClosed = true;
    await visit.send([0]);
    equal(visit.state, { name: "closed", unsent: true }, "the state");
    equal((await opened(server, storage)).visit.state, { name: "closed", unsent: true }, "the later state");
    equal((await opened(server, new Storage())).visit.state, { name: "closed", unsent: false }, "elsewhere");
  },
  async "closed after it arrived, with the acknowledgement lost"() {
    for (const word of ["counted", null]) {
      const [server, storage] = [new Server(), new Storage()];
      const sleep = async () => {
        server.isClosed = true;
        server.receipt = word && utf8(`${word}: ${server.bodies.get(1)}`);
      };
      const { visit } = await opened(server, storage, { sleep });
      server.faults = [{ is: "lost" }];
      await visit.send([0]);
      equal([visit.state.name, visit.state.counted], word ? ["sent", "counted"] : ["elsewhere", "not yet known"], "the state");
      equal(new Set(server.seen).size, 1, "bodies");
    }
  },
  async "a receipt that does not hold is kept, and nothing is tried again"() {
    const [server, storage] = [new Server(), new Storage()];
    server.forges = true;
    const { visit } = await opened(server, storage);
    await visit.send([0]);
    for (const { state } of [visit, (await opened(server, storage)).visit]) {
      equal([state.name, state.reason, text(state.wrong.receipt)], ["refused", "receipt", "given else"], "the state");
      must(state.problems.length > 0, "no reason");
    }
    equal(server.seen.length, 1, "posts");
  },
  async "declining"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit } = await opened(server, storage);
    equal(await drawn(() => visit.decline()), 0, "draws");
    equal([visit.state.name, visit.state.declined, visit.state.shown], ["sent", true, []], "the state");
    equal([server.seen, purseIn(storage)], [["1 declined"], []], "posts and purse");
  },
  async "a later attempt offers the same report, and sends it by a click"() {
    const [server, storage] = [new Server(), new Storage()];
    await (await opened(server, storage)).visit.send([0]);
    server.attempt = 2;
    const { visit } = await opened(server, storage);
    equal(visit.state, { name: "again" }, "the state");
    equal(server.seen.length, 1, "posts before a click");
    equal(await drawn(() => visit.repeat()), 0, "draws");
    equal(server.seen.map((body) => body.slice(2)), Array(2).fill(server.seen[0].slice(2)), "reports");
    equal(visit.state.name, "sent", "the state");
    equal(purseIn(storage).length, 1, "entries of the purse");
    server.attempt = 3;
    const third = await opened(server, storage);
    equal(await drawn(() => third.visit.send([1])), 0, "draws where a report is kept");
    equal(new Set(server.seen.map((body) => body.slice(2))).size, 1, "reports");
  },
  async "a later attempt, declined: the report is kept for the one after"() {
    const [server, storage] = [new Server(), new Storage()];
    await (await opened(server, storage)).visit.send([0]);
    server.attempt = 2;
    await (await opened(server, storage)).visit.decline();
    server.attempt = 3;
    const { visit } = await opened(server, storage);
    await visit.repeat();
    equal(server.seen[2].slice(2), server.seen[0].slice(2), "the report");
  },
  async "a later attempt without a stored report is charged"() {
    const [server, storage] = [new Server(), new Storage()];
    server.attempt = 2;
    const { visit } = await opened(server, storage);
    equal(visit.state, { name: "asking", earlier: 1 }, "the state");
    await visit.send([0]);
    equal(purseIn(storage).map(({ attempt }) => attempt), [2], "the purse");
  },
  async "a report from here by another link is charged"() {
    const storage = new Storage(new Map([["sottovoce purse", JSON.stringify([{ survey: "07".repeat(32), place: "p-2", attempt: 1, epsilon: 1, date: "2026-11-27" }])]]));
    equal((await opened(new Server(), storage)).visit.state, { name: "asking", earlier: 1 }, "the state");
  },
  async "after declining, a later attempt costs nothing more"() {
    const [server, storage] = [new Server(), new Storage()];
    await (await opened(server, storage)).visit.decline();
    server.attempt = 2;
    equal((await opened(server, storage)).visit.state, { name: "asking", earlier: 0 }, "the state");
  },
  async "an attempt that began while the form was open"() {
    const [server, storage] = [new Server(), new Storage()];
    const { visit } = await opened(server, storage);
    server.attempt = 2;
    await visit.send([0]);
    equal(visit.state, { name: "again" }, "the state");
    equal(await drawn(() => visit.repeat()), 0, "draws");
    equal(new Set(server.seen.map((body) => body.slice(2))).size, 1, "reports");
  },
  async "an earlier attempt than the one answered is refused"() {
    const [server, storage] = [new Server(), new Storage()];
    server.attempt = 2;
    await (await opened(server, storage)).visit.send([0]);
    server.attempt = 1;
    equal((await opened(server, storage)).visit.state, { name: "refused", reason: "attempt" }, "the state");
    equal(server.seen.length, 1, "posts");
  },
  async "storage that takes nothing, is damaged or not there: nothing is sent"() {
    const [server, full, damaged] = [new Server(), new Storage(), new Storage(new Map([[KEY, "{"]]))];
    const { visit } = await opened(server, full);
    full.isFull = true;
    await visit.send([0]);
    equal(visit.state, { name: "refused", reason: "storage" }, "the state");
    equal((await opened(server, damaged)).visit.state, { name: "refused", reason: "storage" }, "damaged");
    equal((await opened(server, null)).visit.state, { name: "refused", reason: "storage" }, "none");
    equal(server.seen, [], "posts");
  },
  async "a storage that forgets at once sends nothing"() {
    const server = new Server();
    const { visit } = await opened(server, { getItem: () => null, setItem() {}, removeItem() {} });
    await visit.send([0]);
    equal([visit.state, server.seen], [{ name: "refused", reason: "storage" }, []], "state and posts");
  },
  async "what another tab forgot while this one drew is not sent"() {
    const [server, storage] = [new Server(), new Storage()];
    await (await opened(server, storage)).visit.decline();
    server.attempt = 2;
    const { visit } = await opened(server, storage, { words: () => (storage.items.delete(KEY), 1) });
    await visit.send([0]);
    equal([visit.state, server.seen.length], [{ name: "refused", reason: "storage" }, 1], "state and posts");
  },
  async "links and servers that are refused"() {
    const server = new Server();
    const cases = [["p-1.seed", "link"], ["p-2.seed.survey", "unknown"]];
    for (const [link, reason] of cases) {
      const { visit } = tab(server, new Storage());
      await visit.open(link);
      equal(visit.state, { name: "refused", reason }, link);
    }
    server.faults = [{ path: "/state", status: 403 }];
    equal((await opened(server, new Storage())).visit.state, { name: "refused", reason: "server" }, "no state");
    server.faults = [{ status: 400 }];
    const storage = new Storage();
    const { visit } = await opened(server, storage);
    await visit.send([0]);
    equal(visit.state, { name: "refused", reason: "server" }, "refused");
    equal((await opened(server, storage)).visit.state.name, "sent", "tried again by a reload");
    equal(new Set(server.seen).size, 1, "bodies");
  },
  async "forgetting deletes all of this survey"() {
    const [server, storage] = [new Server(), new Storage()];
    storage.items.set("sottovoce purse", JSON.stringify([{ survey: "00", place: "p-1", attempt: 1, epsilon: 2, date: "2026-01-01" }]));
    const { visit } = await opened(server, storage);
    await visit.send([0]);
    equal(purseIn(storage).length, 2, "entries of the purse");
    visit.forget();
    equal([...storage.items.keys()], ["sottovoce purse"], "what is left");
    equal(purseIn(storage).map(({ survey }) => survey), ["00"], "the purse");
    equal(visit.state.name, "forgotten", "the state");
    equal((await opened(server, storage)).visit.state.name, "elsewhere", "the state after it");
  },
  async "whenever a tab dies, what was stored is what is sent"() {
    for (const act of ["send", "decline"]) {
      for (const faults of [[], [{ is: "lost" }], [{ is: "down" }, { status: 503 }]]) {
        for (const locks of [new Locks(), null]) {
          for (let at = 0.5; at <= 8; at += 0.5) {
            const [server, items] = [new Server(), new Map()];
            server.faults = [...faults];
            for (let attempt = 1; attempt <= 2; attempt++) {
              server.attempt = attempt;
              const dying = new Storage(items);
              const { visit } = await opened(server, dying, { locks });
              dying.killAt = at;
              const go = (one) => (one.state.name === "again" ? one.repeat() : one.state.name === "asking" && one[act]([attempt]));
              await go(visit);
              items.delete(`${KEY} tab`); // as if it had grown old
              const left = items.has(KEY) ? JSON.parse(items.get(KEY)) : null;
              const next = await opened(server, new Storage(items), { locks });
              await go(next.visit);
              const where = `${act}, attempt ${attempt}, change ${at}`;
              equal(next.visit.state.name, "sent", where);
              if (left?.attempt === attempt) equal(text(Uint8Array.from(Buffer.from(left.body, "hex"))), server.bodies.get(attempt), `${where}: the body`);
              equal(new Set(server.seen.filter((body) => body.startsWith(`${attempt} `))).size, 1, `${where}: bodies`);
            }
            const reports = new Set(server.seen.map((body) => body.slice(2)));
            equal(reports.size, 1, `${act}, change ${at}: reports`);
            equal(purseIn(new Storage(items)).length, act === "send" ? 1 : 0, `${act}, change ${at}: the purse`);
          }
        }
      }
    }
  },
};

for (const [name, run] of Object.entries(CASES)) {
  current = name;
  try {
    await run();
  } catch (error) {
    problems.push(`${name}: ${error.stack}`);
  }
}
console.log(JSON.stringify({ cases: Object.keys(CASES).length, problems }));
