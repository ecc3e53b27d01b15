// Variants whose parties send one report: what is asked, what is answered, and what an answer tells.

import { utf8 } from "./bytes.js";
import { must, sumOf, Unfit } from "./exact.js";
import { decode, encode, Float } from "./msgpack.js";
import {
  drawEach, evenly, FakeData, isOdd, KeepUniform, oracle, PrivKV, readRandomizer, ticks, uniform,
} from "./randomizers.js";
import { sha256 } from "./sha256.js";

// The order in which fields of a survey are hashed; one list will do for all of them.
const FIELDS = [
  "language", "title", "asks", "consent", "contact", "questions", "groups", "name", "categories", "ordinal", "missing", "attribute",
  "attributes", "texts", "closes", "ask", "help", "labels",
];
const EVERY = ["quorum", "patience", "max_records"]; // parameters that change nothing about an answer
const NO_ROUND = -1;

function inOrder(value) {
  if (Array.isArray(value)) return value.map(inOrder);
  if (!(value instanceof Map)) return value;
  for (const name of value.keys()) must(FIELDS.includes(name), `a survey's unknown field ${name}`);
  return new Map(FIELDS.filter((name) => value.has(name)).map((name) => [name, inOrder(value.get(name))]));
}

/** What two sides compare to be sure that they mean the same survey. */
export const digestOf = (survey) => sha256(utf8("sottovoce survey 1\0"), encode(inOrder(survey), false));

const product = (numbers) => numbers.reduce((all, number) => all * number, 1n);
const joined = (codes, sizes) => codes.reduce((cell, code, i) => cell * sizes[i] + code, 0n);

/** The codes of a cell of a product of sizes, the last of which changes fastest. */
function split(cell, sizes) {
  const codes = sizes.map(() => 0);
  for (let i = sizes.length - 1; i >= 0; cell /= sizes[i--]) codes[i] = Number(cell % sizes[i]);
  return codes;
}

const widthOf = (bound) => [1, 2, 4, 8].find((octets) => bound <= 1n << BigInt(8 * octets));
const largest = (bounds) => bounds.reduce((a, b) => (a > b ? a : b));

/** An array as messages carry it: a row, or with `shape` another one. */
function array(numbers, bound, shape = [1, numbers.length]) {
  const width = widthOf(bound);
  const content = new Uint8Array(width * numbers.length);
  numbers.forEach((number, i) => {
    for (let at = 0; at < width; at++) content[width * i + at] = Number((number >> BigInt(8 * at)) & 255n);
  });
  return [`u${width}`, shape, content];
}

function numbersIn([dtype, , content]) {
  const width = Number(dtype.slice(1));
  return Array.from({ length: content.length / width }, (_, i) =>
    content.subarray(width * i, width * (i + 1)).reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n));
}

const fieldsOf = (body) => decode(body, { sorted: false });

/** What a report of one randomizer is to people. */
function shownOf(randomizer, columns, attributes, sizes) {
  const { kind, size } = randomizer;
  if (kind === "answers") return { attributes, kind, value: split(columns[0], sizes) };
  return { attributes, kind, value: kind === "ticks" ? ticks(columns, size) : Number(columns[0]) };
}

function float(value) {
  must(value instanceof Float || typeof value === "number", "expected a number");
  return value instanceof Float ? value.value : value;
}

/** A survey's names and sizes, and what of its parameters a variant takes. */
class Agreed {
  constructor({ survey, parameters }, ...own) {
    const attributes = survey.get("attributes");
    this.attributes = attributes;
    this.names = attributes.map((attribute) => attribute.get("name"));
    this.sizes = attributes.map((attribute) => BigInt(attribute.get("categories").length));
    this.places = this.names.map((_, place) => place);
    this.request = { kind: "Request", body: encode([digestOf(survey)]) };
    must(this.names.length > 0 && new Set(this.names).size === this.names.length, "no attribute, or one twice");
    must(this.sizes.every((size) => size >= 2n), "an attribute of fewer than 2 categories");
    for (const name of parameters.keys()) must(EVERY.includes(name) || own.includes(name), `an unknown parameter ${name}`);
    for (const name of own) must(parameters.has(name), `no parameter ${name}`);
    this.parameters = Object.fromEntries(parameters);
    this.survey = survey;
  }

