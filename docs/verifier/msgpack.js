// msgpack in its one canonical form (section 2 of the format): what decodes would be encoded to the same bytes again.
// Integers come as numbers where they are exact, else as BigInt; maps as Map; floats in a box, so that 1.0 is not 1.

import { compare, concat, text, utf8 } from "./bytes.js";

export const DEPTH = 64;
const INT_MAX = 2n ** 63n - 1n;

export class Malformed extends Error {}

export class Float {
  constructor(value) {
    this.value = value;
  }
}

export class Reader {
  constructor(bytes, { sorted = true } = {}) {
    this.bytes = bytes;
    this.sorted = sorted; // whether the keys of maps are
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.at = 0;
  }

  take(length) {
    if (this.at + length > this.bytes.length) throw new Malformed("ends inside a value");
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** A big-endian unsigned integer of so many bytes, at least `least`, or a shorter form would do. */
  unsigned(size, least) {
    this.take(size);
    const at = this.at - size;
    if (size === 8) return this.integer(this.view.getBigUint64(at), BigInt(least));
    const value = size === 1 ? this.bytes[at] : size === 2 ? this.view.getUint16(at) : this.view.getUint32(at);
    return Number(this.integer(BigInt(value), BigInt(least)));
  }

  integer(value, least) {
    if (value < least) throw new Malformed("not the shortest form");
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  }

  /** A negative integer of so many bytes, at most `most`. */
  negative(size, most) {
    this.take(size);
    const value = BigInt.asIntN(8 * size, this.bytes.subarray(this.at - size, this.at).reduce((n, b) => (n << 8n) | BigInt(b), 0n));
    if (value > most) throw new Malformed("not the shortest form");
    return value >= Number.MIN_SAFE_INTEGER ? Number(value) : value;
  }

  float() {
    this.take(8);
    const value = this.view.getFloat64(this.at - 8);
    if (Number.isNaN(value)) throw new Malformed("a float that is no number");
    return new Float(value);
  }

  string(length) {
    try {
      return text(this.take(length));
    } catch (error) {
      throw error instanceof TypeError ? new Malformed("text that is not UTF-8") : error;
    }
  }

  array(length, depth) {
    if (depth === 0) throw new Malformed(`nested more than ${DEPTH} deep`);
    if (length > this.bytes.length - this.at) throw new Malformed("ends inside a value");
    return Array.from({ length }, () => this.value(depth - 1));
  }

  map(length, depth) {
    if (depth === 0) throw new Malformed(`nested more than ${DEPTH} deep`);
    const map = new Map();
    let last = null;
    for (let i = 0; i < length; i++) {
      const key = this.value(0);
      if (typeof key !== "string") throw new Malformed("a key that is not text");
      const bytes = utf8(key);
      if (map.has(key) || (this.sorted && last !== null && compare(last, bytes) > 0)) throw new Malformed("keys out of order");
      last = bytes;
      map.set(key, this.value(depth - 1));
    }
    return map;
  }

  /** The next value; `depth` is how deep it may be nested. */
  value(depth = DEPTH) {
    const form = this.take(1)[0];
    if (form < 0x80) return form;
    if (form < 0x90) return this.map(form & 15, depth);
    if (form < 0xa0) return this.array(form & 15, depth);
    if (form < 0xc0) return this.string(form & 31);
    if (form >= 0xe0) return form - 256;
    switch (form) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.take(this.unsigned(1, 0));
      case 0xc5: return this.take(this.unsigned(2, 2 ** 8));
      case 0xc6: return this.take(this.unsigned(4, 2 ** 16));
      case 0xcb: return this.float();
      case 0xcc: return this.unsigned(1, 2 ** 7);
      case 0xcd: return this.unsigned(2, 2 ** 8);
      case 0xce: return this.unsigned(4, 2 ** 16);
      case 0xcf: return this.unsigned(8, 2 ** 32);
      case 0xd0: return this.negative(1, -33n);
      case 0xd1: return this.negative(2, -129n);
      case 0xd2: return this.negative(4, -32769n);
      case 0xd3: return this.negative(8, -2147483649n);
      case 0xd9: return this.string(this.unsigned(1, 32));
      case 0xda: return this.string(this.unsigned(2, 2 ** 8));
      case 0xdb: return this.string(this.unsigned(4, 2 ** 16));
      case 0xdc: return this.array(this.unsigned(2, 16), depth);
      case 0xdd: return this.array(this.unsigned(4, 2 ** 16), depth);
      case 0xde: return this.map(this.unsigned(2, 16), depth);
      case 0xdf: return this.map(this.unsigned(4, 2 ** 16), depth);
    }
    throw new Malformed(`a form that does not occur: 0x${form.toString(16)}`);
  }

  end() {
    if (this.at !== this.bytes.length) throw new Malformed("bytes after the value");
  }
}

/** The one value that the bytes are. */
export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value();
  reader.end();
  return value;
}

function head(size, short, shortest, forms) {
  if (size < shortest) return [short | Number(size)];
  const width = size < 2 ** 8 && forms[0] ? 1 : size < 2 ** 16 ? 2 : size < 2 ** 32 ? 4 : 8;
  const bytes = Array.from({ length: width }, (_, i) => Number((BigInt(size) >> BigInt(8 * (width - 1 - i))) & 255n));
  return [forms[Math.log2(width)], ...bytes];
}

/** Of numbers from -32, text, bytes, arrays, null and booleans. */
export function encode(value) {
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (typeof value === "string") return concat(head(utf8(value).length, 0xa0, 32, [0xd9, 0xda, 0xdb]), utf8(value));
  if (value instanceof Uint8Array) return concat(head(value.length, 0, 0, [0xc4, 0xc5, 0xc6]), value);
  if (Array.isArray(value)) return concat(head(value.length, 0x90, 16, [null, 0xdc, 0xdd]), ...value.map(encode));
  if (value < 0) return Uint8Array.of(256 + value);
  return concat(head(value, 0, 128, [0xcc, 0xcd, 0xce, 0xcf]));
}

// What a value must be, for records whose fields are all known.
export const isInt = (value) => Number.isInteger(value) || typeof value === "bigint";
export const isCount = (value) => isInt(value) && value >= 0 && value <= INT_MAX;
export const isBool = (value) => typeof value === "boolean";
export const isText = (most = Infinity) => (value) => typeof value === "string" && (value.length <= most || [...value].length <= most);
export const isBytes = (least = 0, most = least) => (value) => value instanceof Uint8Array && value.length >= least && value.length <= most;
export const isArray = (...fields) => (value) =>
  Array.isArray(value) && value.length === fields.length && fields.every((field, i) => field(value[i]));
export const isList = (item) => (value) => Array.isArray(value) && value.every(item);
export const orNil = (field) => (value) => value === null || field(value);
