// The page of a respondent who answers: questions in words, what leaves the phone, one report, a receipt.

import { hex, utf8 } from "./bytes.js";
import { Visit } from "./visit.js";
import { chosen, directionOf, filled, isAlike, localeOf, own, WORDS } from "./languages.js";

const PEOPLE = 20;
const BEFORE = 20; // of 100
const MANY = 12; // categories, above which a list is shown in the place of radio buttons
const LINK = "sottovoce link";
const PROBLEMS = [
  [/signed by the key/, "signature"],
  [/session|another survey|somebody else|the aggregator/, "session"],
  [/log of|on record|hold the closing/, "record"],
  [/signed head|party's head|another report/, "head"],
];
const REASONS = { malformed: "unexpected", checkpoint: "place", attempt: "survey" };
const ONE = ["smp", "privkv"]; // variants whose reports are on one question

const root = document.documentElement;
const [main] = document.getElementsByTagName("main");
const [head, status, page] = main.children;

let visit, words, language;
let codes = [];

function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  made.append(...[content].flat().filter((part) => part !== null && part !== ""));
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  return made;
}

const paragraph = (text, kind = null) => element("p", text, { class: kind });
const alert = (text) => element("p", text, { role: "alert" });
const row = (...parts) => element("div", parts, { class: "row" });
const pair = (name, value) => element("div", [element("dt", name), value]);
const button = (text, kind, pressed) => {
  const made = element("button", text, { type: "button", class: kind });
  made.addEventListener("click", pressed);
  return made;
};
const number = (value, digits = 0) => new Intl.NumberFormat(localeOf(language), { maximumFractionDigits: digits }).format(value);

/** An element with words of the survey, which may be in another language than the page's own. */
function said(name, text, attributes = {}) {
  const foreign = survey().texts.length ? { lang: language, dir: directionOf(language) } : { dir: "auto" };
  return element(name, text, { ...attributes, ...(foreign.lang && isAlike(language, root.lang) ? {} : foreign) });
}

const survey = () => ({ title: "", attributes: [], texts: [], ...visit.agreement?.survey });
const languages = () => (survey().texts.length ? survey().texts.map((each) => each.language) : Object.keys(WORDS));
const text = () => ({ questions: [], groups: [], ...survey().texts.find((each) => each.language === language) });
const title = () => text().title || survey().title;

/** The words of an attribute: `ask`, `help`, and a label for each category. */
function wordingOf(place) {
  const { name, categories, missing } = survey().attributes[place];
  const { ask, help, labels } = text().questions.find((each) => each.attribute === name) ?? {};
  const named = () => categories.map((category, code) => (code === 0 && category === missing && visit.agreement.variant === "privkv" ? words.missing : category));
  return { ask: ask || name, help: help || "", labels: labels?.length ? labels : named() };
}

/** The questions as they are shown: `{ places, group }`; a group's are shown as boxes under one heading. */
function questions() {
  const { attributes } = survey();
  const grouped = new Map(text().groups.map((group) => [group.attributes[0], group]));
  const shown = [];
  for (let place = 0; place < attributes.length; place += shown.at(-1).places.length) {
    const group = grouped.get(attributes[place].name) ?? null;
    shown.push({ group, places: Array.from({ length: group?.attributes.length ?? 1 }, (_, i) => place + i) });
  }
  return shown;
}

function dots(kept) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 400 20");
  svg.setAttribute("aria-hidden", "true");
  for (let i = 0; i < PEOPLE; i++) {
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    for (const [key, value] of Object.entries({ cx: 10 + 20 * i, cy: 10, r: 7, class: i < kept ? "kept" : "lot" })) dot.setAttribute(key, value);
    svg.append(dot);
  }
  return svg;
}

