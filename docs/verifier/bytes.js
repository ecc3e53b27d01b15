// Bytes and their spellings.

export const utf8 = (text) => new TextEncoder().encode(text);

/** Strict UTF-8; throws a TypeError where it is not. */
export const text = (bytes) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);

export function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Below zero, zero or above: the order of bytes, a prefix first. */
export function compare(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

export const same = (a, b) => compare(a, b) === 0;

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export function fromHex(digits) {
  if (!/^([0-9a-f]{2})*$/.test(digits)) throw new Error("not pairs of hexadecimal digits");
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** Base64 in the one way that decodes and encodes to itself. */
export function fromBase64(spelled) {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(spelled) || spelled.length % 4) throw new Error("not base64");
  const decoded = atob(spelled);
  if (btoa(decoded) !== spelled) throw new Error("not canonical base64");
  return Uint8Array.from(decoded, (character) => character.charCodeAt(0));
}
