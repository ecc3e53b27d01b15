// Digests of surveys: their fields come sorted, as terms have them, and are hashed in the program's order.

const { fromHex, hex, utf8 } = modules["bytes.js"];
const { decode } = modules["msgpack.js"];
const { digestOf } = modules["variants.js"];
const surveys = JSON.parse(new TextDecoder().decode(input));
const digests = surveys.map((survey) => {
  try {
    return hex(digestOf(decode(fromHex(survey))));
  } catch (error) {
    return error.message;
  }
});
output(utf8(JSON.stringify(digests)));
