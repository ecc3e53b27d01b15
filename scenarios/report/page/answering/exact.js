// Exact numbers of randomizers: thresholds from epsilons, and epsilons from thresholds. Everything that decides a probability is an integer
// (BigInt). The program reckons with 60 decimal digits, here it is with 400 bits behind the point: both come to the same integers.

export const WORDS = 2n ** 64n;

const LARGEST_EPSILON = 200;

const BITS = 400n;
const ONE = 1n << BITS;

/** Parameters that no randomizer has. */
export class Unfit extends Error {}

export function must(holds, what) {
  if (!holds) throw new Unfit(what);
}

/** A finite double as a fraction: its numerator and the power of two that is its denominator. */
export function fractionOf(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  const bits = view.getBigUint64(0);
  const exponent = (bits >> 52n) & 2047n;
  const digits = (bits & (2n ** 52n - 1n)) | (exponent ? 2n ** 52n : 0n);
  const shift = (exponent || 1n) - 1075n;
  const numerator = (bits >> 63n ? -digits : digits) << (shift > 0n ? shift : 0n);
  return [numerator, 1n << (shift < 0n ? -shift : 0n)];
}

/** A double in fixed point: exactly, if it is at least 2^-300. */
function fixed(number) {
  const [numerator, denominator] = fractionOf(number);
  return (numerator << BITS) / denominator;
}

/** The nearest double, of ties the even one. */
const double = (value) => Number(value) / 2 ** Number(BITS);

/** e to a power, both in fixed point. */
function exp(power) {
  let sum = ONE;
  for (let term = ONE, n = 1n; term !== 0n; n++) sum += term = ((term * power) >> BITS) / n;
  return sum;
}

/** The natural logarithm of a fraction, correctly rounded. */
export function logRatio(numerator, denominator) {
  const ratio = (numerator << BITS) / denominator;
  let log = fixed(Math.log(Number(numerator) / Number(denominator)));
  for (let n = 0; n < 4; n++) {
    const reached = exp(log);
    log += (2n * (ratio - reached) * ONE) / (ratio + reached);
  }
  return double(log);
}

/** e^(epsilon / parts) as a fraction; epsilon is a double. */
export function oddsOf(epsilon, parts = 1n) {
  must(epsilon > 0 && Number.isFinite(epsilon), `epsilon ${epsilon}: expected a positive finite number`);
  return [exp(fixed(Math.min(epsilon, LARGEST_EPSILON)) / parts), ONE];
}

export const ceiling = (numerator, denominator) => (numerator + denominator - 1n) / denominator;

/** The nearest integer to a positive fraction, of two the even one. */
export function nearest(numerator, denominator) {
  const whole = numerator / denominator;
  const rest = 2n * (numerator % denominator);
  return rest > denominator || (rest === denominator && whole & 1n) ? whole + 1n : whole;
}

/** The sum of positive doubles, correctly rounded. */
export function sumOf(numbers) {
  return double(numbers.reduce((total, number) => total + fixed(number), 0n));
}

/** The next smaller double of a positive one. */
export function before(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  view.setBigUint64(0, view.getBigUint64(0) - 1n);
  return view.getFloat64(0);
}

/** A fraction from 0 to 1 as a double, to be shown. */
export const share = (numerator, denominator) => Number((numerator << 60n) / denominator) / 2 ** 60;
