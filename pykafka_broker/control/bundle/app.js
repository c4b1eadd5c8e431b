// Which view is shown, and what holds for all of them. A view is a function (main, context, ...parts of the address):
// context.every(ms, step) repeats a step for as long as the view is looked at, context.signal ends its requests.
// context.query is what stands behind the ? of the address, and context.keep(values) writes it there: what a view is asked
// for can be linked, and is there again after Back.
import { get } from "/page/api.js";
import { dialog, el, time } from "/page/dom.js";
import { joinNodes, notice } from "/page/cluster.js";
import { access, schemas } from "/page/access.js";
import { connections, overview } from "/page/overview.js";
import { records } from "/page/records.js";
import { group, groups } from "/page/groups.js";
import { requests } from "/page/requests.js";
import { telemetry } from "/page/telemetry.js";
import { testing } from "/page/testing.js";
import { broker, topic, topics } from "/page/topics.js";
import { transactions } from "/page/transactions.js";

const VIEWS = [
  ["", overview, "Overview", "o"],
  ["topics", topics, "Topics", "t"],
  ["topics/*", topic],
  ["topics/*/configs", topic],
  ["topics/*/groups", topic],
  ["topics/*/records", records],
  ["groups", groups, "Groups", "g"],
  ["groups/*", group],
  ["transactions", transactions, "Transactions", "x"],
  ["requests", requests, "Requests", "r"],
  ["connections", connections, "Connections", "c"],
  ["schemas", schemas, "Schemas", "s"],
  ["access", access, "Rights", "a"],
  ["telemetry", telemetry, "Client metrics", "m"],
  ["testing", testing, "Testing", "f"],
  ["brokers/*", broker],
].map(([path, view, title, key]) => ({ parts: path.split("/"), view, title, key }));

const RETRY_MS = 1000; // where a broker does not answer
const main = document.getElementById("main");
let leave = () => {};
let shown = ""; // the address of the view

function find(parts) {
  return VIEWS.find((each) => each.parts.length === parts.length && each.parts.every((part, at) => part === "*" || part === parts[at]));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed in by hand
  }
}

async function show(_, retried = false) {
  leave();
  shown = location.hash;
  const [address, query] = shown.replace(/^#\/?/, "").split("?");
  const parts = address.split("/").map(decoded);
  const found = find(parts);
  const ending = new AbortController();
  leave = () => ending.abort();
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.part === parts[0]) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  const content = el("div");
  main.replaceChildren(content);
  document.title = `${parts.filter(Boolean).join(" · ") || "Overview"} – pykafka-broker`;
  const context = {
    signal: ending.signal, every: (ms, step) => repeat(ms, step, ending.signal, content),
    query: new URLSearchParams(query), keep: (values) => keep(address, values, ending.signal),
  };
  try {
    if (!found) throw new Error(`There is no view ${address}.`);
    content.append(...[notice(parts[0])].filter(Boolean));
    await found.view(content, context, ...parts.slice(1));
  } catch (error) {
    if (!ending.signal.aborted) content.append(el("p.problem", { role: "alert" }, error.message));
    if (error.status === 0 || error.status >= 500) setTimeout(() => { if (!ending.signal.aborted) show(null, true); }, RETRY_MS);
  }
  if (ending.signal.aborted || retried) return; // the focus is where the user has put it
  const there = document.activeElement;
  if (!content.contains(there) && !there?.closest(".timeline")) main.focus({ preventScroll: true });
}

function keep(address, values, signal) {
  if (signal.aborted || location.hash !== shown) return; // a click may have changed it before `show` is told
  const said = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false && value !== 0);
  history.replaceState(null, "", `#/${address}${said.length ? `?${new URLSearchParams(said)}` : ""}`);
  shown = location.hash;
}

async function repeat(ms, step, signal, content) {
  let told = null;
  while (!signal.aborted) {
    try {
      if (!document.hidden) await step();
      told?.remove();
      told = null;
    } catch (error) {
      if (signal.aborted) return;
      told ??= content.insertBefore(el("p.problem", { role: "alert" }), content.firstChild);
      told.textContent = error.message;
    }
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
}

function navigation() {
  const named = VIEWS.filter((each) => each.title);
  document.getElementById("nav").append(...named.map((each) => el("a", { href: `#/${each.parts[0]}`, "data-part": each.parts[0], title: `g ${each.key}` }, each.title)));
  return Object.fromEntries(named.map((each) => [each.key, `#/${each.parts[0]}`]));
}

function help() {
  const keys = [["/", "search in this list"], ["n, p", "next and previous page"], ["j, k", "next and previous row"], ["Enter", "open"],
    ...VIEWS.filter((each) => each.title).map((each) => [`g ${each.key}`, each.title]), ["d", "light or dark"], ["?", "this list"]];
  dialog("Keyboard", el("dl", {}, keys.map(([key, says]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, says)])), null, () => {});
}

function theme(switching) {
  const stored = localStorage.getItem("theme");
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  let chosen = stored ?? system;
  if (switching) {
    chosen = chosen === "dark" ? "light" : "dark";
    localStorage.setItem("theme", chosen);
  }
  document.documentElement.dataset.theme = chosen;
}

function row(by) {
  const links = [...main.querySelectorAll("tbody tr")].map((each) => each.querySelector("a,button")).filter(Boolean);
  const at = links.indexOf(document.activeElement?.closest("tr")?.querySelector("a,button"));
  links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

function keyboard(places) {
  let before = "";
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input,textarea,select,dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      "/": () => main.querySelector("input[type=search]")?.focus(), "?": help, n: () => document.getElementById("next")?.click(),
      p: () => document.getElementById("previous")?.click(), j: () => row(1), k: () => row(-1), d: () => theme(true),
    };
    if (before === "g" && places[event.key]) location.hash = places[event.key];
    else if (actions[event.key]) actions[event.key]();
    else { before = event.key; return; }
    before = "";
    event.preventDefault();
  });
}

async function clock() {
  for (;;) {
    if (!document.hidden) {
      const now = await get("/clock").catch(() => null);
      const [date, hour] = now ? time(now.now_ms).slice(0, 19).split(" ") : [];
      const told = now ? [el("span.date", {}, `${date} `), `${hour} UTC${now.frozen ? ", frozen" : ""}`] : ["no answer"];
      document.getElementById("clock").replaceChildren(...told);
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

theme(false);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(false));
document.getElementById("theme").addEventListener("click", () => theme(true));
document.getElementById("help").addEventListener("click", help);
keyboard(navigation());
addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); }); // "#main" is no view
await joinNodes(document.getElementById("nodes"), show);
show();
clock();
