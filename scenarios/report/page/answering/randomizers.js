// Randomizers: how one respondent's code becomes a report. Codes, words and reports are BigInt. `words` gives the next uniform word of 64
// bits; words are used in the order of the program, so that both make the same report of the same words.
//
// Of a randomizer there is: `bounds`, above the numbers of which its report consists; `epsilon`, of the exact thresholds; `told`, the
// probability that a report is drawn from the code; `kind`, how a report is shown; `draw`, which gives the numbers.

import { before, ceiling, fractionOf, logRatio, must, nearest, oddsOf, share, sumOf, WORDS } from "./exact.js";

const HALF = WORDS / 2n;
const MAX_BITS = 2n ** 16n;
const least = (a, b) => (a < b ? a : b);

function within(value, low, high, what) {
  must(value >= low && value <= high, `${what} ${value}: expected ${low} to ${high}`);
}

/** Numbers that are each uniform below a bound: all are drawn at once, and those that are refused drawn anew. */
export function uniform(bounds, words) {
  const drawn = bounds.map(() => words());
  const isRefused = (i) => drawn[i] > WORDS - 1n - (WORDS % bounds[i]);
  for (let left = [...bounds.keys()]; (left = left.filter(isRefused)).length; ) for (const i of left) drawn[i] = words();
  return drawn.map((word, i) => word % bounds[i]);
}

const below = (bound, words) => uniform([bound], words)[0];

/** The category that a word falls into: the inverse of their distribution function. */
function falling(weights, word) {
  let reached = 0n;
  return BigInt(weights.findIndex((weight) => word < (reached += weight)));
}

/** Bits packed into bytes, the lowest first. */
function packed(bits) {
  const bytes = new Array(Math.ceil(bits.length / 8)).fill(0);
  bits.forEach((bit, i) => (bytes[i >> 3] |= bit << (i & 7)));
  return bytes.map(BigInt);
}

const packedBounds = (size) => [...new Array(Math.ceil(Number(size) / 8) - 1).fill(256n), 1n << (((size - 1n) % 8n) + 1n)];

/** The codes whose bits are 1. */
export function ticks(bytes, size) {
  return Array.from({ length: Number(size) }, (_, code) => code).filter((code) => (bytes[code >> 3] >> BigInt(code & 7)) & 1n);
}

/** Keep a code, else draw any. */
export class KeepUniform {
  kind = "answers";

  constructor(size, threshold) {
    within(size, 2n, WORDS - 1n, "size");
    within(threshold, 1n, WORDS - 1n, "threshold");
    Object.assign(this, { size, threshold, bounds: [size], last: WORDS - 1n - ((WORDS - threshold) % size) });
  }

  static withKeep(size, p) {
    const [numerator, denominator] = fractionOf(p);
    must(p > 0 && p < 1, `keep probability ${p}`);
    return new KeepUniform(size, nearest(numerator * WORDS, denominator));
  }

  static withEpsilon(size, epsilon) {
    const [e, one] = oddsOf(epsilon);
    return new KeepUniform(size, least(((e - one) * WORDS) / (e - one + size * one), WORDS - 1n));
  }

  get epsilon() {
    return logRatio(this.size * this.threshold + WORDS - this.threshold, WORDS - this.threshold);
  }

  get told() {
    return share(this.threshold, WORDS);
  }

  /** What a word makes of a code; null if it is refused. */
  from(word, code) {
    if (word < this.threshold) return code;
    return word > this.last ? null : (word - this.threshold) % this.size;
  }

  draw(code, words) {
    return [this.from(words(), code) ?? below(this.size, words)];
  }
}

/** Keep a code, else draw a fake from a table. */
export class KeepElseTable {
  kind = "answers";

  constructor(threshold, weights) {
    within(threshold, 1n, WORDS - 1n, "threshold");
    must(weights.length > 1 && weights.every((weight) => weight >= 0n && weight < WORDS), "a weight that cannot be");
    must(weights.reduce((sum, weight) => sum + weight) === WORDS, "weights of another sum");
    const size = BigInt(weights.length);
    Object.assign(this, { size, threshold, weights, bounds: [size] });
  }

