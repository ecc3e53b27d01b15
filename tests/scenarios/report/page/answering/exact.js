// Randomizers from epsilons, and the arithmetic behind them: integers as text, "unfit" where there is none.

const { utf8 } = modules["bytes.js"];
const { before, logRatio, sumOf, Unfit } = modules["exact.js"];
const { FakeData, KeepUniform, oracle, PrivKV } = modules["randomizers.js"];
const { made, ratios, sums } = JSON.parse(new TextDecoder().decode(input));

const NAMES = {
  sue: ["hit", "other"], oue: ["hit", "other"], blh: ["groups"], olh: ["groups"], "subset-selection": ["chosen", "threshold"],
  "one-bit": ["step"], piecewise: ["step", "window", "threshold"],
};

function fields(name, size, number) {
  if (name === "keep") return [KeepUniform.withKeep(size, number)].map(({ threshold, epsilon }) => [[threshold], epsilon])[0];
  if (name === "rs-fd") return [FakeData.withEpsilon([size, 2n, 7n], number)].map((one) => [one.thresholds, one.epsilon])[0];
  if (name === "privkv") return [PrivKV.withBudget(size, number)].map((one) => [[one.keyResponse.threshold], one.epsilon])[0];
  const one = oracle(name, ["one-bit", "piecewise"].includes(name))(size, number);
  const own = (NAMES[name] ?? ["threshold"]).map((field) => one[field]);
  return [one.keep ? [...own, one.keep.threshold] : own, one.epsilon];
}

const found = made.map(([name, size, number]) => {
  try {
    return fields(name, BigInt(size), number);
  } catch (error) {
    if (!(error instanceof Unfit)) throw error;
    return "unfit";
  }
});
const said = {
  made: found,
  logs: ratios.map(([numerator, denominator]) => logRatio(BigInt(numerator), BigInt(denominator))),
  sums: sums.map(sumOf),
  before: sums.flat().map(before),
};
output(utf8(JSON.stringify(said, (_, value) => (typeof value === "bigint" ? `${value}` : value))));