/** A row of dots and what it says, after what it is about. */
function lot(share, about, usual) {
  const kept = Math.max(1, Math.round(PEOPLE * share));
  const values = { people: number(PEOPLE), kept: number(kept), other: number(PEOPLE - kept) };
  const isSure = kept === PEOPLE || visit.agreement.protocol.epsilon === Infinity;
  const sentences = [kept === PEOPLE ? words.keptAll : filled(usual, values), isSure ? "" : words.nobody];
  return [dots(kept), paragraph([about, ...sentences].filter(Boolean).join(" "), "soft")];
}

const isWithin = ({ attributes }, { places }) => attributes.every((place) => places.includes(place));

/** What blocks tell, each share once. */
function lots(blocks, group = null) {
  const kinds = new Map(blocks.map((block) => [`${block.share} ${block.attributes.length > 1}`, block]));
  const aboutOf = ({ length }) => (length > 1 ? words.together : group && words.each);
  const isAsItIs = visit.agreement.variant.startsWith("rr-");
  const usual = isOnOne() ? words.keptOne : isAsItIs ? words.kept : words.keptOther;
  return [...kinds.values()].flatMap(({ attributes, share }) => lot(share, aboutOf(attributes), usual));
}

/** What is told of a question, or of a group of boxes, by itself. */
const toldAfter = (asked) => lots(visit.agreement.protocol.told.filter((block) => isWithin(block, asked)), asked.group);

/** What is told of several questions together. */
const toldOfSeveral = (asked) => lots(visit.agreement.protocol.told.filter((block) => !asked.some((each) => isWithin(block, each))));

const isOnOne = () => ONE.includes(visit.agreement.variant) && survey().attributes.length > 1;
const isOnPart = () => visit.agreement.variant.startsWith("marg-");

/** What somebody who thought 20 of 100 likely may think after it, at worst. */
function worst(epsilon) {
  const odds = (BEFORE / (100 - BEFORE)) * Math.exp(epsilon);
  const after = odds === Infinity ? 100 : Math.ceil((100 * odds) / (1 + odds) - 1e-9);
  const [most, end] = after > 99 ? [filled(words.more, { number: number(99) }), "."] : [number(after), words.never];
  return filled(words.worst, { before: number(BEFORE), all: number(100), after: most }) + end;
}

function languageSwitch() {
  const there = languages();
  if (there.length < 2) return null;
  const buttons = there.map((tag) => {
    const name = new Intl.DisplayNames(localeOf(tag), { type: "language" }).of(String(localeOf(tag)));
    const made = button(name, "quiet", () => {
      speak(tag);
      render();
      head.querySelector(`[lang="${tag}"]`).focus();
    });
    made.lang = tag;
    made.dir = directionOf(tag);
    made.setAttribute("aria-pressed", String(tag === language));
    return made;
  });
  return element("nav", buttons, { "aria-label": words.language });
}

function about() {
  const { asks, consent, contact } = text();
  const { closes } = survey();
  const rows = [];
  if (asks) rows.push(pair(words.asks, said("dd", asks)));
  if (closes) {
    const region = navigator.languages.find((tag) => isAlike(tag, language)) ?? language;
    const form = new Intl.DateTimeFormat(localeOf(region), { dateStyle: "full", timeStyle: "short" });
    rows.push(pair(words.closes, element("dd", element("time", form.format(new Date(closes)), { datetime: closes }))));
  }
  if (contact) rows.push(pair(words.contact, said("dd", contact)));
  return [rows.length ? element("dl", rows) : null, ...(consent ? [element("h2", words.consent), said("p", consent, { class: "lines" })] : [])];
}

/** Whom to turn to, if the survey says it. */
function contact() {
  const { contact: whom } = text();
  return whom ? element("dl", pair(words.contact, said("dd", whom))) : null;
}

