// Elements and what is made of them. Rule: what the broker tells becomes text and never markup.

const SVG = "http://www.w3.org/2000/svg";
const MOST_ROWS = 1000; // of a table
const MOST_INDENTED = 40; // levels of JSON

export function el(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), singly(value));
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// a handler that does nothing while its last step is under way, and shows why a step failed
const singly = (step) => {
  let busy = false;
  return async (event) => {
    if (busy) return;
    busy = true;
    try {
      await step(event);
    } catch (error) {
      wrong(error);
    } finally {
      busy = false;
    }
  };
};

export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().replace("T", " ").replace("Z", "");
}

// a name of any length in a table: it must not push the other columns out of sight
export const named = (text, href) => el("span.cell", { title: text }, href ? el("a", { href }, text) : text);

export const tag = (text, kind = "") => el(`span.tag${kind ? `.${kind}` : ""}`, {}, text);

export function table(label, columns, rows, nothing = "Nothing here.") {
  // columns: {title, number, of(row), sort}; a sort is {key, state, change}
  const head = columns.map((column) => {
    const order = column.sort && column.sort.state.sort === column.sort.key
      ? (column.sort.state.descending ? "descending" : "ascending") : null;
    const title = column.sort
      ? el("button", { type: "button", onclick: column.sort.change, "data-order": { ascending: "↑", descending: "↓" }[order] ?? "" }, column.title)
      : column.title;
    return el(column.number ? "th.number" : "th", { scope: "col", "aria-sort": order }, title);
  });
  const body = el("tbody");
  const show = (these, total = these.length) => keepingFocus(body, () => body.replaceChildren(...(these.length
    ? these.slice(0, MOST_ROWS).map((row) => el("tr", {}, columns.map((column) => el(column.number ? "td.number" : "td", {}, column.of(row)))))
    : [el("tr", {}, el("td.empty", { colspan: columns.length }, nothing))]), ...(total > these.length || total > MOST_ROWS
    ? [el("tr", {}, el("td.empty", { colspan: columns.length }, `The first ${number(Math.min(these.length, MOST_ROWS))} of ${number(total)}.`))] : [])));
  show(rows);
  const whole = el("div.scroll", {}, el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, head)), body));
  return { element: whole, body, show };
}

export const sortedBy = (state, load) => (key) => ({ key, state, change: () => {
  state.descending = state.sort === key && !state.descending;
  state.sort = key;
  state.offset = 0;
  load();
} });

export function keepingFocus(element, change) {
  // what is shown anew every second must not throw out who goes through it with the keyboard
  const stops = () => [...element.querySelectorAll("a,button")];
  const at = stops().indexOf(document.activeElement);
  if (at < 0) return change();
  const named = (each) => each.getAttribute("href") ?? each.textContent;
  const was = named(document.activeElement);
  change();
  const [same, ...others] = stops().filter((each) => named(each) === was);
  (same && !others.length ? same : stops()[at])?.focus({ preventScroll: true }); // rows may have changed places
}

export function laidOut(json) {
  // by its tokens: to parse and write it again would round long numbers and drop names that come twice
  const pieces = [];
  try {
    JSON.parse(json);
    let [depth, before] = [0, ""];
    for (const token of json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
      const [begun, ends] = ["{[".includes(before), "}]".includes(token)];
      depth -= ends;
      if (before && (ends ? !begun : begun || before === ",")) pieces.push(`\n${"  ".repeat(Math.min(depth, MOST_INDENTED))}`);
      pieces.push(token === ":" ? ": " : token);
      depth += "{[".includes(token);
      before = token;
    }
  } catch {
    return json; // it is no JSON, or has a text that is too long for the expression
  }
  return pieces.join("");
}

export function pager(state, total, change) {
  const last = Math.min(state.offset + state.limit, total);
  if (state.offset && state.offset >= total) queueMicrotask(() => change(Math.max(0, state.limit * Math.floor((total - 1) / state.limit)))); // rows have gone
  const step = (by) => () => change(Math.max(0, state.offset + by * state.limit));
  return el("div.bar", {},
    el("span.quiet.grow", { "aria-live": "polite" }, total ? `${number(state.offset + 1)}–${number(last)} of ${number(total)}` : "0"),
    el("button", { type: "button", id: "previous", disabled: state.offset === 0, onclick: step(-1) }, "Previous"),
    el("button", { type: "button", id: "next", disabled: last >= total, onclick: step(1) }, "Next"));
}

export function spark(values) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  const most = Math.max(1, ...values);
  const step = 100 / Math.max(1, values.length - 1);
  path.setAttribute("d", values.map((value, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(24 - (22 * value) / most).toFixed(1)}`).join(""));
  svg.setAttribute("viewBox", "0 0 100 26");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return svg;
}

export function toast(text, bad = false) {
  const shown = el(`div.toast${bad ? ".bad" : ""}`, {}, text);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), bad ? 8000 : 3500);
}

export const wrong = (error) => { if (error.name !== "AbortError") toast(error.message, true); };

export function dialog(title, fields, action, done, { danger = false } = {}) {
  // fields: elements; done(form) does it, and may throw what is then shown in the dialog
  const problem = el("div");
  const form = el("form", {}, el("h2", {}, title), fields, problem, el("div.bar", {},
    el("button", { type: "button", onclick: () => box.close() }, action ? "Cancel" : "Close"),
    action ? el(`button.main${danger ? ".danger-fill" : ""}`, { type: "submit" }, action) : null));
  const box = el("dialog", { "aria-label": title, onclose: () => box.remove() }, form);
  const submit = singly(async () => {
    try {
      await done(form);
    } catch (error) {
      if (error.name !== "AbortError") return problem.replaceChildren(el("p.problem", { role: "alert" }, error.message));
    }
    box.close(); // the deed is done also where its view has been left before it could show that
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  document.body.append(box);
  box.showModal();
  form.querySelector("input,select,textarea")?.focus();
  return box;
}

export function typedAgain(name) {
  // an input for the name of what shall go, and the check that it is that name
  const again = el("input", { autocomplete: "off", required: true });
  return [again, () => { if (again.value !== name) throw new Error("That is not its name."); }];
}

export const field = (label, input) => el(input.type === "checkbox" ? "label.check" : "label", {}, input.type === "checkbox" ? [input, label] : [label, input]);
