// Topics: the list, one topic's partitions and configs, and what is made and removed.
import { get, part, post, remove } from "/page/api.js";
import { bytes, dialog, el, field, named, number, pager, sortedBy, table, tag, toast, typedAgain, wrong } from "/page/dom.js";
import { groupColumns } from "/page/groups.js";

export async function topics(main, context) {
  const asked = (name) => context.query.get(name);
  const state = {
    search: asked("search") ?? "", internal: asked("internal") !== null, sort: asked("sort") ?? "name",
    descending: asked("descending") !== null, offset: Number(asked("offset")), limit: 100,
  };
  const rates = new Rates();
  const search = el("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search topics", value: state.search });
  const internal = el("input", { type: "checkbox", checked: state.internal });
  const place = el("div");
  const sorted = sortedBy(state, () => again());
  const columns = [
    { title: "Topic", sort: sorted("name"), of: (each) => [named(each.name, `#/topics/${part(each.name)}`), " ", each.internal ? tag("internal") : null] },
    { title: "Partitions", number: true, sort: sorted("partitions"), of: (each) => number(each.partitions) },
    { title: "Replicas", number: true, of: (each) => [each.out_of_sync ? tag(`${each.out_of_sync} out of sync`, "warn") : null, " ", number(each.replication_factor)] },
    { title: "Records", number: true, sort: sorted("records"), of: (each) => number(each.records) },
    { title: "Size", number: true, sort: sorted("bytes"), of: (each) => bytes(each.bytes) },
    { title: "Records in/s", number: true, of: (each) => rates.of(each, "messages_in", number) },
    { title: "In/s", number: true, of: (each) => rates.of(each, "bytes_in", bytes) },
    { title: "Out/s", number: true, of: (each) => rates.of(each, "bytes_out", bytes) },
    { title: "", of: (each) => el("a", { href: `#/topics/${part(each.name)}/records` }, "Records") },
  ];
  let shown = null;
  let last = "";
  async function load(whole = false) {
    const question = JSON.stringify(state);
    const found = await get("/browse/topics", state, context.signal);
    if (question !== JSON.stringify(state)) return;
    context.keep({ ...state, sort: state.sort === "name" ? "" : state.sort, limit: null });
    rates.took(found.topics);
    const now = JSON.stringify([found, question, rates.moving]);
    if (now === last && !whole) return;
    if (whole || !shown || shown.total !== found.total) {
      const list = table("Topics", columns, found.topics, state.search ? "No topic has that in its name." : "There are no topics yet.");
      const focused = document.activeElement?.id;
      place.replaceChildren(list.element, pager(state, found.total, (offset) => again({ offset })));
      if (focused === "next" || focused === "previous") document.getElementById(focused)?.focus();
      shown = { total: found.total, list };
    } else if (shown.list.body.contains(document.activeElement)) return; // not while a link is pressed
    else shown.list.show(found.topics);
    last = now;
  }
  const again = (change) => {
    Object.assign(state, change);
    load(true).catch(wrong);
  };
  search.addEventListener("input", () => again({ search: search.value, offset: 0 }));
  internal.addEventListener("change", () => again({ internal: internal.checked, offset: 0 }));
  main.append(el("h1", {}, "Topics"), el("div.bar", {}, el("span.grow", {}, search), field("Internal topics", internal),
    el("button.main", { type: "button", onclick: () => create() }, "Create a topic")), place);
  context.every(1500, () => load());
}

class Rates {
  // What counters of topics have grown by a second between two looks.
  before = new Map();
  now = new Map();
  moving = 0;

  took(rows) {
    const at = performance.now();
    this.before = this.now;
    this.now = new Map(rows.map((each) => [each.name, { ...each, at }]));
    this.moving = rows.some((each) => this.of(each, "bytes_in", String) !== "–" || this.of(each, "bytes_out", String) !== "–") ? at : 0;
  }

  of(row, name, form) {
    const [before, now] = [this.before.get(row.name), this.now.get(row.name)];
    if (!before || !now || now.at === before.at || now[name] <= before[name]) return "–";
    return form(Math.round((now[name] - before[name]) / ((now.at - before.at) / 1000)));
  }
}

