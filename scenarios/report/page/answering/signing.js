// Ed25519 keys from their seeds: by WebCrypto, or by hand where it has none.

import { concat, fromBase64 } from "./bytes.js";
import { BASE, combined, encoded, L, little, mod, sha512, toLittle } from "./curve.js";
import { isUnknown } from "./ed25519.js";

const PKCS8 = Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20); // what is before the seed (RFC 8410)
const NAME = { name: "Ed25519" };

/** Bytes from base64url without padding, in the one way that encodes to itself. */
export function fromUrl(spelled) {
  if (!/^[\w-]*$/.test(spelled)) throw new Error("not base64url");
  const plain = spelled.replaceAll("-", "+").replaceAll("_", "/");
  return fromBase64(plain + "=".repeat(-plain.length & 3));
}

/** The public key of a seed of 32 bytes, and what signs with it. */
export async function keyOf(seed) {
  try {
    const secret = await crypto.subtle.importKey("pkcs8", concat(PKCS8, seed), NAME, true, ["sign"]);
    const { x } = await crypto.subtle.exportKey("jwk", secret);
    return { key: fromUrl(x), sign: async (message) => new Uint8Array(await crypto.subtle.sign(NAME, secret, message)) };
  } catch (error) {
    if (isUnknown(error)) return keyByHand(seed);
    throw error;
  }
}

async function keyByHand(seed) {
  const hash = await sha512(seed);
  hash[0] &= 248;
  hash[31] = (hash[31] & 127) | 64;
  const scalar = little(hash.subarray(0, 32));
  const key = encoded(combined([scalar, BASE]));
  const sign = async (message) => {
    const r = mod(little(await sha512(hash.subarray(32), message)), L);
    const point = encoded(combined([r, BASE]));
    const k = mod(little(await sha512(point, key, message)), L);
    return concat(point, toLittle(mod(r + k * scalar, L)));
  };
  return { key, sign };
}
