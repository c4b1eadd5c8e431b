// What clients ask, live.
import { atNode, news, several } from "/page/cluster.js";
import { bytes, el, field, number, table, tag, time } from "/page/dom.js";

const MOST = 300;

export async function requests(main, context) {
  const input = (name, attributes) => el("input", { value: context.query.get(name), ...attributes });
  const [api, client, topic] = [input("api", { type: "search", placeholder: "any ( / )" }), input("client", { placeholder: "any, * fits" }), input("topic", { placeholder: "any" })];
  const [errors, pause] = [el("input", { type: "checkbox", checked: context.query.get("errors") !== null }), el("input", { type: "checkbox" })];
  const status = el("span.quiet.grow", { "aria-live": "polite" });
  const list = table("Requests", [
    { title: "Time (UTC)", of: (each) => el("span.mono", {}, time(each.time).slice(11)) },
    { title: "Request", of: (each) => opener(each) },
    ...(several() ? [{ title: "Node", number: true, of: (each) => String(each.node) }] : []),
    { title: "Client id", of: (each) => el("span.cell", { title: each.client_id ?? "" }, each.client_id ?? "–") },
    { title: "Software", of: (each) => el("span.cell.short", { title: each.software ?? "" }, each.software || "–") },
    { title: "Took", number: true, of: (each) => (each.number === null ? tag("waits") : `${each.duration_ms.toFixed(2)} ms`) },
    { title: "Asked", number: true, of: (each) => bytes(each.request_bytes) },
    { title: "Answered", number: true, of: (each) => bytes(each.response_bytes) },
    { title: "Errors", of: (each) => [each.errors.map((name) => tag(name, "bad")), each.fault === null ? null : tag(`fault ${each.fault}`, "warn")] },
  ], [], "Nobody has asked for anything yet.");
  let [rows, newest] = [[], {}];
  const fresh = () => { rows = []; newest = {}; };
  [api, client, topic].forEach((each) => each.addEventListener("change", fresh));
  main.append(el("h1", {}, "Requests"), el("form.bar", { onsubmit: (event) => { event.preventDefault(); fresh(); } }, field("API", api), field("Client id", client), field("Topic", topic), field("Only errors", errors), field("Pause", pause), status), list.element);
  let last = "";
  context.every(700, async () => {
    if (pause.checked || list.body.querySelector("tr.detail")) return;
    const [wanted, from, about] = [api, client, topic].map((each) => each.value.trim());
    context.keep({ api: wanted, client: from, topic: about, errors: errors.checked });
    const asked = { api: wanted, client_id: from, topic: about, waiting: false, limit: MOST };
    const mine = newest;
    const found = await news("/requests", asked, rows, newest, context.signal);
    if (mine !== newest) return; // something else is looked for by now
    rows = found.slice(-MOST);
    const shown = rows.filter((each) => !errors.checked || each.errors.length);
    const now = `${shown[0]?.number} ${shown.at(-1)?.node} ${shown.at(-1)?.number} ${shown.length}`;
    if (now === last || list.body.contains(document.activeElement)) return;
    last = now;
    status.textContent = `the last ${number(shown.length)}`;
    list.show([...shown].reverse());
  });
}

function opener(request) {
  const button = el("button.link", { type: "button", "aria-expanded": "false", onclick: async () => {
    const row = button.closest("tr");
    if (row.nextElementSibling?.classList.contains("detail")) {
      row.nextElementSibling.remove();
      button.setAttribute("aria-expanded", "false");
      return;
    }
    button.setAttribute("aria-expanded", "true");
    const cell = el("td", { colspan: 9 }, el("p.quiet", {}, "…"));
    row.after(el("tr.detail", {}, cell));
    const found = await atNode(request.node, "/requests", { connection: request.connection, after: request.number - 1, before: request.number + 1, waiting: false, bodies: true, records: true }).catch((error) => error);
    if (found instanceof Error) return cell.replaceChildren(el("p.problem", { role: "alert" }, found.message));
    const [whole] = found;
    const says = `Connection ${request.connection} from ${request.client}, ${request.principal}, listener ${request.listener}, correlation id ${request.correlation_id}`;
    cell.replaceChildren(el("p.quiet", {}, says), ...(whole
      ? [el("h2", {}, "Request"), body(whole.request), el("h2", {}, "Response"), body(whole.response)] : [el("p", {}, "It is no longer in the log.")]));
  } }, `${request.api} v${request.version}`);
  return button;
}

function body(content) {
  const text = JSON.stringify(content, null, 2) ?? "null";
  return el("pre", { tabindex: "0" }, text.length > 100000 ? `${text.slice(0, 100000)}\n… ${number(text.length)} characters` : text);
}