  get epsilon() {
    const fake = (WORDS - this.threshold) * this.weights.reduce(least);
    return fake ? logRatio(WORDS * this.threshold + fake, fake) : Infinity;
  }

  get told() {
    return share(this.threshold, WORDS);
  }

  draw(code, words) {
    const [coin, fake] = [words(), words()];
    return [coin < this.threshold ? code : falling(this.weights, fake)];
  }
}

/** Report v given u with a probability of its own. */
export class MatrixRandomizer {
  kind = "answers";

  constructor(weights) {
    const size = BigInt(weights.length);
    must(size > 1n && weights.every((row) => row.length === weights.length), "not a square matrix");
    for (const row of weights) {
      must(row.every((weight) => weight >= 0n && weight < WORDS), "a weight that cannot be");
      must(row.reduce((sum, weight) => sum + weight) === WORDS, "weights of another sum");
    }
    Object.assign(this, { size, weights, bounds: [size] });
  }

  get epsilon() {
    const ratios = this.weights.map((_, v) => {
      const column = this.weights.map((row) => row[v]);
      const low = column.reduce(least);
      return low ? logRatio(column.reduce((a, b) => (a > b ? a : b)), low) : Infinity;
    });
    return Math.max(...ratios);
  }

  get told() {
    const shared = this.weights.map((_, v) => this.weights.map((row) => row[v]).reduce(least)).reduce((a, b) => a + b);
    return share(WORDS - shared, WORDS);
  }

  draw(code, words) {
    return [falling(this.weights[Number(code)], words())];
  }
}

/** The reports of one code each. Those of randomizers that all keep or draw any are drawn at once. */
export function drawEach(randomizers, codes, words) {
  if (!randomizers.every((one) => one instanceof KeepUniform)) return randomizers.map((one, i) => one.draw(codes[i], words)[0]);
  const drawn = randomizers.map(() => words()).map((word, i) => randomizers[i].from(word, codes[i]));
  const refused = randomizers.filter((_, i) => drawn[i] === null);
  const anew = uniform(refused.map(({ size }) => size), words);
  return drawn.map((code) => code ?? anew.shift());
}

/** A bit for each code: its own is 1 with one probability, every other with another. */
export class UnaryEncoding {
  kind = "ticks";

  constructor(size, hit, other) {
    within(size, 2n, MAX_BITS, "size");
    must(other > 0n && other < hit && hit < WORDS, "expected 0 < other < hit");
    Object.assign(this, { size, hit, other, bounds: packedBounds(size) });
  }

  static #rare(epsilon, parts) {
    const [e, one] = oddsOf(epsilon, parts);
    const threshold = ceiling(WORDS * one, one + e);
    within(threshold, 1n, HALF - 1n, "flips");
    return threshold;
  }

  static symmetrized(size, epsilon) {
    const flips = UnaryEncoding.#rare(epsilon, 2n);
    return new UnaryEncoding(size, WORDS - flips, flips);
  }

  static optimized(size, epsilon) {
    return new UnaryEncoding(size, HALF, UnaryEncoding.#rare(epsilon, 1n));
  }

  get epsilon() {
    return logRatio(this.hit * (WORDS - this.other), this.other * (WORDS - this.hit));
  }

  get told() {
    const [p, q, r] = [Number(this.hit) / 2 ** 64, Number(this.other) / 2 ** 64, Number(this.size)];
    return 1 - ((1 - p) * (1 - q ** r)) / (1 - q) - p * q ** (r - 1); // without what all codes have in common
  }

  draw(code, words) {
    const own = Number(code);
    const bits = Array.from({ length: Number(this.size) }, (_, i) => (i === own ? words() >= WORDS - this.hit : words() < this.other));
    return packed(bits);
  }
}

/** A set of codes, which is likelier to hold the own one. */
export class SubsetSelection {
  kind = "ticks";

  constructor(size, chosen, threshold) {
    within(size, 2n, MAX_BITS, "size");
    within(chosen, 1n, size - 1n, "chosen");
    must(chosen * WORDS < threshold * size && threshold < WORDS, `threshold ${threshold}`);
    Object.assign(this, { size, chosen, threshold, bounds: packedBounds(size) });
  }

