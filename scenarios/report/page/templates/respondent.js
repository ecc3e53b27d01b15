// The page of a respondent: takes a receipt and a checkpoint, and says what holds.

import { hex, text } from "./bytes.js";
import { parseCheckpoint } from "./notes.js";
import { MAGIC, parseReceipt, problemsOf, wordOf } from "./receipts.js";

const words = JSON.parse(document.getElementById("words").textContent);
const answer = document.getElementById("answer");
const known = document.getElementById("key");
const inputs = { receipt: document.getElementById("receipt"), checkpoint: document.getElementById("checkpoint") };
const files = {};

function element(name, content, ...inside) {
  const made = document.createElement(name);
  made.append(...[content, ...inside].flat());
  return made;
}

const code = (bytes) => {
  const made = element("code", hex(bytes));
  made.className = "code";
  return made;
};
const list = (items) => element("ul", items.map((item) => element("li", item)));

function show(tone, title, ...inside) {
  answer.className = `verdict ${tone}`;
  answer.replaceChildren(element("h2", title), ...inside);
  answer.hidden = false;
}

/** The parts of a sentence, with its gaps filled. */
const filled = (sentence, values) => sentence.split(/\{(\w+)\}/).map((part, i) => (i % 2 ? values[part] : part));

const isReceipt = (bytes) => MAGIC.every((byte, i) => bytes[i] === byte);

/** Whether this browser has Ed25519. */
async function canVerify() {
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32).fill(1), { name: "Ed25519" }, false, ["verify"]);
    return true;
  } catch (error) {
    return error.name === "DataError";
  }
}

const topicOf = ({ closed: [kind, round] }) => (round === -1 ? kind : filled(words.round, { kind, round }).join(""));

const TONES = { counted: "yes", late: "no", "not yet known": "open" };

function sayHolds(receipt, checkpoint) {
  const word = wordOf(receipt);
  const { party, waiting, reports } = receipt;
  const topics = (some) => some.map(topicOf).join("; ");
  const late = reports.filter(({ before }) => before);
  const counted = reports.filter(({ before }) => !before);
  const { shows, not } = words;
  show(
    TONES[word],
    words.answers[word],
    element("p", words.meanings[word]),
    element("h3", shows.title),
    list([
      shows.holds,
      ...(counted.length ? [filled(shows.counted, { party, reports: topics(counted) })] : []),
      ...(late.length ? [filled(shows.late, { party, reports: topics(late) })] : []),
      ...(receipt.last ? [filled(shows.last, { party })] : []),
      receipt.head ? filled(shows.signed, { key: code(receipt.key) }) : shows.unsigned,
      filled(shows.checkpoint, { size: checkpoint.size }),
      known.value.trim() === "" ? filled(shows.key, { key: code(checkpoint.key) }) : shows.given,
    ]),
    element("h3", not.title),
    list([
      ...(BigInt(waiting) > 0n ? [filled(not.waiting, { waiting })] : []),
      ...(late.length ? [not.late] : []),
      not.result,
      not.checkpoint,
    ]),
    element("p", filled(words.session, { session: code(checkpoint.session) })),
  );
}

async function check() {
  const missing = Object.keys(inputs).filter((name) => !(name in files));
  if (missing.length) {
    show("open", missing.length === 2 ? words.waiting : words.now[missing[0]]);
    return;
  }
  if (!(await canVerify())) {
    show("no", words.browser, element("p", words.newer));
    return;
  }
  let receipt, checkpoint;
  try {
    receipt = parseReceipt(files.receipt);
    checkpoint = parseCheckpoint(text(files.checkpoint));
  } catch {
    const which = receipt ? "checkpoint" : "receipt";
    show("no", words.wrong[which], element("p", words.damaged[which]));
    return;
  }
  const problems = await problemsOf(receipt, checkpoint);
  const key = known.value.trim().toLowerCase();
  if (key !== "" && key !== hex(checkpoint.key)) problems.push(words.another);
  if (problems.length === 0) sayHolds(receipt, checkpoint);
  else show("no", words.refused, element("p", words.nothing), list(problems));
}

async function take(given, name) {
  if (name && given.length === 0) delete files[name];
  for (const file of given) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    files[name ?? (isReceipt(bytes) ? "receipt" : "checkpoint")] = bytes;
  }
  await check();
}

for (const [name, input] of Object.entries(inputs)) {
  input.addEventListener("change", () => take(input.files, name));
}
known.addEventListener("change", check);
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  return take(event.dataTransfer.files);
});
