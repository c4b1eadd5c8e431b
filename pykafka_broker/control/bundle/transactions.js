// Transactions that this broker coordinates.
import { get, part } from "/page/api.js";
import { el, number, table, tag, time } from "/page/dom.js";

const KINDS = { Ongoing: "warn", PrepareCommit: "warn", PrepareAbort: "warn", CompleteCommit: "good", CompleteAbort: "bad" };

export async function transactions(main, context) {
  const list = table("Transactions", [
    { title: "Transactional id", of: (each) => el("span.cell", { title: each.transactional_id }, each.transactional_id) },
    { title: "State", of: (each) => tag(each.state, KINDS[each.state] ?? "") },
    { title: "Producer", number: true, of: (each) => `${each.producer_id} / ${each.producer_epoch}` },
    { title: "Time-out", number: true, of: (each) => `${number(each.timeout_ms)} ms` },
    { title: "Begun (UTC)", of: (each) => el("span.mono", {}, time(each.started_ms)) },
    { title: "Partitions", of: (each) => Object.entries(each.partitions).map(([topic, those]) => el("div", {}, el("a", { href: `#/topics/${part(topic)}/records` }, topic), " ", those.join(", "))) },
  ], [], "No transactional id has been used.");
  main.append(el("h1", {}, "Transactions"), el("p.lead", {}, "Transactional ids, with the transaction under way or the last one."), list.element);
  context.every(1000, async () => list.show(await get("/browse/transactions", {}, context.signal)));
}
