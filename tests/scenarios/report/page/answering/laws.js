// How often each report is drawn, by randomizer and input: words are a keystream of AES-256 in counter mode.

const { hex, utf8 } = modules["bytes.js"];
const randomizers = modules["randomizers.js"];
const { protocolOf } = modules["variants.js"];
const { decode } = modules["msgpack.js"];
const { fromHex } = modules["bytes.js"];
const { seed, draws, cases } = JSON.parse(new TextDecoder().decode(input));

const cipher = require("node:crypto").createCipheriv("aes-256-ctr", fromHex(seed), Buffer.alloc(16));
let block = new BigUint64Array(0);
let at = 0;
const words = () => {
  if (at === block.length) [block, at] = [new BigUint64Array(new Uint8Array(cipher.update(Buffer.alloc(65536))).buffer), 0];
  return block[at++];
};

const TERMS = ["variant", "code", "parameters", "survey", "analysis", "neighbours", "nonce", "roles", "enrolled", "kinds"];

/** What draws a report of an input, spelled so that equal reports are equal texts. */
function drawing({ terms, make, fields }) {
  if (terms) {
    const values = decode(fromHex(terms));
    const protocol = protocolOf(Object.fromEntries(TERMS.map((name, i) => [name, values[i]])));
    return (codes) => hex(protocol.draw(codes, words));
  }
  const big = (value) => (Array.isArray(value) ? value.map(big) : BigInt(value));
  if (make === "PrivKV") {
    const responses = fields.slice(1).map((pair) => new randomizers.KeepUniform(...big(pair)));
    const one = new randomizers.PrivKV(BigInt(fields[0]), ...responses);
    return (values) => one.draw(values, words).join();
  }
  const one = new randomizers[make](...big(fields));
  return (code) => one.draw(big(code), words).join();
}

const found = cases.map((given) => {
  const draw = drawing(given);
  const each = Math.ceil(draws / given.inputs.length);
  return given.inputs.map((value) => {
    const counts = {};
    for (let i = 0; i < each; i++) {
      const report = draw(value);
      counts[report] = (counts[report] ?? 0) + 1;
    }
    return counts;
  });
});
output(utf8(JSON.stringify(found)));
