// Shows the step that the slider is at; without this script, the last step is shown.
const slider = document.getElementById("step");
const says = document.getElementById("step-says");
const parts = document.querySelectorAll("[data-step]");
function show() {
  const at = Number(slider.value);
  for (const part of parts) {
    const { step, until = step } = part.dataset;
    part.toggleAttribute("hidden", at < Number(step) || at > Number(until));
  }
  for (const panel of document.querySelectorAll(".stepped")) {
    const words = panel.querySelectorAll("g[data-step]:not([hidden]) tspan");
    panel.querySelectorAll("td").forEach((cell, row) => (cell.textContent = words[row].textContent));
  }
  const event = document.querySelector(`.event[data-step="${slider.value}"]`).textContent;
  says.textContent = says.dataset.says.replace("{step}", slider.value).replace("{steps}", slider.max);
  slider.setAttribute("aria-valuetext", `${says.textContent}. ${event}`);
}
function end() {
  slider.value = slider.max;
  show();
}
slider.addEventListener("input", show);
addEventListener("beforeprint", end);
slider.parentElement.hidden = false;
end();