function experts() {
  const { id, protocol, terms, aggregator } = visit.agreement;
  const coded = (name, value) => pair(name, element("dd", element("code", value, { dir: "ltr" })));
  const entries = visit.purse().map(({ date, epsilon, survey: id }) => element("li", element("code", `${date} \u00b7 ${id.slice(0, 16)} \u00b7 \u03b5 ${number(epsilon, 3)}`, { dir: "ltr" })));
  return element("details", [
    element("summary", words.experts),
    element("dl", [coded(words.epsilon, number(protocol.epsilon, 6)), coded(words.survey, hex(id)), coded(words.terms, hex(terms)), coded(words.aggregator, hex(aggregator))]),
    entries.length ? element("details", [element("summary", words.purse), element("ul", entries)]) : null,
  ]);
}

function file(name, content, label) {
  const href = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  return element("a", label, { download: name, class: "button", href });
}

function receipt(kept, meaning = words.receiptMeans) {
  if (!kept?.receipt) return [];
  const name = visit.party;
  const links = [file(`${name}.receipt`, kept.receipt, words.saveReceipt), file(`${name}.checkpoint`, utf8(kept.note), words.saveNote)];
  return [element("h2", words.receipt), paragraph(meaning), row(...links)];
}

/** A receipt that does not hold, and each reason once. */
function evidence({ problems = [], wrong }) {
  const kinds = problems.map((problem) => PROBLEMS.find(([pattern]) => pattern.test(problem))?.[1] ?? "other");
  return wrong ? [element("ul", [...new Set(kinds)].map((kind) => element("li", words.problems[kind]))), ...receipt(wrong, words.receiptEvidence)] : [];
}

