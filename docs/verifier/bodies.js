// Messages, read by the header's description of their kind (appendix A of the format). Nobody has judged the description: a message is
// malformed also where that makes no sense.

import { decode, Float, isArray, isCount, isInt, isList, isText, Malformed } from "./msgpack.js";

const SIZES = { u1: 1, u2: 2, u4: 4, u8: 8, i8: 8, f8: 8 };
const LENGTHS = { nil: 1, bool: 1, int: 3, float: 3, str: 3, bytes: 3, enum: 2, list: 4, struct: 2, map: 2, union: 2, array: 5 };

const isFloat = (value) => value instanceof Float;
const isFields = isList(isArray(isText(), Array.isArray));
const plain = (value) => (isFloat(value) ? value.value : value);
const isBound = (bound) => bound === null || typeof bound === "number" || typeof bound === "bigint";

function must(holds, what) {
  if (!holds) throw new Malformed(what);
}

function within(value, low, high) {
  must(isBound(low) && isBound(high), "no such bounds");
  return (low === null || value >= low) && (high === null || value <= high);
}

/** What a value of a type says; structs and maps as objects, arrays of numbers as { shape, numbers }. */
function read(type, value) {
  must(Array.isArray(type) && type.length === LENGTHS[type[0]], "no such type");
  const [word, first, second, third] = type;
  switch (word) {
    case "nil": must(value === null, "not nil"); return value;
    case "bool": must(typeof value === "boolean", "not a bool"); return value;
    case "int": must(isInt(value) && within(value, first, second), "not such an int"); return value;
    case "float":
      must(isFloat(value) && Number.isFinite(value.value) && within(value.value, plain(first), plain(second)), "not such a float");
      return value.value;
    case "str": must(typeof value === "string" && within([...value].length, first, second), "not such a str"); return value;
    case "bytes": must(value instanceof Uint8Array && within(value.length, first, second), "not such bytes"); return value;
    case "enum": must(Array.isArray(first) && first.includes(value), "not one of the values"); return value;
    case "list":
      must(Array.isArray(value) && within(value.length, second, third), "not such a list");
      return value.map((item) => read(first, item));
    case "struct": return readFields(first, value);
    case "map": {
      const names = value instanceof Map && [...value.keys()];
      must(names && isFields(first) && names.every((name, i) => name === first[i]?.[0]), "not such a map");
      return readFields(first, [...value.values()]);
    }
    case "union": return readUnion(first, value);
  }
  return readArray(type, value);
}

function readFields(fields, values) {
  must(isFields(fields) && Array.isArray(values) && values.length === fields.length, "not such fields");
  return Object.fromEntries(fields.map(([name, type], i) => [name, read(type, values[i])]));
}

function readUnion(types, value) {
  must(isList(Array.isArray)(types), "no such types");
  for (const type of types) {
    try {
      return read(type, value);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
    }
  }
  throw new Malformed("none of the types");
}

function readArray([, dtype, shape, low, high], value) {
  must(Object.hasOwn(SIZES, dtype) && isList(Array.isArray)(shape), "no such array of numbers");
  must(Array.isArray(value) && value.length === 3 && value[0] === dtype && isList(isCount)(value[1]), "not an array of numbers");
  const [, lengths, content] = value;
  must(lengths.length === shape.length && lengths.every((length, i) => within(length, ...shape[i])), "another shape");
  const count = lengths.reduce((product, length) => product * BigInt(length), 1n);
  must(content instanceof Uint8Array && BigInt(content.length) === count * BigInt(SIZES[dtype]), "another length");
  const view = new DataView(content.buffer, content.byteOffset, content.length);
  const at = { u1: "getUint8", u2: "getUint16", u4: "getUint32", u8: "getBigUint64", i8: "getBigInt64", f8: "getFloat64" }[dtype];
  const numbers = Array.from({ length: Number(count) }, (_, i) => view[at](i * SIZES[dtype], true));
  const highs = Array.isArray(high) ? high : [high];
  must(!Array.isArray(high) || high.length === lengths.at(-1), "not a bound for each position");
  const isRight = (n, i) => (dtype !== "f8" || Number.isFinite(n)) && within(n, plain(low), plain(highs[i % highs.length]));
  must(numbers.every(isRight), "a number out of bounds");
  return { shape: lengths, numbers };
}

/** A body of a kind, its fields by name; throws Malformed. */
export function readBody([, most, fields], body) {
  must(body.length <= most, "too large");
  return readFields(fields, decode(body, { sorted: false }));
}
