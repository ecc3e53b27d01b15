// Whether signatures are right.

const { fromHex, utf8 } = modules["bytes.js"];
const { verify } = modules["ed25519.js"];
const said = [];
for (const triple of JSON.parse(new TextDecoder().decode(input))) said.push(await verify(...triple.map(fromHex)));
output(utf8(JSON.stringify(said)));
