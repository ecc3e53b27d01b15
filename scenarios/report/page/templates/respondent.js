// The page of a respondent: takes a receipt and a checkpoint, and says what holds.

import { hex, text } from "./bytes.js";
import { parseCheckpoint } from "./notes.js";
import { MAGIC, parseReceipt, problemsOf } from "./receipts.js";

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

function sayHolds(receipt, checkpoint) {
  const topics = receipt.reports.map(topicOf).join("; ");
  const counted = receipt.reports.length > 0;
  const signed = receipt.head
    ? ["What it said is signed with its own key ", code(receipt.key), ". Your device can tell you whether that is yours."]
    : "What it said is not signed with its own key. Whoever keeps the record could have written it.";
  show(
    "yes",
    "The receipt holds",
    element("p", counted ? `The report of ${receipt.party} was counted.` : `All that ${receipt.party} said is on record.`),
    element("h3", "What this shows"),
    list([
      counted
        ? `In the survey's record, these messages of ${receipt.party} were counted: ${topics}.`
        : `The survey's record has the end of what ${receipt.party} said, which covers all of it.`,
      signed,
      `The checkpoint is over the first ${checkpoint.size} entries of the record. None of them can be changed or taken out without another checkpoint.`,
      known.value.trim() === ""
        ? ["The checkpoint is signed with the key ", code(checkpoint.key), ". Compare it with the aggregator's key."]
        : "The checkpoint is signed with the aggregator's key that you gave.",
    ]),
    element("h3", "What this does not show"),
    list([
      ...(counted ? [] : ["That a report was counted: it may not have been at the time of this receipt."]),
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
