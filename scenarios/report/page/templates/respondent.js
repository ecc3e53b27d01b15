// The page of a respondent: takes a receipt and a checkpoint, and says what holds.

import { hex, text } from "./bytes.js";
import { parseCheckpoint } from "./notes.js";
import { MAGIC, parseReceipt, problemsOf, wordOf } from "./receipts.js";

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

const topicOf = ({ closed: [kind, round] }) => (round === -1 ? kind : `${kind}, round ${round}`);

const ANSWERS = {
  counted: ["yes", "Yes: it was counted", "All that you reported was counted, as far as this receipt goes."],
  late: ["no", "No: it came too late", "The wait for a report of yours was over before it came, so that report was not counted. It is on record, and stays charged."],
  "not yet known": ["open", "Not yet known", "Your words are on record. When this receipt was made, the survey had not yet closed the wait for them, so it could not say who is counted. The record that is published later will show it."],
};

function sayHolds(receipt, checkpoint) {
  const [tone, title, meaning] = ANSWERS[wordOf(receipt)];
  const topics = (reports) => reports.map(topicOf).join("; ");
  const late = receipt.reports.filter(({ before }) => before);
  const counted = receipt.reports.filter(({ before }) => !before);
  const signed = receipt.head
    ? ["What it said is signed with its own key ", code(receipt.key), ". Your device can tell you whether that is yours."]
    : "What it said is not signed with its own key. Whoever keeps the record could have written it.";
  show(
    tone,
    title,
    element("p", meaning),
    element("h3", "What this shows"),
    list([
      "The receipt holds.",
      ...(counted.length ? [`In the survey's record, these messages of ${receipt.party} were counted: ${topics(counted)}.`] : []),
      ...(late.length ? [`In the survey's record, these messages of ${receipt.party} came after the wait for them was over: ${topics(late)}. A checkpoint from before they came shows that.`] : []),
      ...(receipt.last ? [`The record contains ${receipt.party}'s signed summary of everything it sent.`] : []),
      signed,
      `The checkpoint is over the first ${checkpoint.size} entries of the record. None of them can be changed or taken out without another checkpoint.`,
      known.value.trim() === ""
        ? ["The checkpoint is signed with the key ", code(checkpoint.key), ". Compare it with the aggregator's key."]
        : "The checkpoint is signed with the aggregator's key that you gave.",
    ]),
    element("h3", "What this does not show"),
    list([
      ...(BigInt(receipt.waiting) > 0n ? [`Whether ${receipt.waiting} more of its reports were counted.`] : []),
      ...(late.length ? ["When your message left your device: an aggregator that did not take it in for a while could call it late."] : []),
      "That a result was published, and that it follows from what was counted. Whoever has the whole record can check that.",
      "That this checkpoint is the one which others have. Take it from where the survey publishes it.",
    ]),
    element("p", "Survey session: ", code(checkpoint.session)),
  );
}

async function check() {
  const missing = Object.keys(inputs).filter((name) => !(name in files));
  if (missing.length) {
    show("open", missing.length === 2 ? "Waiting for your files" : `Now the ${missing[0]}`);
    return;
  }
  if (!(await canVerify())) {
    show("no", "This browser cannot check signatures", element("p", "It has no Ed25519. A newer browser has."));
    return;
  }
  let receipt, checkpoint;
  try {
    receipt = parseReceipt(files.receipt);
    checkpoint = parseCheckpoint(text(files.checkpoint));
  } catch {
    const which = receipt ? "checkpoint" : "receipt";
    show("no", `This is not a ${which}`, element("p", `The file that you gave as the ${which} is damaged, or something else.`));
    return;
  }
  const problems = await problemsOf(receipt, checkpoint);
  const key = known.value.trim().toLowerCase();
  if (key !== "" && key !== hex(checkpoint.key)) problems.push("the checkpoint is signed with another key than the aggregator's");
  if (problems.length === 0) sayHolds(receipt, checkpoint);
  else show("no", "The receipt does not hold", element("p", "It shows nothing:"), list(problems));
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
