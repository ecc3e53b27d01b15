// The languages of the page's own words, which its frame holds as JSON.

export const WORDS = JSON.parse(document.getElementById("words").textContent);

const RIGHT_TO_LEFT = ["Arab", "Hebr", "Thaa", "Syrc", "Nkoo", "Adlm", "Rohg"];

/** A language (BCP 47) as the browser takes it; English where it does not. */
export function localeOf(tag) {
  try {
    return new Intl.Locale(tag);
  } catch {
    return new Intl.Locale("en");
  }
}

export const directionOf = (tag) => (RIGHT_TO_LEFT.includes(localeOf(tag).maximize().script) ? "rtl" : "ltr");

/** Whether two tags are of one language. */
export const isAlike = (one, other) => one.toLowerCase().split("-")[0] === other.toLowerCase().split("-")[0];

/** The first of the wanted languages that is there, in the very form if possible; else the first that is there. */
export function chosen(wanted, there) {
  for (const each of wanted) {
    const found = there.find((tag) => tag.toLowerCase() === each.toLowerCase()) ?? there.find((tag) => isAlike(tag, each));
    if (found) return found;
  }
  return there[0];
}

/** The language of the page's own words beside texts in another. */
export const own = (tag, wanted) => chosen([tag, ...wanted, "en"], Object.keys(WORDS));

/** A sentence with its gaps filled. */
export const filled = (sentence, values) => sentence.replace(/\{(\w+)\}/g, (_, name) => values[name]);