function create() {
  const name = el("input", { required: true, maxlength: 249, autocomplete: "off" });
  const partitions = el("input", { type: "number", min: 1, max: 100000, value: 1, required: true });
  const config = el("textarea", { placeholder: "cleanup.policy=compact\nretention.ms=60000" });
  dialog("Create a topic", [field("Name", name), field("Partitions", partitions), field("Configs, one key=value a line", config)], "Create", async () => {
    const pairs = config.value.split("\n").filter((line) => line.trim()).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`"${line}" is not key=value`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
    await post("/topics", { name: name.value, partitions: Number(partitions.value), config: Object.fromEntries(pairs) });
    toast(`Topic ${name.value} is made.`);
    location.hash = `#/topics/${part(name.value)}`;
  });
}

export function topicHead(name, active) {
  const link = (where, title) => el("a", { href: `#/topics/${part(name)}${where}`, "aria-current": where === active ? "page" : null }, title);
  return [el("h1", {}, name), el("nav.tabs", { "aria-label": "Of this topic" }, link("", "Partitions"), link("/records", "Records"), link("/configs", "Configs"), link("/groups", "Groups"))];
}

export async function topic(main, context, name, tab) {
  main.append(...topicHead(name, tab ? `/${tab}` : ""));
  if (tab === "configs") return configs(main, context, "topic", name);
  if (tab === "groups") return readers(main, context, name);
  const state = { offset: 0, limit: 100 };
  const about = el("span.quiet.grow");
  const place = el("div");
  const list = table("Partitions", [
    { title: "Partition", number: true, of: (each) => el("a", { href: `#/topics/${part(name)}/records?partition=${each.partition}` }, String(each.partition)) },
    { title: "Leader", number: true, of: (each) => (each.leader < 0 ? tag("none", "bad") : String(each.leader)) },
    { title: "Epoch", number: true, of: (each) => String(each.leader_epoch) },
    { title: "Replicas", of: (each) => each.replicas.join(", ") },
    { title: "In sync", of: (each) => [each.isr.join(", ") || "–", " ", each.isr.length < each.replicas.length ? tag("behind", "warn") : null] },
    { title: "Start", number: true, of: (each) => number(each.start) },
    { title: "End", number: true, of: (each) => [each.stable < each.end ? tag(`undecided from ${each.stable}`, "warn") : null, " ", number(each.end)] },
    { title: "Size", number: true, of: (each) => bytes(each.bytes) },
    { title: "Segments", number: true, of: (each) => number(each.segments) },
  ], []);
  let last = "";
  let total = 0;
  const load = async () => {
    const { offset } = state;
    const found = await get(`/browse/topics/${part(name)}`, state, context.signal);
    if (offset !== state.offset || JSON.stringify(found) === last) return;
    last = JSON.stringify(found);
    total = found.total;
    about.replaceChildren(`${number(found.total)} partition${found.total === 1 ? "" : "s"}, id `, el("span.mono", {}, found.topic_id));
    list.show(found.partitions);
    place.replaceChildren(found.total > state.limit ? pager(state, found.total, (offset) => { state.offset = offset; load().catch(wrong); }) : "");
  };
  await load();
  main.append(el("div.bar", {}, about,
    el("button", { type: "button", onclick: () => grow(name, total, load) }, "Add partitions"),
    el("button", { type: "button", onclick: () => empty(name, total, load) }, "Delete records"),
    el("button.danger", { type: "button", onclick: () => drop(name) }, "Delete the topic")), list.element, place);
  context.every(1500, load);
}

async function readers(main, context, name) {
  const list = table("Groups", groupColumns(() => null), [], "No group has committed an offset of this topic.");
  main.append(list.element);
  context.every(1500, async () => {
    const { groups, total } = await get("/browse/groups", { topic: name, limit: 500 }, context.signal);
    list.show(groups, total);
  });
}

