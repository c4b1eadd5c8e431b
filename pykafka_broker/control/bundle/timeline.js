// The line of time of a recording: the views show the broker as it was after the request that is chosen here.
// Rule: only `pykafka-broker replay FILE --page` serves what this asks for, and adds this to the page.
import { ask } from "/page/api.js";
import { el, number } from "/page/dom.js";

const PATH = "/page/timeline";
const at = el("input.grow", { type: "range", min: 0, value: 0, "aria-label": "Request" });
const where = el("output.quiet");
const says = el("button.link.mono.long", { type: "button", "aria-expanded": "false", onclick: () => open(more.hidden) });
const more = el("div.moment", { hidden: true });
const back = el("button", { type: "button", "aria-label": "Request before", onclick: () => step(-1) }, "◀");
const on = el("button", { type: "button", "aria-label": "Next request", onclick: () => step(1) }, "▶");
const strip = el("section.timeline", { "aria-label": "Line of time" }, el("div.bar", {}, back, at, on, where), says, more);
let asked = 0; // of several looks only the last one counts

function open(wide) {
  more.hidden = !wide;
  says.setAttribute("aria-expanded", String(wide));
}

function step(by) {
  at.value = Number(at.value) + by;
  move();
}

function show(told) {
  where.textContent = `${number(told.number)} of ${number(Number(at.max))}`;
  says.textContent = told.line;
  const part = (title, content) => el("div", {}, el("h2", {}, title), el("pre", { tabindex: "0" }, content));
  more.replaceChildren(
    part("Request", JSON.stringify(told.request, null, 2)), part("Answer", JSON.stringify(told.response, null, 2)),
    ...(told.beside.length ? [part("Before it", told.beside.join("\n"))] : []),
    ...(told.differs ? [el("p.problem", { role: "alert" }, told.differs)] : []));
  back.disabled = told.number === 0;
  on.disabled = told.number === Number(at.max);
}

async function look(method) {
  asked += 1;
  const mine = asked;
  try {
    const told = await ask(method, `${PATH}/${at.value}`);
    if (mine === asked) show(told);
  } catch (error) {
    says.textContent = error.message;
  }
}

async function move() {
  strip.setAttribute("aria-busy", "true");
  await look("POST");
  strip.removeAttribute("aria-busy");
  dispatchEvent(new Event("hashchange")); // the view is made anew
}

at.addEventListener("input", () => look("GET"));
at.addEventListener("change", move);
const told = await ask("GET", PATH);
at.max = told.requests;
at.value = told.at;
document.querySelector("header").after(strip);
await look("GET");