  static withEpsilon(size, epsilon) {
    const [e, one] = oddsOf(epsilon);
    const best = nearest(size * one, e + one);
    const chosen = best > 1n ? best : 1n;
    const held = (chosen * e * WORDS) / (chosen * e + (size - chosen) * one);
    return new SubsetSelection(size, chosen, least(held, WORDS - 1n));
  }

  get epsilon() {
    const { size, chosen, threshold } = this;
    return logRatio(threshold * (size - chosen), (WORDS - threshold) * chosen);
  }

  get told() {
    const { size, chosen, threshold } = this;
    return share(WORDS * (size - chosen) - (WORDS - threshold) * size, WORDS * (size - chosen));
  }

  draw(code, words) {
    const isHeld = words() < this.threshold;
    const size = Number(this.size);
    for (;;) {
      const pairs = Array.from({ length: Math.ceil(size / 2) }, words);
      const ranks = pairs.flatMap((word) => [Number(word & 0xffffffffn), Number(word >> 32n)]).slice(0, size);
      ranks[Number(code)] = isHeld ? 0 : 0xffffffff; // first or last, whatever it drew
      const last = [...ranks].sort((a, b) => a - b)[Number(this.chosen) - 1];
      const bits = ranks.map((rank) => rank <= last);
      if (bits.filter(Boolean).length === Number(this.chosen)) return packed(bits);
    }
  }
}

function leastFactor(number) {
  for (let factor = 2; factor * factor <= number; factor++) if (number % factor === 0) return factor;
  return number;
}

function digitsOf(size, base) {
  let digits = 1n;
  while (base ** digits < size) digits++;
  return digits;
}

/** Hash a code by a function that is drawn, and keep the hash or draw any. */
export class LocalHashing {
  kind = "hidden";

  constructor(size, groups, threshold) {
    within(size, 2n, 2n ** 32n, "size");
    within(groups, 2n, MAX_BITS, "groups");
    must(LocalHashing.#fits(size, groups), "too many reports");
    const base = BigInt(leastFactor(Number(groups)));
    const digits = digitsOf(size, base);
    const functions = groups ** (digits + 1n);
    Object.assign(this, { size, groups, base, digits, functions, keep: new KeepUniform(groups, threshold), bounds: [groups * functions] });
  }

  static binary(size, epsilon) {
    return new LocalHashing(size, 2n, KeepUniform.withEpsilon(2n, epsilon).threshold);
  }

  static optimized(size, epsilon) {
    KeepUniform.withEpsilon(2n, epsilon);
    let groups = nearest(...oddsOf(Math.min(epsilon, Math.log(2 ** 16)))) + 1n;
    if (!LocalHashing.#fits(size, groups)) groups = LocalHashing.#near(size, Number(groups));
    return new LocalHashing(size, groups, KeepUniform.withEpsilon(groups, epsilon).threshold);
  }

  static #fits(size, groups) {
    return groups <= MAX_BITS && groups ** (digitsOf(size, BigInt(leastFactor(Number(groups)))) + 2n) < 2n ** 63n;
  }

  /** The nearest prime that will do, of two the smaller. */
  static #near(size, groups) {
    for (let apart = 0; apart < 2 ** 16; apart++) {
      for (const number of [groups - apart, groups + apart]) {
        const isPrime = number > 1 && number < 2 ** 16 && leastFactor(number) === number;
        if (isPrime && LocalHashing.#fits(size, BigInt(number))) return BigInt(number);
      }
    }
    return 2n;
  }

  get epsilon() {
    return this.keep.epsilon;
  }

  get told() {
    return this.keep.told;
  }

  draw(code, words) {
    const { groups, base, functions } = this;
    const drawn = below(functions, words);
    let hash = drawn % groups;
    for (let rest = drawn / groups, left = code; left; rest /= groups, left /= base) hash += (rest % groups) * (left % base);
    return [drawn * groups + this.keep.draw(hash % groups, words)[0]];
  }
}

/** A place where the code's row of the Hadamard matrix is 1, or is not. */
export class HadamardResponse {
  kind = "hidden";

  constructor(size, threshold) {
    within(size, 2n, 2n ** 22n, "size");
    within(threshold, HALF + 1n, WORDS - 1n, "threshold");
    Object.assign(this, { size, threshold, bounds: [1n << BigInt(size.toString(2).length)] });
  }

