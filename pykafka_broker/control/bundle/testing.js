// Faults and the clock: what a test does to the broker, by hand.
import { get, part, post, remove } from "/page/api.js";
import { bytes, dialog, el, field, named, number, table, tag, time, toast, wrong } from "/page/dom.js";

const UNSAID = new Set(["id", "hits", "held", "fitted", "spent"]);
const PLAIN = { every: 1, probability: 1, delay_ms: 0, delay_clock: "broker", throttle_ms: 0 };
const STEPS = [["1 s", 1000], ["1 min", 60000], ["1 hour", 3600000], ["1 day", 86400000], ["8 days", 691200000]];

export async function testing(main, context) {
  const now = el("b", {}, "\u00a0"); // as high as what it will say: buttons stay where they are
  const frozen = el("span");
  const again = () => load(true).catch(wrong);
  const act = (step) => () => step().finally(again);
  const advance = (ms) => act(() => post("/clock/advance", { ms }));
  const list = table("Faults", [
    { title: "Fault", number: true, of: (each) => String(each.id) },
    { title: "Which requests, and what happens to them", of: (each) => el("span.mono", {}, says(each)) },
    { title: "Hits", number: true, of: (each) => number(each.hits) },
    { title: "Held now", number: true, of: (each) => number(each.held) },
    { title: "", of: (each) => [each.spent ? tag("spent") : null, " ", el("button.danger", { type: "button", onclick: act(() => remove(`/faults/${each.id}`)) }, "Remove")] },
  ], [], "There are no faults.");
  const snapshots = table("Snapshots", [
    { title: "Snapshot", of: (each) => named(each.name) },
    { title: "Records", number: true, of: (each) => bytes(each.size_bytes) },
    { title: "", of: (each) => [
      el("button", { type: "button", onclick: act(async () => { await post(`/snapshots/${part(each.name)}/restore`); toast(`The broker is as it was at ${each.name}.`); }) }, "Restore"), " ",
      el("button.danger", { type: "button", onclick: act(() => remove(`/snapshots/${part(each.name)}`)) }, "Delete")] },
  ], [], "There are no snapshots.");
  main.append(
    el("h1", {}, "Faults, clock and snapshots"), el("h2", {}, "Clock"),
    el("p.lead", {}, "All that the broker does by time follows this clock: retention, sessions, time-outs, locks."),
    el("div.cards", {}, el("div.card.wide", {}, el("span.quiet", {}, "The broker's time (UTC) ", frozen), now)),
    el("div.bar", {}, STEPS.map(([title, ms]) => el("button", { type: "button", onclick: advance(ms) }, `+ ${title}`)),
      el("button", { type: "button", onclick: act(() => post("/clock/freeze")) }, "Freeze"), el("button", { type: "button", onclick: act(() => post("/clock/resume")) }, "Resume")),
    el("h2", {}, "Faults"), el("div.bar", {},
      el("button.main", { type: "button", onclick: act(() => add(again)) }, "Add a fault"),
      el("button", { type: "button", onclick: () => disturb(again) }, "Chaos"),
      el("button.danger", { type: "button", onclick: act(() => remove("/faults")) }, "Remove all")),
    list.element, el("h2", {}, "Snapshots"), el("p.lead", {}, "The whole state under a name: topics, records, groups, open transactions, configs."), el("div.bar", {},
      el("button.main", { type: "button", onclick: () => take(again) }, "Take a snapshot"),
      el("button.danger", { type: "button", onclick: () => reset() }, "Reset the broker")), snapshots.element);
  let last = "";
  let lastSnapshots = "";
  async function load(whole = false) {
    const [clock, faults, kept] = await Promise.all(["/clock", "/faults", "/snapshots"].map((path) => get(path, {}, context.signal)));
    if (JSON.stringify(kept) !== lastSnapshots && (whole || !snapshots.body.contains(document.activeElement))) {
      lastSnapshots = JSON.stringify(kept);
      snapshots.show(kept);
    }
    now.textContent = time(clock.now_ms).slice(0, 19);
    frozen.replaceChildren(clock.frozen ? tag("frozen", "warn") : "");
    if (JSON.stringify(faults) === last || (!whole && list.body.contains(document.activeElement))) return;
    last = JSON.stringify(faults);
    list.show(faults);
  }
  context.every(500, () => load());
}

function says(fault) {
  return Object.entries(fault).filter(([name, value]) => !UNSAID.has(name) && value !== null && value !== false && value !== PLAIN[name] && !(name === "seed" && fault.probability === 1))
    .map(([name, value]) => `${name}=${Array.isArray(value) ? value.join(",") : value}`).join("  ");
}

function take(done) {
  const name = el("input", { required: true, maxlength: 100, autocomplete: "off" });
  dialog("Take a snapshot", field("Name", name), "Take", async () => {
    await post(`/snapshots/${part(name.value)}`);
    done();
  });
}

async function add(done) {
  const input = (attributes = {}) => el("input", { autocomplete: "off", ...attributes });
  const choice = (...names) => el("select", {}, names.map((each) => el("option", { value: each }, each || "no")));
  const known = (name, these) => [input({ list: name }), el("datalist", { id: name }, these.map((each) => el("option", { value: each })))];
  const { apis, errors } = await get("/browse/names");
  const [api, apiNames] = known("apis", apis);
  const [error, errorNames] = known("errors", errors);
  const fields = {
    api: ["API; empty for any", api], client_id: ["Client id; * fits anything", input()], topic: ["Topic", input()],
    partition: ["Partition", input({ type: "number", min: 0 })], group: ["Group", input()],
    every: ["Every n-th of them", input({ type: "number", min: 1 })], probability: ["Share of them, 0 to 1", input({ type: "number", min: 0, max: 1, step: 0.01 })],
    times: ["How often; empty for always", input({ type: "number", min: 1 })], error: ["Error", error],
    delay_ms: ["Delay in ms", input({ type: "number", min: 0, max: 3600000 })], drop: ["Drop the connection", choice("", "before", "after")],
    throttle_ms: ["Throttle in ms", input({ type: "number", min: 0, max: 3600000 })], connect: ["New connections", choice("", "refuse", "hang")],
    cut: ["Send half of the answer", input({ type: "checkbox" })], corrupt: ["Spoil the CRC of fetched records", input({ type: "checkbox" })],
    hang: ["Never answer", input({ type: "checkbox" })],
  };
  dialog("Add a fault", [el("div.columns", {}, Object.values(fields).map(([title, control]) => field(title, control))), apiNames, errorNames], "Add", async () => {
    const body = {};
    for (const [name, [, control]] of Object.entries(fields)) {
      if (control.type === "checkbox") { if (control.checked) body[name] = true; }
      else if (control.value !== "") body[name] = control.type === "number" ? Number(control.value) : control.value;
    }
    await post("/faults", body);
    done();
  });
}

function disturb(done) {
  const [seed, rate] = [el("input", { type: "number", min: 0, value: 1, required: true }), el("input", { type: "number", min: 0, max: 1, step: 0.01, value: 0.05, required: true })];
  dialog("Disturb at random", [el("p", {}, "That share of all requests meets what clients have to recover from. A share of 0 ends it."), field("Seed", seed), field("Share", rate)], "Go", async () => {
    await post("/chaos", { seed: Number(seed.value), rate: Number(rate.value) });
    done();
  });
}

function reset() {
  dialog("Reset the broker?", el("p", {}, "Topics, records, groups, transactions, faults: all of it goes. Clients stay connected."), "Reset", async () => {
    await post("/reset");
    toast("The broker is empty.");
  }, { danger: true });
}