function grow(name, total, done) {
  const wanted = el("input", { type: "number", min: total + 1, max: 100000, value: total + 1, required: true });
  dialog(`Partitions of ${name}`, [el("p", {}, `It has ${number(total)}. Keys of new records may go to other partitions then.`), field("Partitions in all", wanted)], "Add", async () => {
    await post(`/topics/${part(name)}/partitions`, { total: Number(wanted.value) });
    await done();
  });
}

function empty(name, total, done) {
  const partition = el("input", { type: "number", min: 0, max: total - 1, placeholder: "all" });
  const before = el("input", { type: "number", min: 0, placeholder: "all that are there" });
  dialog(`Delete records of ${name}`, [el("p", {}, "The log of each partition then begins at that offset."), field("Before the offset", before), field("Partition", partition)], "Delete", async () => {
    await remove(`/topics/${part(name)}/records`, { before_offset: before.value, partition: partition.value });
    await done();
  }, { danger: true });
}

function drop(name) {
  const [again, check] = typedAgain(name);
  dialog(`Delete ${name}?`, [el("p", {}, "Its records go with it. Write its name to say that you mean it."), field("Name", again)], "Delete", async () => {
    check();
    await remove(`/topics/${part(name)}`);
    toast(`Topic ${name} is deleted.`);
    location.hash = "#/topics";
  }, { danger: true });
}

export async function configs(main, context, kind, name) {
  let all = await get(`/browse/configs/${kind}/${part(name)}`, {}, context.signal);
  const search = el("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search configs", value: context.query.get("search") ?? "" });
  const changed = el("input", { type: "checkbox", checked: context.query.get("set") !== null });
  const reload = async () => {
    all = await get(`/browse/configs/${kind}/${part(name)}`, {}, context.signal);
    show();
  };
  const list = table("Configs", [
    { title: "Config", of: (each) => el("span.mono", {}, each.name) },
    { title: "Value", of: (each) => (each.secret ? tag("secret") : [el("span.mono.long", {}, each.value === null ? "–" : each.value === "" ? "\"\"" : each.value), el("span.quiet", {}, plainly(each))]) },
    { title: "From", of: (each) => tag(each.source, each.source === "default" ? "" : "good") },
    ...(kind === "topic" ? [{ title: "", of: (each) => el("button.link", { type: "button", onclick: () => alter(name, each, reload) }, "Change") }] : []),
  ], [], "No config has that in its name.");
  const show = () => {
    context.keep({ search: search.value.trim(), set: changed.checked });
    list.show(all.filter((each) => each.name.includes(search.value.trim()) && (!changed.checked || each.source !== "default")));
  };
  show();
  search.addEventListener("input", show);
  changed.addEventListener("change", show);
  main.append(el("div.bar", {}, el("span.grow", {}, search), field("Only what was set", changed)), list.element);
}

const UNITS = [["day", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];

function plainly({ name, value }) {
  // a number of milliseconds or bytes in larger units
  const given = Number(value);
  if (!/^\d{4,}$/.test(value ?? "")) return "";
  if (given > Number.MAX_SAFE_INTEGER) return "  no limit";
  if (name.endsWith(".bytes")) return `  ${bytes(given)}`;
  const [unit, ms] = (name.endsWith(".ms") && UNITS.find(([, each]) => given >= each)) || [null, 1];
  return unit ? `  ${Number((given / ms).toFixed(1))} ${unit}${unit === "day" && given !== ms ? "s" : ""}` : "";
}

function alter(topic, config, done) {
  const [value, back] = [el("input", { autocomplete: "off", value: config.value ?? "" }), el("input", { type: "checkbox" })];
  dialog(`${config.name} of ${topic}`, [field("Value", value), field("Back to the default", back)], "Change", async () => {
    await post(`/topics/${part(topic)}/config`, { config: { [config.name]: back.checked ? null : value.value } });
    await done();
  });
}

export async function broker(main, context, id) {
  main.append(el("h1", {}, `Broker ${id}`), el("p.lead", {}, "Its configs in force."));
  await configs(main, context, "broker", id);
}
