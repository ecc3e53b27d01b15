// Makes the reports of all vectors and says what comes out: for each survey what was agreed, and for each report its bytes.

const { fromHex, hex, utf8 } = modules["bytes.js"];
const { agreed, again, answer, invitation } = modules["party.js"];
const { digestOf } = modules["variants.js"];
const { decode } = modules["msgpack.js"];
const { sha256 } = modules["sha256.js"];

function* hashed(name) {
  for (let number = 0; ; number++) {
    const block = sha256(utf8(name), new Uint8Array(Uint32Array.of(number).buffer));
    yield* new BigUint64Array(block.buffer);
  }
}

const found = [];
for (const { terms, place, link, reports } of JSON.parse(new TextDecoder().decode(input))) {
  const agreement = await agreed(await invitation(link), fromHex(terms), fromHex(place));
  const { protocol } = agreement;
  const said = [];
  for (const { name, codes, words } of reports) {
    const rest = hashed(name);
    let used = 0;
    const next = () => (used < words.length ? BigInt(`0x${words[used++]}`) : (used++, rest.next().value));
    const { report, body } = await answer(agreement, codes, next);
    const repeated = await again(agreement, report);
    if (hex(repeated.body) !== hex(body)) throw new Error("not the same again");
    const shown = protocol.shown(report).map(({ attributes, kind, value }) => [attributes, kind, value]);
    said.push({ used, report: hex(report), post: hex(sha256(body)), shown });
  }
  const told = protocol.told.map(({ share }) => share);
  const survey = decode(decode(fromHex(terms))[0])[3];
  found.push({ session: hex(agreement.session), digest: hex(digestOf(survey)), epsilon: protocol.epsilon, told, reports: said });
}
output(utf8(JSON.stringify(found, (_, value) => (value === Infinity ? "infinite" : value))));
