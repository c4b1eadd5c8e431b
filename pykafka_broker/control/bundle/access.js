// Who may do what, and how much; and what the schema registry has.
import { get } from "/page/api.js";
import { el, laidOut, named, number, pager, table, tag, wrong } from "/page/dom.js";

const UNITS = { producer_byte_rate: "B/s written", consumer_byte_rate: "B/s read", request_percentage: "% of a thread", controller_mutation_rate: "changes/s", connection_creation_rate: "connections/s" };

export async function access(main, context) {
  const acls = table("ACLs", [
    { title: "Principal", of: (each) => named(each.principal) },
    { title: "May", of: (each) => [tag(each.permission, each.permission === "DENY" ? "bad" : "good"), " ", each.operation] },
    { title: "Of", of: (each) => each.resource_type },
    { title: "Name", of: (each) => [named(each.resource_name), " ", each.pattern_type === "PREFIXED" ? tag("prefix") : null] },
    { title: "From", of: (each) => (each.host === "*" ? "anywhere" : el("span.mono", {}, each.host)) },
  ], [], "There are no ACLs.");
  const users = table("Users", [
    { title: "User", of: ([name]) => named(name) },
    { title: "Mechanisms", of: ([, mechanisms]) => mechanisms.join(", ") },
  ], [], "No user has a SCRAM password.");
  const quotas = table("Quotas", [
    { title: "Of", of: (each) => Object.entries(each.entity).map(([kind, name]) => el("div", {}, kind, " ", name === null ? tag("default") : named(name))) },
    { title: "Quota", of: (each) => Object.entries(each.quotas).map(([key, value]) => el("div", { title: key }, `${number(value)} ${UNITS[key] ?? key}`)) },
  ], [], "There are no quotas.");
  main.append(el("h1", {}, "Rights and quotas"), el("h2", {}, "ACLs"), acls.element, el("h2", {}, "Users"), users.element, el("h2", {}, "Quotas"), quotas.element);
  let last = "";
  context.every(1500, async () => {
    const found = await get("/browse/access", {}, context.signal);
    if (JSON.stringify(found) === last) return;
    last = JSON.stringify(found);
    acls.show(found.acls);
    users.show(Object.entries(found.users));
    quotas.show(found.quotas);
  });
}

export async function schemas(main, context) {
  const asked = { search: context.query.get("search") ?? "", offset: Number(context.query.get("offset")), limit: 100 };
  const search = el("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search subjects", value: asked.search });
  const place = el("div");
  const list = table("Subjects", [
    { title: "Subject", of: opener },
    { title: "Type", of: (each) => each.schema_type },
    { title: "Versions", of: (each) => each.versions.join(", ") },
    { title: "Id of the latest", number: true, of: (each) => String(each.schema_id) },
    { title: "Compatibility", of: (each) => each.compatibility },
  ], [], "No schema is registered.");
  let last = "";
  const load = async () => {
    const question = JSON.stringify(asked);
    const found = await get("/browse/schemas", asked, context.signal);
    if (question !== JSON.stringify(asked) || JSON.stringify([found, asked]) === last || list.body.querySelector("tr.detail")) return;
    last = JSON.stringify([found, asked]);
    context.keep({ ...asked, limit: null });
    list.show(found.subjects);
    place.replaceChildren(pager(asked, found.total, (offset) => again({ offset })));
  };
  const again = (change) => {
    Object.assign(asked, change);
    list.body.querySelector("tr.detail")?.remove();
    load().catch(wrong);
  };
  search.addEventListener("input", () => again({ search: search.value, offset: 0 }));
  main.append(el("h1", {}, "Schemas"), el("p.lead", {}, "What the schema registry of this broker has."), el("div.bar", {}, search), list.element, place);
  context.every(1500, load);
}

function opener(subject) {
  const button = el("button.link", { type: "button", "aria-expanded": "false", onclick: () => {
    const row = button.closest("tr");
    const opened = row.nextElementSibling?.classList.contains("detail");
    if (opened) row.nextElementSibling.remove();
    else row.after(el("tr.detail", {}, el("td", { colspan: 5 }, el("div.opened", {}, el("pre", { tabindex: "0", "aria-label": "Schema" }, subject.schema_type === "PROTOBUF" ? subject.text : laidOut(subject.text))))));
    button.setAttribute("aria-expanded", String(!opened));
  } }, subject.subject);
  return button;
}
