// Makes receipts of posts and acknowledgements, and judges receipts.

const { fromHex, hex, utf8 } = modules["bytes.js"];
const { agreed, counted, invitation, receiptOf, Refused } = modules["party.js"];
const { link, terms, place, given, kept } = JSON.parse(new TextDecoder().decode(input));
const agreement = await agreed(await invitation(link), fromHex(terms), fromHex(place));
const made = [];
for (const [body, acknowledgement] of given) {
  try {
    const { receipt, note, problems } = await receiptOf(agreement, fromHex(body), fromHex(acknowledgement));
    made.push([hex(receipt), note, problems, await counted(agreement, receipt, note, fromHex(body))]);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    made.push(error.reason);
  }
}
const said = [];
for (const [receipt, note, body] of kept) said.push(await counted(agreement, fromHex(receipt), note, body && fromHex(body)));
output(utf8(JSON.stringify({ made, said })));
