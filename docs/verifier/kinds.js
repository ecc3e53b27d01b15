// The language in which a header describes messages, and the messages themselves (section 2 of the format, "Kinds").

import { decode, Float, isArray, isCount, isInt, isList, isText, Malformed, orNil } from "./msgpack.js";

const SIZES = { u1: 1, u2: 2, u4: 4, u8: 8, i8: 8, f8: 8 };
const MOST_DEPTH = 16;
const MOST = "9223372036854775807";
const NUMBER = `["int",0,${MOST}]`;
const ROUND = `["int",-1,${MOST}]`;
const HEARD = `["list",["struct",[["0",${NUMBER}],["1",${NUMBER}]]],0,null]`;
const WAIT = `["struct",[["said",${NUMBER}],["kind",["str",0,255]],["round",${ROUND}],["heard",${HEARD}]]]`;
const FIELDS_OF_ALL = {
  Closed: `[["of",["str",0,null]],["round",${ROUND}],["first",${NUMBER}],["awaited",["bytes",0,512]],["counted",["bytes",0,512]]]`,
  Declined: '[["reason",["str",0,null]]]',
  Left: '[["party",["str",0,null]],["reason",["str",0,null]]]',
  Head: `[["waits",["list",${WAIT},0,null]],["signature",["bytes",64,64]]]`,
};

const isFloat = (value) => value instanceof Float;
const isNumber = (value) => isInt(value) || isFloat(value);
const isLongest = orNil(isCount);
const isShape = (value) => isList(isArray(isCount, isCount))(value) && value.length <= 8;
const isFields = (depth) => isList(isArray(isText(), isType(depth)));

/** Whether a value is a type whose own types are nested at most so deep. */
const isType = (depth) => (value) => {
  if (!Array.isArray(value) || depth === 0) return false;
  const [word, ...rest] = value;
  switch (word) {
    case "nil":
    case "bool": return isArray()(rest);
    case "int": return isArray(orNil(isInt), orNil(isInt))(rest);
    case "float": return isArray(orNil(isFloat), orNil(isFloat))(rest);
    case "str":
    case "bytes": return isArray(isCount, isLongest)(rest);
    case "enum": return isArray(isList((one) => one === null || isInt(one) || typeof one === "string"))(rest);
    case "list": return isArray(isType(depth - 1), isCount, isLongest)(rest);
    case "struct":
    case "map": return isArray(isFields(depth - 1))(rest);
    case "union": return isArray(isList(isType(depth - 1)))(rest);
    case "array": return isArray((dtype) => typeof dtype === "string" && Object.hasOwn(SIZES, dtype), isShape, isNumber, isHigh(rest[1]))(rest);
  }
  return false;
};

const isHigh = (shape) => (high) => {
  if (!Array.isArray(high)) return orNil(isNumber)(high);
  const last = Array.isArray(shape) ? shape.at(-1) : undefined;
  return isList(isNumber)(high) && Array.isArray(last) && last.every((bound) => bound === high.length);
};

const isMost = (value) => isInt(value) && value >= 1 && value <= 67174400;
const isKind = isArray(isText(), isMost, isFields(MOST_DEPTH));

/** Whether a header's `kinds` is as it should be. */
export function isKinds(kinds) {
  if (!isList(isKind)(kinds) || kinds.length > 1024) return false;
  const fields = new Map(kinds.map(([name, , described]) => [name, described]));
  const spelled = (described) => JSON.stringify(described, (_, n) => (typeof n === "bigint" ? `${n}` : n));
  const areOfAll = ([name, described]) => spelled(fields.get(name))?.replaceAll(`"${MOST}"`, MOST) === described;
  return fields.size === kinds.length && Object.entries(FIELDS_OF_ALL).every(areOfAll);
}

function must(holds, what) {
  if (!holds) throw new Malformed(what);
}

const within = (value, low, high) => (low === null || value >= low) && (high === null || value <= high);
const plain = (bound) => (isFloat(bound) ? bound.value : bound);

/** What a value of a type says; structs and maps as objects, arrays of numbers as { shape, numbers }. */
function read(type, value) {
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
    case "enum": must(first.includes(value), "not one of the values"); return value;
    case "list":
      must(Array.isArray(value) && within(value.length, second, third), "not such a list");
      return value.map((item) => read(first, item));
    case "struct": return readFields(first, value);
    case "map":
      must(value instanceof Map && [...value.keys()].every((name, i) => name === first[i]?.[0]), "not such a map");
      return readFields(first, [...value.values()]);
    case "union": return readUnion(first, value);
  }
  return readArray(type, value);
}

function readFields(fields, values) {
  must(Array.isArray(values) && values.length === fields.length, "not so many fields");
  return Object.fromEntries(fields.map(([name, type], i) => [name, read(type, values[i])]));
}

function readUnion(types, value) {
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
  must(Array.isArray(value) && value.length === 3 && value[0] === dtype && isList(isCount)(value[1]), "not an array of numbers");
  const [, lengths, content] = value;
  must(lengths.length === shape.length && lengths.every((length, i) => within(length, ...shape[i])), "another shape");
  const count = lengths.reduce((product, length) => product * BigInt(length), 1n);
  must(content instanceof Uint8Array && BigInt(content.length) === count * BigInt(SIZES[dtype]), "another length");
  const view = new DataView(content.buffer, content.byteOffset, content.length);
  const at = { u1: "getUint8", u2: "getUint16", u4: "getUint32", u8: "getBigUint64", i8: "getBigInt64", f8: "getFloat64" }[dtype];
  const numbers = Array.from({ length: Number(count) }, (_, i) => view[at](i * SIZES[dtype], true));
  const highOf = (i) => plain(Array.isArray(high) ? high[i % high.length] : high);
  must(numbers.every((n, i) => (dtype !== "f8" || Number.isFinite(n)) && within(n, plain(low), highOf(i))), "a number out of bounds");
  return { shape: lengths, numbers };
}

/** A body of a kind, its fields by name; throws Malformed. */
export function readBody([, most, fields], body) {
  must(body.length <= most, "too large");
  return readFields(fields, decode(body, { sorted: false }));
}
