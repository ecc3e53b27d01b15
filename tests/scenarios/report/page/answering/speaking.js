// What a page says for one link: a report, a refusal, the question for its state.

const { concat, fromHex, hex, utf8 } = modules["bytes.js"];
const { agreed, answer, declined, invitation, random, stateOf } = modules["party.js"];
const [link, terms, place] = JSON.parse(new TextDecoder().decode(input));
const agreement = await agreed(await invitation(link), fromHex(terms), fromHex(place));
const refusals = [];
for (const codes of [[0, 0], [0, 0, 0, 0], [0, 3, 0], [0, -1, 0], [0, 0.5, 0], ["0", 0, 0]]) {
  try {
    await answer(agreement, codes);
  } catch (error) {
    refusals.push(error.constructor.name);
  }
}
const drawn = await answer(agreement, [1, 2, 4]);
const words = new Set(Array.from({ length: 100 }, random));
const said = { declined: await declined(agreement), state: await stateOf(agreement), body: drawn.body };
const spelled = Object.fromEntries(Object.entries(said).map(([name, bytes]) => [name, hex(bytes)]));
output(utf8(JSON.stringify({ ...spelled, refusals, words: words.size, most: [...words].some((word) => word >= 2n ** 63n) })));
