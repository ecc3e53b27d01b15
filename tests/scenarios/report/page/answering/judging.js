// Judges links with what is served: why each is refused, or "agreed".

const { fromHex, utf8 } = modules["bytes.js"];
const { agreed, invitation, Refused } = modules["party.js"];
const said = [];
for (const [link, terms, place] of JSON.parse(new TextDecoder().decode(input))) {
  try {
    await agreed(await invitation(link), fromHex(terms), fromHex(place));
    said.push("agreed");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    said.push(error.reason);
  }
}
output(utf8(JSON.stringify(said)));
