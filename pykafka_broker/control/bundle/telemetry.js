// Clients that push their metrics, and what they have pushed last.
import { get } from "/page/api.js";
import { bytes, el, field, number, table, tag, time } from "/page/dom.js";

const [MOST, CLIENTS] = [500, 50];

export async function telemetry(main, context) {
  const search = el("input", { type: "search", placeholder: "any ( / )" });
  const clients = table("Clients that push", [
    { title: "Client id", of: (each) => el("span.cell", { title: each.client_instance_id }, each.client_id || "–") },
    { title: "Software", of: (each) => each.software },
    { title: "From", of: (each) => el("span.mono", {}, each.client) },
    { title: "Pushes", number: true, of: (each) => number(each.pushes) },
    { title: "Sent", number: true, of: (each) => bytes(each.bytes) },
    { title: "Last (UTC)", of: (each) => el("span.mono", {}, time(each.time).slice(11)) },
    { title: "State", of: (each) => (each.terminating ? tag("has ended") : each.connected ? tag("pushing", "good") : tag("gone", "warn")) },
  ], [], "No client has pushed metrics. Clients push with pykafka.telemetry=true and a subscription of kafka-client-metrics.");
  const metrics = table("Metrics", [
    { title: "Client id", of: (each) => el("span.cell", { title: each.client.client_instance_id }, each.client.client_id || "–") },
    { title: "Metric", of: (each) => el("span.mono", {}, each.name) },
    { title: "Kind", of: (each) => [each.kind, each.delta ? ", since the push before" : ""] },
    { title: "Of", of: (each) => Object.entries(each.attributes).map(([key, value]) => `${key}=${value}`).join(", ") || "–" },
    { title: "Value", number: true, of: (each) => (each.value === null ? "–" : String(each.value)) },
  ], [], "Nothing to show.");
  const problem = el("p.problem", { role: "status", hidden: "" });
  main.append(el("h1", {}, "Client metrics"), el("p.lead", {}, `The last ${CLIENTS} clients that have pushed metrics to this broker (KIP-714), and what they pushed.`), clients.element,
    el("h2", {}, "Last values"), el("form.bar", { onsubmit: (event) => event.preventDefault() }, field("Metric", search)), problem, metrics.element);
  context.every(1000, async () => {
    const found = await get("/telemetry", { limit: CLIENTS }, context.signal);
    clients.show([...found].reverse());
    const told = found.find((each) => each.problem)?.problem ?? "";
    problem.hidden = !told;
    problem.textContent = told;
    const wanted = search.value.trim().toLowerCase();
    const values = found.flatMap((client) => (client.metrics ?? []).map((each) => ({ ...each, client })));
    metrics.show(values.filter((each) => each.name.toLowerCase().includes(wanted)).slice(0, MOST));
  });
}
