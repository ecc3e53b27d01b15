// Keys of seeds, and their signatures.

const { fromHex, hex, utf8 } = modules["bytes.js"];
const { keyOf } = modules["signing.js"];
const said = [];
for (const [seed, message] of JSON.parse(new TextDecoder().decode(input))) {
  const { key, sign } = await keyOf(fromHex(seed));
  said.push([hex(key), hex(await sign(fromHex(message)))]);
}
output(utf8(JSON.stringify(said)));
