// What there is, and how much goes in and out; who is connected.
import { get } from "/page/api.js";
import { several } from "/page/cluster.js";
import { bytes, el, keepingFocus, number, spark, table, tag } from "/page/dom.js";

const KEPT = 60;

export async function overview(main, context) {
  const info = await get("/broker", {}, context.signal);
  const cards = el("div.cards");
  const brokers = table("Brokers", [
    { title: "Broker", of: (each) => el("a", { href: `#/brokers/${each.node_id}` }, String(each.node_id)) },
    { title: "Listeners", of: (each) => Object.entries(each.listeners).map(([name, address]) => el("div", {}, el("span.mono", {}, address), " ", el("span.quiet", {}, name))) },
    { title: "Rack", of: (each) => each.rack ?? "–" },
    { title: "State", of: (each) => [each.fenced ? tag("fenced", "bad") : tag("serving", "good"), " ", each.node_id === info.node_id ? tag("this one") : null, " ", each.controller ? tag("controller") : null] },
  ], []);
  main.append(el("h1", {}, info.bootstrap_servers), el("p.lead", {}, `pykafka-broker ${info.version}, cluster `, el("span.mono", {}, info.cluster_id)),
    cards, el("h2", {}, "Brokers"), brokers.element);
  const history = { messages_in: [], bytes_in: [], bytes_out: [], requests: [] };
  let before = null;
  context.every(1000, async () => {
    const [now, cluster] = await Promise.all([get("/browse", {}, context.signal), get("/cluster", {}, context.signal)]);
    const at = performance.now();
    for (const [name, values] of Object.entries(history)) {
      if (before) values.push(Math.max(0, (now[name] - before.now[name]) / ((at - before.at) / 1000)));
      if (values.length > KEPT) values.shift();
    }
    before = { now, at };
    const rate = (name, form) => (history[name].length ? `${form(Math.round(history[name].at(-1)))}/s` : "–");
    const card = (title, value, values, href) => el("div.card", {}, el("span.quiet", {}, href ? el("a", { href }, title) : title), el("b", {}, value), values ? spark(values) : null);
    keepingFocus(cards, () => cards.replaceChildren(
      card("Topics", number(now.topics), null, "#/topics"), card("Partitions", number(now.partitions)), card("Groups", number(now.groups), null, "#/groups"),
      card("Connections", number(now.connections), null, "#/connections"), card("On disk", bytes(now.bytes)),
      card("Records in", rate("messages_in", number), history.messages_in), card("Bytes in", rate("bytes_in", bytes), history.bytes_in),
      card("Bytes out", rate("bytes_out", bytes), history.bytes_out), card("Requests", rate("requests", number), history.requests, "#/requests")));
    brokers.show(cluster.brokers.map((each) => ({ ...each, controller: each.node_id === cluster.controller_id })));
  });
}

export async function connections(main, context) {
  const list = table("Connections", [
    ...(several() ? [{ title: "Node", number: true, of: (each) => String(each.node) }] : []),
    { title: "Number", number: true, of: (each) => String(each.connection) },
    { title: "Client id", of: (each) => el("span.cell", { title: each.client_id ?? "" }, each.client_id ?? "–") },
    { title: "Software", of: (each) => el("span.cell.short", { title: each.software ?? "" }, each.software || "–") },
    { title: "From", of: (each) => el("span.mono", {}, each.client) },
    { title: "Principal", of: (each) => each.principal },
    { title: "Listener", of: (each) => each.listener },
  ], [], "Nobody is connected.");
  main.append(el("h1", {}, "Connections"), el("p.lead", {}, "Clients that are connected now. A client has several connections."), list.element);
  context.every(1000, async () => list.show(await get("/connections", {}, context.signal)));
}