  static withEpsilon(size, epsilon) {
    return new HadamardResponse(size, HALF + KeepUniform.withEpsilon(2n, epsilon).threshold / 2n);
  }

  get epsilon() {
    return logRatio(this.threshold, WORDS - this.threshold);
  }

  get told() {
    return share(2n * this.threshold - WORDS, WORDS);
  }

  draw(code, words) {
    const row = code + 1n;
    const isMissed = words() >= this.threshold;
    const place = below(this.bounds[0], words);
    return [isOdd(place & row) === isMissed ? place : place ^ (row & -row)];
  }
}

/** Whether a number has an odd number of bits. */
export const isOdd = (number) => number.toString(2).replaceAll("0", "").length % 2 === 1;

/** A number as one bit. */
export class OneBitMean {
  kind = "hidden";

  constructor(size, step) {
    within(size, 2n, 2n ** 16n, "size");
    must(step > 0n && step * (size - 1n) < HALF, `step ${step}`);
    Object.assign(this, { size, step, bounds: [2n] });
  }

  static withEpsilon(size, epsilon) {
    const [e, one] = oddsOf(epsilon);
    return new OneBitMean(size, least(((e - one) * HALF) / (e + one), HALF - 1n) / (size - 1n));
  }

  get epsilon() {
    const most = this.step * (this.size - 1n);
    return logRatio(HALF + most, HALF - most);
  }

  get told() {
    return share(this.step * (this.size - 1n), HALF);
  }

  draw(code, words) {
    return [words() < HALF + this.step * (2n * code - (this.size - 1n)) ? 1n : 0n];
  }
}

/** A number as a place near it, or any. */
export class PiecewiseMean {
  kind = "hidden";

  constructor(size, step, window, threshold) {
    const places = window + step * (size - 1n);
    within(size, 2n, 2n ** 16n, "size");
    must(step > 0n && window > 0n && places <= 2n ** 18n, `step ${step}, window ${window}`);
    within(threshold, 1n, WORDS - 1n, "threshold");
    Object.assign(this, { size, step, window, threshold, places, bounds: [places] });
  }

  static withEpsilon(size, epsilon) {
    const [half, unit] = oddsOf(epsilon, 2n);
    const windowOf = (step) => nearest(step * (size - 1n) * unit, half) || 1n;
    let step = 256n / (size - 1n) || 1n;
    while (step > 1n && step * (size - 1n) + windowOf(step) > 256n) step--;
    const window = windowOf(step);
    const [e, one] = oddsOf(epsilon);
    const near = (e - one) * window;
    return new PiecewiseMean(size, step, window, least((near * WORDS) / (near + one * (window + step * (size - 1n))), WORDS - 1n));
  }

  get epsilon() {
    const rest = (WORDS - this.threshold) * this.window;
    return logRatio(rest + this.threshold * this.places, rest);
  }

  get told() {
    return share(this.threshold, WORDS);
  }

  draw(code, words) {
    const isNear = words() < this.threshold;
    const near = below(this.window, words) + code * this.step;
    const anywhere = below(this.places, words);
    return [isNear ? near : anywhere];
  }
}

/** One of several codes, drawn by lot, is kept or drawn; the others are fakes. */
export class FakeData {
  constructor(sizes, thresholds) {
    must(sizes.reduce((product, size) => product * size, 1n) < WORDS, "too many combinations");
    const m = BigInt(sizes.length);
    const drawn = sizes.map((size, i) => new KeepUniform(size, m * thresholds[i]));
    Object.assign(this, { sizes, thresholds, drawn, columns: sizes.map((size, i) => new KeepUniform(size, thresholds[i])) });
  }

  static withEpsilon(sizes, epsilon) {
    const [e, one] = oddsOf(epsilon);
    const m = BigInt(sizes.length);
    const odds = (e - one) * m;
    return new FakeData(sizes, sizes.map((size) => least((odds * WORDS) / (odds + size * one), WORDS - 1n) / m));
  }

  get epsilon() {
    const m = BigInt(this.sizes.length);
    const base = this.thresholds.reduce((rest, threshold) => rest - m * threshold, m * WORDS);
    return logRatio(this.thresholds.reduce((sum, threshold, i) => sum + this.sizes[i] * m * threshold, base), base);
  }

