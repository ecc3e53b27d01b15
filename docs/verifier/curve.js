// The curve of Ed25519 (RFC 8032, section 5.1) in BigInt, for browsers whose WebCrypto does not have it. Not in constant time.

import { join } from "./bytes.js";

export const P = 2n ** 255n - 19n;
export const L = 2n ** 252n + 27742317777372353535851937790883648493n;

export const mod = (number, modulus = P) => ((number % modulus) + modulus) % modulus;

function power(base, exponent) {
  let result = 1n;
  for (let square = mod(base); exponent; exponent >>= 1n, square = (square * square) % P) {
    if (exponent & 1n) result = (result * square) % P;
  }
  return result;
}

const inverse = (number) => power(number, P - 2n);
const D = mod(-121665n * inverse(121666n));
const ROOT = power(2n, (P - 1n) / 4n); // a square root of -1

export const little = (bytes) => bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
export const toLittle = (number) => Uint8Array.from({ length: 32 }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));

const extended = (x, y) => [x, y, 1n, mod(x * y)];

/** The point that 32 bytes are; null if they are none. */
export function decoded(bytes) {
  const y = little(bytes) & (2n ** 255n - 1n);
  const u = mod(y * y - 1n);
  const v = mod(D * y * y + 1n);
  let x = mod(u * power(v, 3n) * power(u * power(v, 7n), (P - 5n) / 8n));
  if (mod(v * x * x) !== u) x = mod(x * ROOT);
  if (y >= P || mod(v * x * x) !== u || (x === 0n && bytes[31] & 128)) return null;
  return extended((x & 1n) === BigInt(bytes[31] >> 7) ? x : P - x, y);
}

export function encoded([x, y, z]) {
  const inverted = inverse(z);
  const bytes = toLittle(mod(y * inverted));
  if (mod(x * inverted) & 1n) bytes[31] |= 128;
  return bytes;
}

export const negative = ([x, y, z, t]) => [mod(-x), y, z, mod(-t)];

export const BASE = decoded(toLittle(mod(4n * inverse(5n))));

function add([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = mod((y1 - x1) * (y2 - x2));
  const b = mod((y1 + x1) * (y2 + x2));
  const c = mod(2n * t1 * t2 * D);
  const d = mod(2n * z1 * z2);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

/** The sum of points, each times a number below 2^256. */
export function combined(...terms) {
  let sum = extended(0n, 1n);
  for (let bit = 255n; bit >= 0n; bit--) {
    sum = add(sum, sum);
    for (const [times, point] of terms) if ((times >> bit) & 1n) sum = add(sum, point);
  }
  return sum;
}

export async function sha512(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-512", join(parts)));
}