  get epsilon() {
    return float(this.parameters.epsilon);
  }
}

// --- blocks of attributes, each randomized by one randomizer of codes

function blockwise(agreed, blocks) {
  const { survey, names, sizes } = agreed;
  const named = blocks.flatMap(({ attributes }) => attributes);
  must(named.length === names.length && names.every((name) => named.includes(name)), "blocks of other attributes");
  const places = blocks.map(({ attributes }) => attributes.map((name) => names.indexOf(name)));
  const shapes = places.map((each) => each.map((place) => sizes[place]));
  const randomizers = blocks.map(({ randomizer }) => randomizer);
  must(randomizers.every(({ size }, i) => size === product(shapes[i])), "a randomizer of another size than its block");
  const spoken = blocks.map(({ attributes, as }) => new Map([["attributes", attributes], ["randomizer", as]]));
  const most = largest(randomizers.map(({ size }) => size));
  return {
    question: { kind: "Ask", body: encode([digestOf(survey), spoken], false) },
    kind: "Report",
    draw(codes, words) {
      const cells = places.map((each, i) => joined(each.map((place) => codes[place]), shapes[i]));
      return encode([array(drawEach(randomizers, cells, words), most)]);
    },
    shown: (body) => numbersIn(fieldsOf(body)[0]).map((cell, i) => shownOf(randomizers[i], [cell], places[i], shapes[i])),
    told: places.map((attributes, i) => ({ attributes, share: randomizers[i].told })),
    epsilon: randomizers.some(({ epsilon }) => epsilon === Infinity) ? Infinity : sumOf(randomizers.map(({ epsilon }) => epsilon)),
  };
}

function block(attributes, [randomizer, as]) {
  return { attributes, randomizer, as };
}

/** An integer as msgpack's is decoded: a BigInt only where a number would not be exact. */
const spelled = (number) => (Number.isSafeInteger(Number(number)) ? Number(number) : number);

function kept(randomizer) {
  const { size, threshold } = randomizer;
  return [randomizer, new Map([["type", "keep"], ["size", spelled(size)], ["threshold", spelled(threshold)]])];
}

function rrIndependent(terms) {
  const agreed = new Agreed(terms, "randomizers");
  const { randomizers } = agreed.parameters;
  must(randomizers.length === agreed.names.length, "not a randomizer for each attribute");
  return blockwise(agreed, agreed.names.map((name, i) => block([name], readRandomizer(randomizers[i]))));
}

function rrJoint(terms) {
  const agreed = new Agreed(terms, "randomizer");
  return blockwise(agreed, [block(agreed.names, readRandomizer(agreed.parameters.randomizer))]);
}

function rrIndJoint(terms) {
  const agreed = new Agreed(terms, "p", "clusters");
  const p = float(agreed.parameters.p);
  const { clusters } = agreed.parameters;
  const parts = clusters.length ? clusters : agreed.names.map((name) => [name]);
  return blockwise(agreed, parts.map((names) => {
    const sizes = names.map((name) => agreed.sizes[agreed.names.indexOf(name)]);
    must(sizes.length > 0 && sizes.every(Boolean), "a cluster of other attributes");
    const alone = sizes.map((size) => KeepUniform.withKeep(size, p));
    const matched = () => KeepUniform.withEpsilon(product(sizes), sumOf(alone.map(({ epsilon }) => epsilon)));
    return block(names, kept(alone.length === 1 ? alone[0] : matched()));
  }));
}

// --- reports on attributes apart

function onEvery(agreed, randomizers) {
  const { request, sizes } = agreed;
  const widths = randomizers.map(({ bounds }) => bounds.length);
  const most = largest(randomizers.flatMap(({ bounds }) => bounds));
  return {
    question: request,
    kind: "AttributeReports",
    draw: (codes, words) => encode([array(randomizers.flatMap((one, i) => one.draw(codes[i], words)), most)]),
    shown(body) {
      const columns = numbersIn(fieldsOf(body)[0]);
      return randomizers.map((one, i) => shownOf(one, columns.splice(0, widths[i]), [i], [sizes[i]]));
    },
    told: randomizers.map(({ told }, i) => ({ attributes: [i], share: told })),
    epsilon: sumOf(randomizers.map(({ epsilon }) => epsilon)),
  };
}