  draw(codes, words) {
    const place = Number(below(BigInt(this.sizes.length), words));
    const reports = uniform(this.sizes, words);
    [reports[place]] = this.drawn[place].draw(codes[place], words);
    return reports;
  }
}

/** Whether one of several keys is held, and the sign of its value. */
export class PrivKV {
  constructor(keys, keyResponse, valueResponse) {
    within(keys, 1n, 2n ** 32n, "keys");
    Object.assign(this, { keys, keyResponse, valueResponse });
  }

  static withBudget(keys, epsilon) {
    const half = KeepUniform.withEpsilon(2n, epsilon / 2);
    return new PrivKV(keys, half, half);
  }

  /** The probabilities that each response keeps and turns, in units of 2^-65. */
  #odds() {
    return [this.keyResponse, this.valueResponse].map(({ threshold }) => [WORDS + threshold, WORDS - threshold]);
  }

  get epsilon() {
    const [[kept, turned], [upright, reversed]] = this.#odds();
    const [held, missing] = [kept * upright, turned * WORDS];
    return held * reversed > upright * missing ? logRatio(held, missing) : logRatio(upright, reversed);
  }

  get told() {
    const [[kept, turned], [, reversed]] = this.#odds();
    const shared = turned * 2n * WORDS + 2n * least(turned * WORDS, kept * reversed);
    return share(4n * WORDS * WORDS - shared, 4n * WORDS * WORDS) / Number(this.keys);
  }

  /** The key that is reported on, and 0 if it is reported missing, 1 for a value of +1, 2 for -1. A missing key has the value null. */
  draw(values, words) {
    const key = below(this.keys, words);
    const value = values[Number(key)];
    const [isReported] = this.keyResponse.draw(value === null ? 0n : 1n, words);
    const likely = BigInt(Math.trunc((1 + (value ?? 0)) * 2 ** 52)); // exact: both sides add doubles of IEEE 754
    const [isPositive] = this.valueResponse.draw(words() >> 11n < likely ? 1n : 0n, words);
    return [key, isReported ? 2n - isPositive : 0n];
  }
}

const ORACLES = {
  grr: KeepUniform.withEpsilon,
  sue: UnaryEncoding.symmetrized,
  oue: UnaryEncoding.optimized,
  blh: LocalHashing.binary,
  olh: LocalHashing.optimized,
  "subset-selection": SubsetSelection.withEpsilon,
  "hadamard-response": HadamardResponse.withEpsilon,
  "one-bit": OneBitMean.withEpsilon,
  piecewise: PiecewiseMean.withEpsilon,
};
const MECHANISMS = ["one-bit", "piecewise"];

/** What makes a randomizer of a name for a size and an epsilon. */
export function oracle(name, isOfNumbers = false) {
  must(Object.hasOwn(ORACLES, name) && MECHANISMS.includes(name) === isOfNumbers, `no randomizer ${name}`);
  return ORACLES[name];
}

/** A randomizer for each size, which together keep to epsilon. */
export function evenly(sizes, epsilon, make) {
  for (let each = epsilon / sizes.length; ; each = before(each)) {
    const made = sizes.map((size) => make(size, each));
    if (sumOf(made.map((one) => one.epsilon)) <= epsilon) return made;
  }
}

/** A randomizer of codes as the terms have it, and as a question has it: with its fields in the program's order. */
export function readRandomizer(given) {
  const [type, fields] = [given.get("type"), Object.fromEntries(given)];
  const order = { keep: ["size", "threshold"], "keep-table": ["threshold", "weights"], matrix: ["weights"] }[type];
  must(order && given.size === order.length + 1 && order.every((name) => given.has(name)), "an unknown randomizer");
  const spoken = new Map([["type", type], ...order.map((name) => [name, fields[name]])]);
  const { size, threshold, weights } = fields;
  if (type === "keep") return [new KeepUniform(BigInt(size), BigInt(threshold)), spoken];
  if (type === "keep-table") return [new KeepElseTable(BigInt(threshold), weights.map(BigInt)), spoken];
  return [new MatrixRandomizer(weights.map((row) => row.map(BigInt))), spoken];
}
