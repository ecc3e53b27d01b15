// A visit without a page. What was drawn is stored before it is sent, and stays what is sent.

import { fromHex, hex, same } from "./bytes.js";
import { decode } from "./msgpack.js";
import { again, agreed, answer, counted, declined, invitation, receiptOf, Refused, stateOf } from "./party.js";
import { sha256 } from "./sha256.js";

const PURSE = "sottovoce purse";
const BACKOFF = [1, 2, 4, 8, 15, 30, 60]; // seconds between tries
const LONGEST = 300;
const CLAIM = 150; // milliseconds until another claim would be seen
const STALE = 20000;
const TRANSIENT = [408, 425, 429];

async function isFit(isRight, bytes) {
  try {
    await isRight(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Thrown inside a visit that was left. */
class Stopped extends Error {}

/** The browser's storage; null where it has none for this page. */
function localStorage() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

const browsers = () => ({
  fetch: (path, options) => globalThis.fetch(path, options),
  locks: globalThis.navigator?.locks ?? null,
  sleep: (milliseconds) =>
    new Promise((woken) => {
      setTimeout(woken, milliseconds);
      globalThis.addEventListener?.("online", woken, { once: true });
    }),
  online: () => globalThis.navigator?.onLine !== false,
  today: () => new Date().toISOString().slice(0, 10),
  changed: () => {},
});

/** A list of `{ survey, place, attempt, epsilon, date }`: what reports from this browser told, as far as its storage knows. */
export function purseIn(storage) {
  try {
    const list = JSON.parse(storage.getItem(PURSE) ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/**
 * `state.name` is one of
 * - `opening` and `sending` (`waiting`: null, "offline" or "server"; `isStored` once it is), `asking` (`earlier`: how many reports there may
 *   be already), `again`,
 * - `sent` (`shown`, `declined`, `receipt`, `note`, `counted`: null, "counted", "late", "not yet known", "denied" or, with `problems`, "wrong"),
 * - `elsewhere` (`conflict`: a stored report was refused for another; else `counted` as above), `closed` (`unsent`: one is stored, not counted),
 * - `refused` (`reason`; for a receipt that does not hold `problems` and `wrong`), `forgotten`.
 *
 * By default all that is injected is the browser's; `changed(state)` is called at each change.
 */
export class Visit {
  state = { name: "opening", waiting: null };
  agreement = null;
  #with;
  #invited = null;
  #posted = false;
  #left = false;
  #sending = null;

  constructor(injected = {}) {
    this.#with = { ...browsers(), ...injected };
    this.#with.storage ??= localStorage();
  }

  /** Go through with a link's fragment as far as can be without a person. */
  open(link) {
    return this.#guarded(async () => {
      this.#invited = await invitation(link);
      if (!this.#with.storage) throw new Refused("storage");
      await this.#arrive();
    });
  }

  /** Answer: `codes` are of all attributes, in order. What is stored already is sent in their place. */
  send(codes) {
    return this.#once((kept) => (kept?.report ? this.#same(kept) : answer(this.agreement, codes, this.#with.words)));
  }

  /** Say that this place does not answer. */
  decline() {
    return this.#once(async () => ({ body: await declined(this.agreement) }));
  }

  /** Send the report of an earlier attempt, the very same. */
  repeat() {
    return this.#once((kept) => this.#same(kept));
  }

  /** Delete all that this browser has of the survey. */
  forget() {
    const { storage } = this.#with;
    const rest = this.purse().filter((entry) => !this.#isOwn(entry));
    storage.removeItem(this.#name);
    storage.removeItem(`${this.#name} tab`);
    if (rest.length) storage.setItem(PURSE, JSON.stringify(rest));
    else storage.removeItem(PURSE);
    this.stop();
    this.#become("forgotten");
  }

  /** Do nothing more. */
  stop() {
    this.#left = true;
  }

  purse() {
    return purseIn(this.#with.storage);
  }

  /** Whether something may have been sent from here, now or before. */
  get mayHaveSent() {
    return this.#posted || this.stored() !== null;
  }

  /** What is stored of this survey, to be looked at whatever the server says: null, or with `receipt` and `note` if there are any. */
  stored() {
    try {
      const record = this.#invited && this.#record();
      return record && { receipt: record.receipt ? fromHex(record.receipt) : null, note: record.note };
    } catch {
      return null;
    }
  }

  #same({ report }) {
    return again(this.agreement, fromHex(report));
  }

  /** The place that the link is for. */
  get party() {
    return this.#invited.party;
  }

  get #name() {
    return `sottovoce ${hex(this.#invited.survey)} ${this.#invited.party}`;
  }

  #isOwn({ survey, place }) {
    return survey === hex(this.#invited.survey) && place === this.#invited.party;
  }

  #become(name, more = {}) {
    this.state = { name, ...more };
    this.#with.changed(this.state);
  }

  async #guarded(task) {
    try {
      await task();
    } catch (error) {
      if (error instanceof Stopped) return;
      this.error = error;
      this.#become("refused", { reason: error instanceof Refused ? error.reason : "unexpected" });
    }
  }

  /** Find what was agreed; another attempt may begin between two requests. */
  async #agreed() {
    for (let before = null, tries = 0; ; tries++) {
      const place = await this.#ask(`/place/${this.#invited.party}`, null, decode);
      if (place.status !== 200) throw new Refused(place.status === 404 ? "unknown" : "server");
      const terms = await this.#ask("/terms", null, decode);
      if (terms.status !== 200) throw new Refused("server");
      try {
        return await agreed(this.#invited, terms.bytes, place.bytes);
      } catch (error) {
        if (!(error instanceof Refused) || tries > 1 || (before && same(before, place.bytes))) throw error;
        before = place.bytes;
      }
    }
  }

  /** Find what there is to agree to, and what this browser has of it. */
  async #arrive() {
    this.agreement = await this.#agreed();
    const record = this.#record();
    if (record && record.attempt > this.agreement.attempt) throw new Refused("attempt");
    if (record?.attempt === this.agreement.attempt) return record.receipt ? this.#acknowledged(record) : this.#deliver(record);
    const found = await this.#inquire();
    if (!found && (await this.#hasMoved())) return this.#arrive();
    if (!found) throw new Refused("server");
    if (found.answered) {
      this.#become("elsewhere", { conflict: false, counted: null });
      return this.#recount();
    }
    if (!found.open) return this.#become("closed", { unsent: this.#isUnsent() });
    if (record?.report) return this.#become("again");
    this.#become("asking", { earlier: this.#earlier(record) });
  }

  /** How many reports of the same person there may be already: in earlier attempts, and from here by other links. */
  #earlier(record) {
    const survey = hex(this.#invited.survey);
    const others = this.purse().filter((entry) => entry.survey === survey && entry.place !== this.#invited.party).length;
    return others + (record?.report ? 0 : (record ?? this.agreement).attempt - 1);
  }

  #isUnsent() {
    const record = this.#record();
    return Boolean(record && !record.receipt && !record.declined);
  }

  /** Make a body if none is stored, store it, and see to it that it arrives; a second call while this goes on waits for the first. */
  #once(make) {
    this.#sending ??= this.#guarded(async () => {
      this.#become("sending", { waiting: null });
      const record = await this.#alone(async () => {
        const stored = this.#stored();
        const kept = this.#record();
        if (kept && kept.attempt >= this.agreement.attempt) return kept;
        return this.#replace(stored, this.#made(kept, await make(kept)));
      });
      if (record.attempt === this.agreement.attempt) await this.#deliver(record);
      else await this.#arrive();
    }).finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  /** The record of a body that was made. One that declines has no report, and leaves an earlier one where it is. */
  #made(before, { report, body }) {
    const { attempt } = this.agreement;
    const kept = report ? hex(report) : before?.report;
    return { attempt, declined: !report, body: hex(body), ...(kept && { report: kept, drawn: before?.report ? before.drawn : attempt }) };
  }

  /** Store a record in the place of what was read, unless something else is stored by now: then that. */
  #replace(read, record) {
    if (this.#left) throw new Stopped();
    if (this.#stored() === read) this.#write(record);
    const kept = this.#record();
    if (!kept) throw new Refused("storage");
    return kept;
  }

  /** Run alone among the tabs of this browser. */
  async #alone(task) {
    const { locks, storage, sleep } = this.#with;
    if (locks) return locks.request(this.#name, task);
    const name = `${this.#name} tab`;
    const claim = `${hex(crypto.getRandomValues(new Uint8Array(16)))} ${Date.now()}`;
    const other = storage.getItem(name);
    if (other !== null && Date.now() - (Number(other.split(" ")[1]) || 0) < STALE) throw new Refused("tab");
    storage.setItem(name, claim);
    await sleep(CLAIM);
    if (storage.getItem(name) !== claim) throw new Refused("tab");
    try {
      return await task();
    } finally {
      if (storage.getItem(name) === claim) storage.removeItem(name);
    }
  }

  /** Send what is stored until it is acknowledged or turned away. */
  async #deliver(record) {
    const body = fromHex(record.body);
    this.#become("sending", { waiting: null, isStored: true });
    this.#charge(record);
    this.#posted = true;
    let made;
    const { status } = await this.#ask(`/answer/${this.#invited.party}/${hex(sha256(body))}`, body, async (bytes) => {
      made = await receiptOf(this.agreement, body, bytes);
    });
    if (status === 200) return this.#acknowledged(this.#receipted(record, made));
    if (status === 409) return this.#become("elsewhere", { conflict: true });
    if (status === 410) return this.#over(record);
    if (await this.#hasMoved()) return this.#arrive();
    throw new Refused("server");
  }

  /** It is too late to send what is stored, unless it had arrived and only the acknowledgement was lost. */
  async #over(record) {
    if (await this.#hasMoved()) return this.#arrive();
    const found = await this.#inquire();
    if (!found?.answered) return this.#become("closed", { unsent: !record.declined });
    if (found.receipt === null) return this.#become("elsewhere", { conflict: false, counted: "not yet known" });
    const made = await this.#judged(found, record);
    if (made.receipt) this.#become("sent", { shown: this.#shown(record), declined: record.declined, ...made });
  }

  /** Whether the server is at another attempt by now. */
  async #hasMoved() {
    const { status, bytes } = await this.#ask("/terms", null, decode);
    return status === 200 && decode(bytes)[1] !== this.agreement.attempt;
  }

  /** A record with its receipt, which is stored if the record still is. Without it, a later visit sends the same once more and gets one. */
  #receipted(record, { receipt, note, problems }) {
    const full = { ...record, receipt: hex(receipt), note, problems };
    try {
      if (this.#record()?.body === record.body) this.#write(full);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
    return full;
  }

  /** Show what was sent and its receipt, then ask what became of it. */
  async #acknowledged(record) {
    const kept = { receipt: fromHex(record.receipt), note: record.note };
    if (record.problems.length) return this.#become("refused", { reason: "receipt", problems: record.problems, wrong: kept });
    this.#become("sent", { shown: this.#shown(record), declined: record.declined, counted: null, ...kept });
    return this.#recount();
  }

  #shown({ declined, report }) {
    return declined ? [] : this.agreement.protocol.shown(fromHex(report));
  }


  /** Ask what became of this place, and add it to the state. */
  async #recount() {
    const { name } = this.state;
    const state = await this.#inquire();
    if (!state) return;
    if (!state.answered) return this.#become(name, { ...this.state, counted: "denied" });
    if (state.receipt === null) return this.#become(name, { ...this.state, counted: "not yet known" });
    this.#become(name, { ...this.state, ...(await this.#judged(state, name === "sent" ? this.#record() : null)) });
  }

  /** What the server's last receipt shows. With a record, it has to be about what is in it, and is kept there. */
  async #judged(kept, record) {
    const { receipt, note } = kept;
    const found = await counted(this.agreement, receipt, note, record && fromHex(record.body));
    if (Array.isArray(found)) return { counted: "wrong", problems: found, wrong: { receipt, note } };
    if (record) this.#receipted(record, { receipt, note, problems: [] });
    return { counted: found, receipt, note };
  }

  /** What the server says of this place: `{ answered, receipt, note, open }`; null if it does not say. */
  async #inquire() {
    const body = await stateOf(this.agreement);
    let found;
    const { status } = await this.#ask("/state", body, (bytes) => {
      const [answered, receipt, note, open] = decode(bytes);
      if (typeof answered !== "boolean" || typeof open !== "boolean") throw new Error("not a state");
      found = { answered, receipt, note, open };
    });
    return status === 200 ? found : null;
  }

  /**
   * Fetch, or send the same bytes, until an answer comes that stands: `{ status, bytes }`. `isRight` reads what comes with 200; where it throws,
   * something between here and the server answered in its place.
   */
  async #ask(path, body, isRight = () => {}) {
    const more = body ? { method: "POST", body, headers: { "Content-Type": "application/msgpack" } } : {};
    const options = { ...more, signal: globalThis.AbortSignal?.timeout?.(1000 * LONGEST), cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" };
    for (let tries = 0; ; tries++) {
      if (this.#left) throw new Stopped();
      let pause = BACKOFF[Math.min(tries, BACKOFF.length - 1)];
      let waiting = "server";
      try {
        const response = await this.#with.fetch(path, options);
        const { status } = response;
        if (status < 500 && !TRANSIENT.includes(status)) {
          const bytes = new Uint8Array(await response.arrayBuffer());
          if (status === 200 && !(await isFit(isRight, bytes))) throw new Error("something answered in the server's place");
          if (this.#left) throw new Stopped();
          if (this.state.waiting) this.#become(this.state.name, { ...this.state, waiting: null });
          return { status, bytes };
        }
        const asked = Number(response.headers.get("Retry-After"));
        if (asked > 0) pause = Math.min(asked, LONGEST);
      } catch (error) {
        if (error instanceof Stopped || error instanceof Refused) throw error;
        if (!this.#with.online()) waiting = "offline";
      }
      if ("waiting" in this.state && this.state.waiting !== waiting) this.#become(this.state.name, { ...this.state, waiting });
      await this.#with.sleep(1000 * pause);
    }
  }

  #stored() {
    return this.#with.storage.getItem(this.#name);
  }

  /** What is stored of this survey and place; null if nothing is. */
  #record() {
    const stored = this.#stored();
    if (stored === null) return null;
    try {
      const record = JSON.parse(stored);
      fromHex(record.body);
      return record;
    } catch {
      throw new Refused("storage");
    }
  }

  /** Store a record; nothing is sent unless it is there then. */
  #write(record) {
    const text = JSON.stringify(record);
    try {
      this.#with.storage.setItem(this.#name, text);
    } catch {
      throw new Refused("storage");
    }
    if (this.#stored() !== text) throw new Refused("storage");
  }

  /** Add what a draw may tell to the purse, once. */
  #charge({ declined, drawn }) {
    if (declined) return;
    const purse = this.purse();
    if (purse.some((entry) => this.#isOwn(entry) && entry.attempt === drawn)) return;
    const { survey, party: place } = this.#invited;
    purse.push({ survey: hex(survey), place, attempt: drawn, epsilon: this.agreement.protocol.epsilon, date: this.#with.today() });
    try {
      this.#with.storage.setItem(PURSE, JSON.stringify(purse));
    } catch {
      // The report is stored all the same.
    }
  }
}