function spl(terms) {
  const agreed = new Agreed(terms, "epsilon", "oracle");
  return onEvery(agreed, evenly(agreed.sizes, agreed.epsilon, oracle(agreed.parameters.oracle)));
}

function smp(terms) {
  const agreed = new Agreed(terms, "epsilon", "oracle");
  const { request, sizes, places } = agreed;
  const make = oracle(agreed.parameters.oracle);
  const randomizers = sizes.map((size) => make(size, agreed.epsilon));
  const most = largest(randomizers.flatMap(({ bounds }) => bounds));
  const columns = Math.max(...randomizers.map(({ bounds }) => bounds.length));
  const m = BigInt(sizes.length);
  return {
    question: request,
    kind: "SampledReports",
    draw(codes, words) {
      const [place] = uniform([m], words);
      const drawn = randomizers[Number(place)].draw(codes[Number(place)], words);
      return encode([array([place], m, [1]), array([...drawn, ...new Array(columns - drawn.length).fill(0n)], most)]);
    },
    shown(body) {
      const [sampled, reports] = fieldsOf(body);
      const place = Number(numbersIn(sampled)[0]);
      const one = randomizers[place];
      return places.map((i) => i === place
        ? shownOf(one, numbersIn(reports).slice(0, one.bounds.length), [i], [sizes[i]])
        : { attributes: [i], kind: "nothing", value: null });
    },
    told: randomizers.map(({ told }, i) => ({ attributes: [i], share: told / sizes.length })),
    epsilon: Math.max(...randomizers.map(({ epsilon }) => epsilon)),
  };
}

function rsFd(terms) {
  const agreed = new Agreed(terms, "epsilon");
  const randomizer = FakeData.withEpsilon(agreed.sizes, agreed.epsilon);
  return {
    question: agreed.request,
    kind: "AttributeReports",
    draw: (codes, words) => encode([array(randomizer.draw(codes, words), largest(agreed.sizes))]),
    shown: (body) => numbersIn(fieldsOf(body)[0]).map((code, i) => ({ attributes: [i], kind: "fake", value: [Number(code)] })),
    told: randomizer.columns.map(({ told }, i) => ({ attributes: [i], share: told })),
    epsilon: randomizer.epsilon,
  };
}

const NUMBER = /^[+-]?[0-9]{1,15}(\.[0-9]{1,15})?$/;

/** A decimal number as an integer: so many units of 10^-15. */
function unitsOf(category) {
  must(NUMBER.test(category), `not a number: ${category}`);
  const [whole, digits = ""] = category.replace("-", "").split(".");
  const units = BigInt(whole.replace("+", "") + digits.padEnd(15, "0"));
  return category.startsWith("-") ? -units : units;
}

function numericMean(terms) {
  const agreed = new Agreed(terms, "epsilon", "mechanism");
  for (const attribute of agreed.attributes) {
    const units = attribute.get("categories").map(unitsOf);
    const step = units[1] - units[0];
    must(step > 0n && units.every((unit, i) => i === 0 || unit - units[i - 1] === step), "numbers that do not rise in equal steps");
  }
  return onEvery(agreed, evenly(agreed.sizes, agreed.epsilon, oracle(agreed.parameters.mechanism, true)));
}

// --- marginals of bits

function combinations(d, k, from = 0) {
  if (k === 0) return [[]];
  const found = [];
  for (let first = from; first <= d - k; first++) for (const rest of combinations(d, k - 1, first + 1)) found.push([first, ...rest]);
  return found;
}

const bitLength = (number) => (number ? number.toString(2).length : 0);
const bitsOf = (number, width) => (width ? [...number.toString(2).padStart(width, "0")].map(Number) : []);

