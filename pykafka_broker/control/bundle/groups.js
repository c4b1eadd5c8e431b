// Groups: who is a member, what they have, and how far behind they are, as it changes.
import { get, part, post, remove } from "/page/api.js";
import { dialog, el, field, named, number, pager, sortedBy, table, tag, toast, typedAgain, wrong } from "/page/dom.js";

const KINDS = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn" };
const SHOWN = 500; // rows of a table without pages
const cut = (count) => (count > SHOWN ? ` (the first ${SHOWN} of ${number(count)})` : "");
const state = (name) => tag(name, KINDS[name] ?? "");

export const groupColumns = (sorted) => [
  { title: "Group", sort: sorted("group"), of: (each) => named(each.group.group_id || "(no name)", `#/groups/${part(each.group.group_id)}`) },
  { title: "Type", sort: sorted("type"), of: (each) => each.group.type },
  { title: "State", sort: sorted("state"), of: (each) => state(each.group.state) },
  { title: "Members", number: true, sort: sorted("members"), of: (each) => number(each.group.members) },
  { title: "Lag", number: true, sort: sorted("lag"), of: (each) => number(each.lag) },
];

export async function groups(main, context) {
  const query = (name) => context.query.get(name);
  const asked = { search: query("search") ?? "", sort: query("sort") ?? "group", descending: query("descending") !== null, offset: Number(query("offset")), limit: 100 };
  const search = el("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search groups", value: asked.search });
  const [place, pages] = [el("div"), el("div")];
  let list = null;
  let last = "";
  const load = async (anew = false) => {
    const question = JSON.stringify(asked);
    const found = await get("/browse/groups", asked, context.signal);
    if (question !== JSON.stringify(asked) || (!anew && JSON.stringify(found) === last)) return;
    last = JSON.stringify(found);
    context.keep({ ...asked, sort: asked.sort === "group" ? "" : asked.sort, limit: null });
    if (anew || !list) {
      list = table("Groups", groupColumns(sortedBy(asked, again)), found.groups, "There are no groups.");
      place.replaceChildren(list.element, pages);
    } else list.show(found.groups);
    pages.replaceChildren(pager(asked, found.total, (offset) => { asked.offset = offset; again(); }));
  };
  const again = () => load(true).catch(wrong);
  search.addEventListener("input", () => { asked.search = search.value; asked.offset = 0; again(); });
  main.append(el("h1", {}, "Groups"), el("div.bar", {}, search), place);
  context.every(1000, () => load());
}

export async function group(main, context, id) {
  const about = el("span.quiet.grow");
  const members = table("Members", [
    { title: "Client id", of: (each) => el("span.cell", { title: each.client_id }, each.client_id) },
    { title: "Host", of: (each) => el("span.mono", {}, each.client_host) },
    { title: "Partitions", of: (each) => Object.entries(each.partitions).map(([topic, those]) => el("div", {}, el("a", { href: `#/topics/${part(topic)}` }, topic), " ", el("span.mono", {}, those.join(", ")))) },
    { title: "Member id", of: (each) => el("span.mono.cell", { title: each.member_id }, each.instance_id ? `${each.instance_id} (static)` : each.member_id) },
  ], [], "It has no members.");
  const offsets = table("Offsets", [
    { title: "Topic", of: (each) => el("a", { href: `#/topics/${part(each.topic)}` }, each.topic) },
    { title: "Partition", number: true, of: (each) => String(each.partition) },
    { title: "Committed", number: true, of: (each) => number(each.committed) },
    { title: "End", number: true, of: (each) => number(each.end) },
    { title: "Lag", number: true, of: (each) => (each.lag ? tag(number(each.lag), "warn") : number(each.lag)) },
  ], [], "It has committed nothing.");
  const [ofMembers, ofOffsets] = [el("span.quiet"), el("span.quiet")];
  let topics = [];
  main.append(el("h1", {}, id), el("div.bar", {}, about,
    el("button", { type: "button", onclick: () => reset(id, topics, load) }, "Reset offsets"),
    el("button.danger", { type: "button", onclick: () => drop(id) }, "Delete the group")), el("h2", {}, "Members", ofMembers), members.element, el("h2", {}, "Offsets", ofOffsets), offsets.element);
  let last = "";
  const load = async () => {
    const found = await get(`/groups/${part(id)}`, {}, context.signal);
    if (JSON.stringify(found) === last) return;
    last = JSON.stringify(found);
    const lag = found.offsets.reduce((sum, each) => sum + Number(each.lag), 0);
    about.replaceChildren(state(found.state), ` ${found.type}, ${found.members.length} member${found.members.length === 1 ? "" : "s"}, lag ${number(lag)}`);
    topics = [...new Set(found.offsets.map((each) => each.topic))];
    members.show(found.members.slice(0, SHOWN));
    offsets.show(found.offsets.slice(0, SHOWN));
    ofMembers.textContent = cut(found.members.length);
    ofOffsets.textContent = cut(found.offsets.length);
  };
  await load();
  context.every(1000, load);
}

function reset(id, topics, done) {
  const topic = el("select", {}, el("option", { value: "" }, "all that it has read"), topics.map((each) => el("option", { value: each }, each)));
  const to = el("select", {}, ["earliest", "latest", "offset", "time"].map((each) => el("option", { value: each }, each)));
  const at = el("input", { hidden: true, "aria-label": "Which" });
  to.addEventListener("change", () => {
    at.hidden = !["offset", "time"].includes(to.value);
    at.type = to.value === "time" ? "datetime-local" : "number";
    at.required = !at.hidden; // nothing at all would be offset 0, or the beginning
  });
  dialog(`Offsets of ${id}`, [el("p", {}, "A group with members commits for itself: end these first."), field("Topic", topic), field("To", to), at], "Reset", async () => {
    const body = to.value === "time" ? { to_time: Date.parse(`${at.value}Z`) } : { to: to.value === "offset" ? Number(at.value) : to.value };
    await post(`/groups/${part(id)}/offsets/reset`, topic.value ? { ...body, topic: topic.value } : body);
    await done();
  });
}

function drop(id) {
  const [again, check] = typedAgain(id);
  dialog(`Delete ${id}?`, [el("p", {}, "Its offsets go with it. Write its name to say that you mean it."), field("Name", again)], "Delete", async () => {
    check();
    await remove(`/groups/${part(id)}`);
    toast(`Group ${id} is deleted.`);
    location.hash = "#/groups";
  }, { danger: true });
}
