// msgpack in its one canonical form (section 2 of the format): what is decoded is encoded again, and has to be the same bytes.
// Integers come as numbers where these are exact, else as BigInt; maps as Map; floats in a box, so that 1.0 is not 1.

import { compare, concat, same, text, utf8 } from "./bytes.js";

const DEPTH = 65; // a header's map, and 64 in it
const INT_MAX = 2n ** 63n - 1n;

export class Malformed extends Error {}

export class Float {
  constructor(value) {
    this.value = value;
  }
}

class Reader {
  at = 0;

  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Where the next so many bytes begin. */
  pass(length) {
    this.at += length;
    if (this.at > this.bytes.length) throw new Malformed("ends inside a value");
    return this.at - length;
  }

  bin(length) {
    const from = this.pass(length);
    return this.bytes.subarray(from, from + length);
  }

  str(length) {
    try {
      return text(this.bin(length));
    } catch (error) {
      throw new Malformed(error.message);
    }
  }

  /** An integer of 1, 2, 4 or 8 bytes. */
  int(width, signed = "Uint") {
    const big = width === 8 ? "Big" : "";
    const value = this.view[`get${big}${signed}${8 * width}`](this.pass(width));
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }

  items(length, depth) {
    if (depth === 0 || length > this.bytes.length) throw new Malformed("nested too deeply, or too many items");
    return Array.from({ length }, () => this.value(depth - 1));
  }

  map(length, depth) {
    const items = this.items(2 * length, depth);
    const map = new Map(Array.from({ length }, (_, i) => [items[2 * i], items[2 * i + 1]]));
    if (![...map.keys()].every((key) => typeof key === "string")) throw new Malformed("a key that is not text");
    return map;
  }

  value(depth) {
    const form = this.int(1);
    if (form < 0x80) return form;
    if (form < 0x90) return this.map(form & 15, depth);
    if (form < 0xa0) return this.items(form & 15, depth);
    if (form < 0xc0) return this.str(form & 31);
    if (form >= 0xe0) return form - 256;
    if (form === 0xc0) return null;
    if (form === 0xc2 || form === 0xc3) return form === 0xc3;
    if (form >= 0xc4 && form <= 0xc6) return this.bin(this.int(1 << (form - 0xc4)));
    if (form === 0xcb) return new Float(this.view.getFloat64(this.pass(8)));
    if (form >= 0xcc && form <= 0xcf) return this.int(1 << (form - 0xcc));
    if (form >= 0xd0 && form <= 0xd3) return this.int(1 << (form - 0xd0), "Int");
    if (form >= 0xd9 && form <= 0xdb) return this.str(this.int(1 << (form - 0xd9)));
    if (form >= 0xdc && form <= 0xdd) return this.items(this.int(2 << (form - 0xdc)), depth);
    if (form >= 0xde && form <= 0xdf) return this.map(this.int(2 << (form - 0xde)), depth);
    throw new Malformed(`a form that does not occur: 0x${form.toString(16)}`);
  }
}

/** The one value that the bytes are. The keys of maps are sorted, except where a map is said to have them in another order. */
export function decode(bytes, { sorted = true } = {}) {
  const reader = new Reader(bytes);
  const value = reader.value(DEPTH);
  if (!same(encode(value, sorted), bytes)) throw new Malformed("not canonical");
  return value;
}

/** A form of 1, 2, 4 or 8 bytes and the number in it; `short` is the form for numbers below `most`. */
function head(number, short, most, forms) {
  if (number < most) return [short | number];
  const width = [1, 2, 4, 8].find((bytes) => forms[bytes] && number < 2 ** (8 * bytes));
  const digits = BigInt(number).toString(16).padStart(2 * width, "0");
  return [forms[width], ...digits.match(/../g).map((pair) => parseInt(pair, 16))];
}

function negative(number) {
  if (number >= -32) return Uint8Array.of(number);
  const width = [1, 2, 4, 8].find((bytes) => number >= -(2 ** (8 * bytes - 1)));
  return Uint8Array.from(head(BigInt.asUintN(8 * width, BigInt(number)), 0, 0, { [width]: 0xd0 + Math.log2(width) }));
}

export function encode(value, sorted = true) {
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (value instanceof Uint8Array) return concat(head(value.length, 0, 0, { 1: 0xc4, 2: 0xc5, 4: 0xc6 }), value);
  if (typeof value === "string") {
    const bytes = utf8(value);
    return concat(head(bytes.length, 0xa0, 32, { 1: 0xd9, 2: 0xda, 4: 0xdb }), bytes);
  }
  if (Array.isArray(value)) {
    return concat(head(value.length, 0x90, 16, { 2: 0xdc, 4: 0xdd }), ...value.map((item) => encode(item, sorted)));
  }
  if (value instanceof Map) {
    const pairs = [...value].map(([key, item]) => [utf8(key), encode(key), encode(item, sorted)]);
    if (sorted) pairs.sort(([a], [b]) => compare(a, b));
    return concat(head(value.size, 0x80, 16, { 2: 0xde, 4: 0xdf }), ...pairs.flatMap(([, key, item]) => [key, item]));
  }
  if (value instanceof Float) {
    const bytes = new Uint8Array(9).fill(0xcb);
    new DataView(bytes.buffer).setFloat64(1, value.value);
    return Number.isNaN(value.value) ? new Uint8Array(0) : bytes; // NaN is not canonical
  }
  return value < 0 ? negative(value) : Uint8Array.from(head(value, 0, 128, { 1: 0xcc, 2: 0xcd, 4: 0xce, 8: 0xcf }));
}

// What a value must be, for records whose fields are all known.
export const isInt = (value) => Number.isInteger(value) || typeof value === "bigint";
export const isCount = (value) => isInt(value) && value >= 0 && value <= INT_MAX;
export const isBool = (value) => typeof value === "boolean";
export const isText = (most = Infinity) => (value) => typeof value === "string" && (value.length <= most || [...value].length <= most);
export const isBytes = (least = 0, most = least) => (value) => value instanceof Uint8Array && value.length >= least && value.length <= most;
export const isList = (item) => (value) => Array.isArray(value) && value.every(item);
export const orNil = (field) => (value) => value === null || field(value);
export const isArray = (...fields) => (value) =>
  Array.isArray(value) && value.length === fields.length && fields.every((field, i) => field(value[i]));