/** What a report can be about: places of bits, and for coefficients all of at most k, or those of every set of k. */
function choicesOf(byInput, isTransformed, d, k) {
  const maskOf = (places) => places.reduce((mask, place) => mask | (1n << BigInt(d - 1 - place)), 0n);
  if (byInput && !isTransformed) return [maskOf(Array.from({ length: d }, (_, i) => i))];
  if (byInput) {
    const masks = Array.from({ length: k }, (_, i) => combinations(d, i + 1)).flat().map(maskOf);
    return masks.sort((a, b) => (a < b ? -1 : 1));
  }
  const sets = combinations(d, k);
  if (!isTransformed) return sets.map(maskOf);
  const columns = Array.from({ length: 2 ** k - 1 }, (_, i) => i + 1);
  return sets.flatMap((set) => columns.map((column) => maskOf(set.filter((_, i) => (column >> (k - 1 - i)) & 1))));
}

const marginals = (byInput, form) => (terms) => {
  const [isOneHot, isTransformed] = [form === "rr", form === "ht"];
  const agreed = new Agreed(terms, "epsilon", "k", ...(isOneHot ? ["unary"] : []));
  const { request, sizes, places, parameters } = agreed;
  const k = Number(parameters.k);
  const widths = sizes.map((size) => bitLength(size - 1n));
  const d = widths.reduce((a, b) => a + b, 0);
  must(k >= 1 && k <= 4 && k <= d && d <= 24 && Math.max(...widths) <= k, `marginals of ${k} of ${d} bits`);
  const cells = 1n << BigInt(byInput ? d : k);
  const makers = { rr: oracle(parameters.unary === "oue" ? "oue" : "sue"), ps: KeepUniform.withEpsilon, ht: KeepUniform.withEpsilon };
  must(!isOneHot || ["sue", "oue"].includes(parameters.unary), "unknown bits");
  const randomizer = makers[form](isTransformed ? 2n : cells, agreed.epsilon);
  const choices = choicesOf(byInput, isTransformed, d, k);
  const [sets, columns] = byInput ? [choices.length, 1] : [combinations(d, k).length, isTransformed ? 2 ** k - 1 : 1];
  const about = bitLength(sets - 1) + bitLength(columns - 1);
  const long = isOneHot ? Number(cells) : bitLength(randomizer.size - 1n);
  const within = (mask) => Array.from({ length: d }, (_, i) => i).filter((i) => (mask >> BigInt(d - 1 - i)) & 1n);

  /** What is to be said about a choice: a cell, or 1 for an odd number of bits. */
  function truth(cell, mask) {
    if (isTransformed) return isOdd(cell & mask) ? 1n : 0n;
    return within(mask).reduce((found, i) => (found << 1n) | ((cell >> BigInt(d - 1 - i)) & 1n), 0n);
  }

  /** The attributes that some bits are of; and whether each is all of its attribute's. */
  function attributesOf(bits) {
    const owners = places.flatMap((place) => new Array(widths[place]).fill(place));
    const attributes = [...new Set(bits.map((bit) => owners[bit]))];
    return [attributes, attributes.every((place) => bits.filter((bit) => owners[bit] === place).length === widths[place])];
  }

  return {
    question: request,
    kind: "Bits",
    draw(codes, words) {
      const cell = codes.reduce((found, code, i) => (found << BigInt(widths[i])) | code, 0n);
      const choice = choices.length === 1 ? 0 : Number(uniform([BigInt(choices.length)], words)[0]);
      const drawn = randomizer.draw(truth(cell, choices[choice]), words);
      const bits = bitsOf(choice, about);
      if (isOneHot) for (let i = 0; i < long; i++) bits.push(Number((drawn[i >> 3] >> BigInt(i & 7)) & 1n));
      else bits.push(...bitsOf(drawn[0], long));
      const octet = (i) => BigInt(`0b${bits.slice(8 * i, 8 * i + 8).join("").padEnd(8, "0")}`);
      const octets = Array.from({ length: Math.ceil(bits.length / 8) }, (_, i) => octet(i));
      return encode([1, array(octets, 256n, [octets.length])]);
    },
    shown(body) {
      const bits = numbersIn(fieldsOf(body)[1]).flatMap((octet) => bitsOf(octet, 8));
      const choice = about ? Number(`0b${bits.slice(0, about).join("")}`) : 0;
      const said = bits.slice(about, about + long);
      const [attributes, isWhole] = attributesOf(within(choices[choice]));
      const others = places.filter((place) => !attributes.includes(place));
      const nothing = others.map((place) => ({ attributes: [place], kind: "nothing", value: null }));
      const shapes = attributes.map((place) => 1n << BigInt(widths[place]));
      const isExact = isWhole && attributes.every((place, i) => shapes[i] === sizes[place]);
      const value = isOneHot ? said.flatMap((bit, cell) => (bit ? [cell] : [])) : Number(`0b${said.join("")}`);
      if (isTransformed || !isWhole || (isOneHot && !isExact)) {
        return [{ attributes, kind: "hidden", value: isOneHot ? value.length : value }, ...nothing];
      }
      if (isOneHot) return [{ attributes, kind: "ticks", value }, ...nothing];
      const codes = split(BigInt(value), shapes);
      const isCategory = codes.every((code, i) => BigInt(code) < sizes[attributes[i]]);
      return [isCategory ? { attributes, kind: "answers", value: codes } : { attributes, kind: "hidden", value }, ...nothing];
    },
    told: [{ attributes: places, share: randomizer.told }],
    epsilon: randomizer.epsilon,
  };
};

