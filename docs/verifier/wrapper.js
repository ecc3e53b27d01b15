// The wrapper: zstandard frames (RFC 8878) within the bounds of section 1 of the format.

import { same } from "./bytes.js";
import { ZSTDDecoder } from "./zstddec/zstddec.mjs";

const MOST_CONTENT = 8388608;
const MOST_FRAME = 8422400;
const MOST_BLOCK = 131072;
const MAGIC = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd);

export class Unopenable extends Error {}
const TORN = null;
const RUN = 1;
const RESERVED = 3;

const isWrapped = (bytes) => same(bytes.subarray(0, 4), MAGIC.subarray(0, bytes.length));

/** What the header at the beginning of a frame says; its bytes are all there. */
function frameHeader(bytes) {
  const single = (bytes[4] >> 5) & 1;
  const stated = [single, 2, 4, 8][bytes[4] >> 6];
  const at = 6 - single + [0, 1, 2, 4][bytes[4] & 3];
  const size = bytes.subarray(at, at + stated).reduceRight((n, byte) => n * 256 + byte, 0) + (stated === 2 ? 256 : 0);
  const base = 2 ** (10 + (bytes[5] >> 3));
  const window = single ? size : base + (base / 8) * (bytes[5] & 7);
  return { length: at + stated, size, window, checksum: bytes[4] & 4 };
}

/** How many bytes the frame takes that begins here, by its blocks, and its largest block; TORN if it does not end. */
function measure(bytes) {
  if (!same(bytes.subarray(0, 4), MAGIC.subarray(0, bytes.length))) throw new Unopenable("not a frame");
  if (bytes.length < 5) return TORN;
  const { length, checksum } = frameHeader(bytes);
  let at = length;
  let largest = 0;
  for (let last = 0; !last; ) {
    if (at + 3 > bytes.length) return TORN;
    const block = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16);
    const kind = (block >> 1) & 3;
    last = block & 1;
    largest = Math.max(largest, block >> 3);
    at += 3 + (kind === RUN ? 1 : block >> 3) + (last && checksum ? 4 : 0);
    if (kind === RESERVED || at > MOST_FRAME) throw new Unopenable("a frame without an end");
  }
  return at > bytes.length ? TORN : { length: at, largest };
}

/** The content; the decoder holds the frame's checksum and stated size against it. */
function open(decoder, frame, largest) {
  const { size, window, checksum } = frameHeader(frame);
  if (!checksum || size < 1 || size > MOST_CONTENT || window > MOST_CONTENT) throw new Unopenable("a frame out of bounds");
  if (largest > Math.min(window, MOST_BLOCK)) throw new Unopenable("a frame has too large a block");
  const content = decoder.decode(frame, size);
  if (content.length !== size) throw new Unopenable("a frame is malformed, or its checksum is wrong");
  return content;
}

/**
 * The log's bytes, piece by piece: { content, end }, `end` being the bytes of the file up to there.
 * The last has `torn` true if the file ends inside a frame. Throws Unopenable.
 */
export async function* pieces(file) {
  if (!isWrapped(file)) {
    yield { content: file, end: file.length, torn: false };
    return;
  }
  const decoder = new ZSTDDecoder();
  await decoder.init();
  for (let at = 0; at < file.length; ) {
    const frame = measure(file.subarray(at));
    if (frame === TORN) {
      yield { content: new Uint8Array(0), end: file.length, torn: true };
      return;
    }
    const content = open(decoder, file.subarray(at, at + frame.length), frame.largest);
    at += frame.length;
    yield { content, end: at, torn: false };
  }
}
