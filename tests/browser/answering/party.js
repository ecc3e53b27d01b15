// A party that counts its draws, in the place of the true one.

import { text, utf8 } from "./bytes.js";
import { decode } from "./msgpack.js";

export class Refused extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

export const draws = { made: 0 };

export async function invitation(link) {
  const parts = /^(p-\d+)\.seed\.survey$/.exec(link);
  if (!parts) throw new Refused("link");
  return { party: parts[1], survey: new Uint8Array(32).fill(7) };
}

export async function agreed({ party }, terms, place) {
  const [name, attempt] = decode(terms);
  if (name !== "terms" || decode(place) !== `asks ${party}`) throw new Refused("survey");
  const shown = (report) => [{ attributes: [0], kind: "answers", value: [text(report)] }];
  return { attempt, party, protocol: { epsilon: 1, told: [], shown } };
}

export async function answer({ attempt }, codes, words) {
  draws.made += 1;
  const report = utf8(`${codes} ${words()}`);
  return { report, body: utf8(`${attempt} ${text(report)}`) };
}

export const again = async ({ attempt }, report) => ({ report, body: utf8(`${attempt} ${text(report)}`) });
export const declined = async ({ attempt }) => utf8(`${attempt} declined`);
export const stateOf = async ({ party }) => utf8(party);

export async function receiptOf(agreement, body, given) {
  if (!text(given).startsWith("given ")) throw new Refused("unexpected");
  const problems = text(given) === `given ${text(body)}` ? [] : ["the checkpoint is not signed by the key in it"];
  return { receipt: given, note: "note", problems };
}

export async function counted(agreement, receipt, note, body) {
  const [word, about] = text(receipt).split(": ");
  const isWrong = word === "forged" || (body !== null && about !== text(body));
  return isWrong ? ["a report was not counted"] : word;
}