// --- keys with values

const VALUE = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?$/i;

function privkv(terms) {
  const agreed = new Agreed(terms, "epsilon", "estimator", "virtual");
  const values = agreed.attributes.map((attribute) => {
    const [first, ...others] = attribute.get("categories");
    must(first === "missing" && attribute.get("missing") === "missing", "not a key");
    return [null, ...others.map((category) => {
      must(VALUE.test(category) && Math.abs(Number(category)) <= 1, `not a value: ${category}`);
      return Number(category);
    })];
  });
  const randomizer = PrivKV.withBudget(BigInt(agreed.sizes.length), agreed.epsilon);
  return {
    question: agreed.request,
    kind: "KeyReport",
    round: 0,
    draw(codes, words) {
      const [key, symbol] = randomizer.draw(values.map((each, i) => each[Number(codes[i])]), words);
      return encode([0, array([key], randomizer.keys, [1]), array([symbol], 3n, [1])]);
    },
    shown(body) {
      const [, keys, symbols] = fieldsOf(body);
      const [key, symbol] = [numbersIn(keys)[0], numbersIn(symbols)[0]].map(Number);
      const said = symbol ? { kind: "hidden", value: symbol === 1 ? 1 : -1 } : { kind: "answers", value: [0] };
      return agreed.places.map((i) => ({ attributes: [i], ...(i === key ? said : { kind: "nothing", value: null }) }));
    },
    told: agreed.places.map((i) => ({ attributes: [i], share: randomizer.told })),
    epsilon: randomizer.epsilon,
  };
}

const VARIANTS = {
  "rr-independent": rrIndependent,
  "rr-joint": rrJoint,
  "rr-ind-joint": rrIndJoint,
  spl,
  smp,
  "rs-fd": rsFd,
  "numeric-mean": numericMean,
  "inp-rr": marginals(true, "rr"),
  "inp-ps": marginals(true, "ps"),
  "inp-ht": marginals(true, "ht"),
  "marg-rr": marginals(false, "rr"),
  "marg-ps": marginals(false, "ps"),
  "marg-ht": marginals(false, "ht"),
  privkv,
};

/** How a survey is asked and answered; null if this page cannot answer it. `terms` are the fields of the terms by name. */
export function protocolOf(terms) {
  if (terms.code !== null || terms.roles !== null || !Object.hasOwn(VARIANTS, terms.variant)) return null;
  try {
    const protocol = { round: NO_ROUND, ...VARIANTS[terms.variant](terms) };
    const sizes = terms.survey.get("attributes").map((attribute) => attribute.get("categories").length);
    const isCode = (code, i) => Number.isInteger(code) && code >= 0 && code < sizes[i];
    const draw = (codes, words) => {
      if (codes.length !== sizes.length || !codes.every(isCode)) throw new TypeError("expected a code for each attribute");
      return protocol.draw(codes.map(BigInt), words);
    };
    return { ...protocol, draw };
  } catch (error) {
    if (error instanceof Unfit) return null;
    throw error;
  }
}