/** Ask before what cannot be taken back. */
function confirmed(question, meaning, yes) {
  return new Promise((answered) => {
    const dialog = element("dialog", [element("h2", question, { id: "asked" }), paragraph(meaning)], { "aria-labelledby": "asked" });
    const close = (choice) => () => {
      dialog.returnValue = choice;
      dialog.close();
    };
    const back = button(words.back, "", close(""));
    back.autofocus = true;
    dialog.append(row(back, button(yes, "grave", close("yes"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      answered(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

const forget = () =>
  button(words.forget, "quiet", async () => {
    const asked = visit;
    if (!(await confirmed(words.forget, words.forgetMeans, words.forgetYes)) || asked !== visit) return;
    keepLink("");
    visit.forget();
  });

const decline = () =>
  button(words.decline, "quiet", async () => {
    const asked = visit;
    if (!(await confirmed(words.decline, words.declineMeans, words.declineYes)) || asked !== visit) return;
    clear();
    await visit.decline();
  });

function input(type, place, code, more = {}) {
  const made = element("input", [], { type, name: `q${place}`, value: code, ...more });
  made.checked = codes[place] === code;
  made.addEventListener("change", () => (codes[place] = made.checked ? code : 0));
  return made;
}

function list(place, labels, name) {
  const options = [element("option", "\u2026", { value: "" }), ...labels.map((label, code) => said("option", label, { value: code }))];
  const select = element("select", options, { name, "aria-labelledby": `${name}-ask` });
  select.value = String(codes[place] ?? "");
  select.addEventListener("change", () => (codes[place] = select.value === "" ? undefined : Number(select.value)));
  return select;
}

function box(place) {
  const { ask, help } = wordingOf(place);
  const id = help ? `q${place}-help` : null;
  return [element("label", [input("checkbox", place, 1, { "aria-describedby": id }), said("span", ask)]), help ? said("p", help, { id, class: "soft lines" }) : null];
}

function question(asked) {
  const { group, places } = asked;
  const [place] = places;
  const name = group ? `g${place}` : `q${place}`;
  const { ask, help, labels } = group ? { ask: group.ask, help: group.help ?? "", labels: [] } : wordingOf(place);
  const options = group ? places.flatMap(box) : labels.length > MANY ? [list(place, labels, name)] : labels.map((label, code) => element("label", [input("radio", place, code), said("span", label)]));
  return element(
    "fieldset",
    [
      said("legend", ask, { id: `${name}-ask` }),
      help ? said("p", help, { class: "soft lines", id: `${name}-help` }) : null,
      paragraph("", "problem"),
      ...options,
      element("div", toldAfter(asked), { id: `${name}-told`, class: "told" }),
    ],
    { "aria-describedby": [help && `${name}-help`, `${name}-told`].filter(Boolean).join(" "), "data-place": place },
  );
}

function form({ earlier }) {
  const { epsilon } = visit.agreement.protocol;
  const asked = questions();
  const problem = element("p", [], { role: "alert", class: "problem" });
  const made = element("form", asked.map(question), { novalidate: "", autocomplete: "off" });
  made.append(
    element(
      "section",
      [
        element("h2", words.before, { id: "before" }),
        isOnOne() ? paragraph(words.one) : null,
        isOnPart() ? paragraph(words.some) : null,
        element("div", toldOfSeveral(asked), { class: "told" }),
        paragraph(worst(epsilon), "worst"),
        ...(earlier ? [paragraph(words.earlier), paragraph(worst((1 + earlier) * epsilon), "worst")] : []),
        paragraph(words.device, "care"),
        paragraph(filled(words.name, { place: `\u2068${visit.party}\u2069` })),
      ],
      { "aria-labelledby": "before" },
    ),
    problem,
    row(element("button", words.send, { type: "submit" }), decline()),
  );
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const open = asked.filter(({ group, places }) => !group && codes[places[0]] === undefined);
    for (const set of made.querySelectorAll("fieldset")) {
      const isOpen = open.some(({ places }) => String(places[0]) === set.dataset.place);
      set.classList.toggle("open", isOpen);
      set.querySelector(".problem").replaceChildren(...(isOpen ? [words.open] : []));
    }
    if (open.length) {
      problem.replaceChildren(filled(words.unanswered, { open: number(open.length) }));
      made.querySelector("fieldset.open :is(input, select)").focus();
      return;
    }
    visit.send(survey().attributes.map((_, place) => codes[place] ?? 0));
    clear();
  });
  return made;
}

/** Leave nothing of the answers on the page. */
function clear() {
  codes = [];
  for (const each of document.forms) each.reset();
}

/** The label of a code; a box without one is ticked or not. */
function labelled(place, code) {
  const { name } = survey().attributes[place];
  const isBox = text().groups.some(({ attributes }) => attributes.includes(name)) && !text().questions.find(({ attribute }) => attribute === name)?.labels;
  return isBox ? [words.unticked, words.ticked][code] : said("span", wordingOf(place).labels[code]);
}

function sentItem({ attributes, kind, value }) {
  const asks = attributes.map((place) => said("span", wordingOf(place).ask));
  const item = (about, what) => element("li", [...about, " ", element("strong", what)]);
  const apart = (parts) => parts.flatMap((part, i) => (i ? [" \u00b7 ", part] : [part]));
  if (kind === "answers" || kind === "fake") return attributes.map((place, i) => item([asks[i]], labelled(place, value[i])));
  const ticks = () => (value.length ? apart(value.map((code) => labelled(attributes[0], code))) : words.ticksNone);
  const hidden = () => filled(words.hidden, { number: number(value.length ?? value) });
  return [item(apart(asks), kind === "nothing" ? words.nothing : kind === "ticks" && attributes.length === 1 ? ticks() : hidden())];
}

function countedWords({ name, declined, counted }) {
  const known = ["denied", "wrong", ...(declined ? [] : ["counted", "late"]), ...(declined || name === "elsewhere" ? [] : ["not yet known", null])];
  return known.includes(counted) ? words.counted[counted ?? "unknown"] : "";
}

/** By state its heading, what stands below it, and what is read out. */
const STATES = {
  opening: ({ waiting }) => [words.opening, receipt(visit.stored()), words[waiting] ?? ""],
  asking: (state) => [title(), [...about(), form(state), experts()], ""],
  again: () => {
    const repeat = button(words.againSend, "", () => visit.repeat());
    return [words.again, [...about(), paragraph(words.againThis), paragraph(words.device, "care"), row(repeat, decline()), experts()], ""];
  },
  sending: ({ waiting, isStored }) => [words.sending, [], [words[waiting], isStored && words.stored].filter(Boolean).join(" ")],
  sent: (state) => {
    const { shown, declined } = state;
    const told = declined ? [paragraph(words.declinedThis)] : [element("h2", words.sentThis), paragraph(words.lot), element("ul", shown.flatMap(sentItem), { class: "sent" })];
    return [
      declined ? words.declined : words.sent,
      [...told, ...receipt(state), ...evidence(state), row(forget()), experts()],
      countedWords(state),
    ];
  },
  elsewhere: (state) => {
    const why = filled(state.conflict ? words.conflict : words.elsewhereThis, { ask: words.newLink });
    return [words.elsewhere, [alert(why), contact(), ...receipt(state), ...evidence(state), visit.stored() && row(forget()), experts()], countedWords(state)];
  },
  closed: ({ unsent }) => {
    const kept = visit.stored();
    return [words.closed, [alert(unsent ? words.closedUnsent : words.closedThis), contact(), ...receipt(kept), kept && row(forget())], ""];
  },
  refused: (state) => {
    const { reason, problems } = state;
    if (problems) return [words.refusedReceipt, [alert(words.refusedReceiptThis), ...evidence(state), row(forget())], ""];
    const why = words.reasons[REASONS[reason] ?? reason] ?? (visit.mayHaveSent ? words.reasons.server : words.reasons.unexpected);
    const kept = visit.stored();
    return [words.refused, [alert(visit.mayHaveSent ? why : `${why} ${words.nothingSent}`), ...receipt(kept), kept?.receipt && row(forget())], ""];
  },
  forgotten: () => [words.forgotten, [paragraph(words.forgottenThis)], ""],
};

/** Take up a language. */
function speak(tag) {
  language = tag;
  root.lang = own(tag, navigator.languages);
  root.dir = directionOf(root.lang);
  words = WORDS[root.lang];
}

let shownState = null;
let shownHead = "";

/** Show the state. Focus goes to the heading of a new one, and stays where it is within one. */
function render() {
  const { state } = visit;
  const isNew = shownState !== state.name;
  if (isNew && visit.agreement && !languages().includes(language)) speak(chosen(navigator.languages, languages()));
  const [heading, parts, aloud] = STATES[state.name](state);
  shownState = state.name;
  const inside = () => [...main.querySelectorAll("a, button, input, select, summary")];
  const focused = inside().indexOf(document.activeElement);
  const h1 = element("h1", heading, { tabindex: "-1" });
  const above = title() && heading !== title() ? said("p", title(), { class: "soft" }) : null;
  if (isNew || shownHead !== language) head.replaceChildren(...[visit.agreement && languageSwitch(), above, h1].filter(Boolean));
  shownHead = language;
  page.replaceChildren(...parts.filter(Boolean));
  status.replaceChildren(aloud);
  document.title = [heading, ...(above ? [title()] : [])].join(" \u00b7 ");
  if (isNew) h1.focus();
  else if (focused >= 0) inside()[focused]?.focus();
}

function keepLink(link) {
  try {
    if (link) sessionStorage.setItem(LINK, link);
    else sessionStorage.removeItem(LINK);
  } catch {
    // Without it, a reload needs the link again.
  }
}

function keptLink() {
  try {
    return sessionStorage.getItem(LINK) ?? "";
  } catch {
    return "";
  }
}

/** Take the link out of the address bar and the history, and open it. */
function start() {
  const fragment = location.hash.slice(1);
  if (fragment) history.replaceState(null, "", location.pathname + location.search);
  if (fragment) keepLink(fragment);
  visit?.stop();
  clear();
  for (const dialog of document.querySelectorAll("dialog")) dialog.close("");
  shownState = null;
  visit = new Visit({ changed: render });
  render();
  return visit.open(fragment || keptLink());
}

speak(chosen(navigator.languages, Object.keys(WORDS)));
addEventListener("pagehide", clear);
addEventListener("hashchange", () => location.hash && start());
start();
