// The records of a topic: looked through a page at a time, written, followed live.
import { get, part, post } from "/page/api.js";
import { bytes, dialog, el, field, laidOut, number, table, tag, time, toast, wrong } from "/page/dom.js";
import { topicHead } from "/page/topics.js";

const PIECE_BYTES = 64 << 10;
const MOST_ROWS = 1000;
const MOST_FOLLOWED = 500; // in a second
const MOST_COPIED = 1 << 20;

export async function records(main, context, name) {
  main.append(...topicHead(name, "/records"));
  const { total } = await get(`/browse/topics/${part(name)}`, { limit: 1 }, context.signal);
  const form = filters(total, context.query);
  const status = el("span.quiet.grow", { "aria-live": "polite" });
  const more = el("button", { type: "button", id: "next", disabled: true, onclick: () => run(backwards ? "earlier" : "onwards") }, "More");
  const list = table("Records", [
    { title: "Partition", number: true, of: (each) => String(each.partition) },
    { title: "Offset", number: true, of: (each) => opener(name, total, each, () => run("anew")) },
    { title: "Time (UTC)", of: (each) => el("span.mono", { title: each.timestamp_type }, time(each.timestamp)) },
    { title: "Key", of: (each) => (without(each) ? "–" : brief(each.key)) },
    { title: "Value", of: (each) => (without(each) ? tag(without(each), each.control ? "warn" : "bad") : each.value === null ? tag("tombstone") : each.decoded ? [tag(each.decoded.schema_type, "good"), " ", brief({ text: each.decoded.json })] : brief(each.value)) },
    { title: "", of: (each) => [each.transaction ? tag(each.transaction, { aborted: "bad", open: "warn", committed: "good" }[each.transaction]) : null, each.headers.length ? tag(`${each.headers.length} header${each.headers.length > 1 ? "s" : ""}`) : null] },
  ], [], "Nothing is here that fits.");
  let rows = [];
  let offsets = null; // where what comes later begins
  let before = null; // where what came earlier ends; null where the log begins, or where it is read forwards
  let backwards = true;
  let wanted = {}; // what the rows were read by: the form may have been changed since
  let readings = 0; // of several answers to the form only the last one counts

  async function load(which) {
    readings += which === "anew";
    const reading = readings;
    const [contents, kept, newest] = [which === "anew" ? form.contents() : wanted, form.kept(), form.newestFirst()];
    const query = which === "onwards" ? { ...contents, offsets } : which === "earlier" ? { ...contents, before } : form.query();
    const follows = which === "onwards" && form.live();
    const found = await get(`/browse/topics/${part(name)}/records`, { ...query, decode: true, limit: follows ? MOST_FOLLOWED : 100 }, context.signal);
    if (reading !== readings || (which === "onwards" && offsets !== query.offsets) || (which === "earlier" && before !== query.before)) return;
    if (which === "anew") {
      context.keep(kept);
      [wanted, backwards] = [contents, newest];
    }
    rows = which === "earlier" ? found.records.concat(rows) : which === "onwards" ? rows.concat(found.records) : found.records;
    if (which !== "earlier") offsets = found.next_offsets;
    if (which !== "onwards") before = found.earlier_offsets;
    if (rows.length > MOST_ROWS) {
      // one can't go on from an end that is not shown any more: a hole would come of it
      if (which === "earlier") offsets = null;
      else before = undefined;
      rows = which === "earlier" ? rows.slice(0, MOST_ROWS) : rows.slice(-MOST_ROWS);
    }
    more.textContent = backwards ? "Older" : "More";
    more.disabled = backwards ? !before : !found.more;
    const end = !more.disabled ? "" : !backwards ? ", up to the end" : before === null ? ", back to the first" : "";
    const lacking = found.missing?.length ? `, without partition ${found.missing.join(", ")}: no leader answers` : "";
    const late = follows && found.more ? `, behind the end: at most ${MOST_FOLLOWED} records a second are followed` : "";
    status.textContent = `${number(rows.length)} shown, ${number(found.looked_at)} looked at${end}${lacking}${late}`;
    if (which !== "onwards" || found.records.length) list.show(backwards ? [...rows].reverse() : rows);
  }

  const run = (which) => load(which).catch(wrong);
  form.element.addEventListener("submit", (event) => { event.preventDefault(); run("anew"); });
  main.append(form.element, el("div.bar", {}, status, more,
    el("button.main", { type: "button", onclick: () => produce(name, total, () => run("anew")) }, "Produce a record")), list.element);
  await run("anew");
  context.every(1000, async () => {
    if (!form.live() || offsets === null || list.body.contains(document.activeElement) || list.body.querySelector("tr.detail")) return;
    await load("onwards");
  });
}

function filters(partitions, asked) {
  const partition = el("input", { type: "number", min: 0, max: partitions - 1, placeholder: "all", value: asked.get("partition") });
  const from = el("select", {}, ["newest", "beginning", "offset", "time"].map((each) => el("option", { value: each, selected: each === asked.get("from") }, each)));
  const at = el("input", { "aria-label": "From which" });
  const [key, value] = [el("input", { type: "search", placeholder: "any ( / )", value: asked.get("key") }), el("input", { placeholder: "any", value: asked.get("value") })];
  const [header, inside] = [el("input", { placeholder: "name or name=text", value: asked.get("header") }), el("input", { placeholder: "order.id=7", title: "A path in the value as JSON, or as its schema reads it", value: asked.get("field") })];
  const [control, live] = [el("input", { type: "checkbox", checked: asked.get("control") !== null }), el("input", { type: "checkbox" })];
  const form = () => {
    at.hidden = !["offset", "time"].includes(from.value);
    at.type = from.value === "time" ? "datetime-local" : "number";
    at.step = from.value === "time" ? "0.001" : "1";
    at.min = from.value === "offset" ? "0" : "";
  };
  form();
  at.value = asked.get("at") ?? "";
  from.addEventListener("change", () => {
    form();
    if (!at.hidden) at.focus();
  });
  const element = el("form.bar", { "aria-label": "Which records" }, field("Partition", partition), field("From", from), at, field("Key contains", key), field("Value contains", value),
    field("Header", header), field("Field of the value", inside), field("Control records", control), field("Follow", live), el("button", { type: "submit" }, "Read"));
  const contents = () => ({ key: key.value, value: value.value, header: header.value, field: inside.value, control_records: control.checked });
  const begin = () => {
    if (from.value === "offset") return { from_offset: at.value || 0 };
    // what is typed in is UTC, as all times here are
    if (from.value === "time") return { from_time: at.value ? Date.parse(`${at.value}Z`) : 0 };
    return { newest: from.value === "newest" };
  };
  const kept = () => ({ partition: partition.value, from: from.value === "newest" ? "" : from.value, at: at.hidden ? "" : at.value, key: key.value, value: value.value, header: header.value, field: inside.value, control: control.checked });
  return { element, contents, kept, query: () => ({ ...contents(), ...begin(), partition: partition.value }), live: () => live.checked, newestFirst: () => from.value === "newest" };
}

function brief(shown) {
  if (shown === null) return el("span.quiet", {}, "null");
  const text = shown.text ?? hexOf(raw(shown.base64).subarray(0, 24));
  return el("span.mono.cell", {}, text.slice(0, 200), shown.cut || text.length > 200 ? el("span.quiet", {}, ` … ${bytes(shown.size)}`) : null);
}

// Why a record has neither key nor value: it is a control record, or stands for a batch that can't be read.
const without = (record) => record.control ?? record.unreadable ?? null;

function opener(topic, partitions, record, done) {
  const button = el("button.link", { type: "button", "aria-expanded": "false", onclick: () => {
    const row = button.closest("tr");
    if (row.nextElementSibling?.classList.contains("detail")) {
      row.nextElementSibling.remove();
      button.setAttribute("aria-expanded", "false");
    } else {
      row.after(el("tr.detail", {}, el("td", { colspan: 6 }, el("div.opened", {}, tools(topic, partitions, record, done), detail(topic, record)))));
      button.setAttribute("aria-expanded", "true");
    }
  } }, number(record.offset));
  return button;
}

function tools(topic, partitions, record, done) {
  if (without(record)) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(JSON.stringify(await asWritten(topic, record), null, 2));
    toast("The record is copied, as JSON that the control API takes.");
  };
  const again = async () => produce(topic, partitions, done, await asWritten(topic, record));
  return el("div.bar", {}, el("button", { type: "button", onclick: again }, "Produce again"), el("button", { type: "button", onclick: copy }, "Copy"));
}

async function asWritten(topic, record) {
  // the record as POST /topics/TOPIC/records takes it, with key and value whole
  const said = { partition: record.partition, headers: record.headers.map((each) => ({ name: each.name, ...told("value", each.value) })) };
  for (const which of ["key", "value"]) Object.assign(said, told(which, record[which]?.cut ? await whole(topic, record, which) : record[which]));
  return said;
}

const told = (name, shown) => (shown === null ? { [name]: null } : shown.text === null || shown.text === undefined ? { [`${name}_base64`]: shown.base64 } : { [name]: shown.text });

async function whole(topic, record, which) {
  if (record[which].size > MOST_COPIED) throw new Error(`The ${which} has ${bytes(record[which].size)}, and at most ${bytes(MOST_COPIED)} are copied.`);
  const query = { part: which, max_bytes: MOST_COPIED };
  const { base64 } = await get(`/browse/topics/${part(topic)}/partitions/${record.partition}/records/${record.offset}`, query);
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw(base64)) };
  } catch {
    return { base64 };
  }
}

function detail(topic, record) {
  const says = [["Producer", record.producer_id < 0 ? "–" : `id ${record.producer_id}, epoch ${record.producer_epoch}`], ["Leader epoch", String(record.leader_epoch)],
    ["Compression", record.codec], ["Timestamp", `${record.timestamp} (${record.timestamp_type})`]];
  return [
    without(record) ? null : [el("h2", {}, "Key"), content(topic, record, "key"), el("h2", {}, "Value"), content(topic, record, "value")],
    record.headers.length ? [el("h2", {}, "Headers"), el("dl", {}, record.headers.map((each) => [el("dt.mono", {}, each.name), el("dd.mono", {}, each.value === null ? "null" : each.value.text ?? hexOf(raw(each.value.base64)), each.value?.cut ? ` … ${bytes(each.value.size)}` : "")]))] : null,
    el("h2", {}, "Batch"), el("dl", {}, says.map(([title, text]) => [el("dt", {}, title), el("dd", {}, text)])),
  ];
}

function content(topic, record, which) {
  const shown = record[which];
  if (shown === null) return el("p.quiet", {}, "null");
  const box = el("pre", { tabindex: "0", "aria-label": which });
  const place = el("div.bar", {}, el("span.quiet.grow", {}, bytes(shown.size)), namedSchema(record, which));
  let data = shown.base64 ? raw(shown.base64) : new TextEncoder().encode(shown.text);
  const fill = () => { box.textContent = readable(data, data.length >= shown.size); };
  const button = el("button", { type: "button", onclick: async () => {
    const query = { part: which, from_byte: data.length, max_bytes: PIECE_BYTES };
    const piece = raw((await get(`/browse/topics/${part(topic)}/partitions/${record.partition}/records/${record.offset}`, query)).base64);
    const joined = new Uint8Array(data.length + piece.length);
    joined.set(data);
    joined.set(piece, data.length);
    data = joined;
    fill();
    if (data.length >= shown.size || !piece.length) button.remove();
  } }, `Show ${bytes(PIECE_BYTES)} more`);
  if (shown.cut) place.append(button);
  fill();
  if (namedSchema(record, which)) decode(topic, record, which, box, place);
  return [box, place];
}

async function decode(topic, record, which, box, place) {
  // by the schema registry beside the broker, if there is one that knows the id
  try {
    const path = `/browse/topics/${part(topic)}/partitions/${record.partition}/records/${record.offset}/decoded`;
    const found = await get(path, { part: which });
    box.before(el("pre", { tabindex: "0", "aria-label": `${which}, decoded` }, laidOut(found.json)));
    place.append(tag(found.schema_type, "good"));
  } catch (error) {
    if (error.status === 400) place.append(el("span.quiet", {}, error.message));
  }
}

function namedSchema(record, which) {
  // Confluent's framing: a zero, the schema's id in four bytes, the value; or a header that names the schema
  if (record.headers.some((each) => each.name === `__${which}_schema_id`)) return tag("schema in a header");
  const shown = record[which];
  const head = shown.base64 ? raw(shown.base64) : new TextEncoder().encode((shown.text ?? "").slice(0, 5));
  const id = head.length < 5 || shown.size < 6 || head[0] !== 0 ? -1 : new DataView(head.buffer, head.byteOffset).getInt32(1);
  return id < 0 ? null : tag(`schema id ${id}`);
}

function readable(data, whole) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data, { stream: !whole });
  } catch {
    return hexDump(data);
  }
  return whole && /^\s*[[{]/.test(text) ? laidOut(text) : text;
}

const raw = (base64) => Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
const hexOf = (data) => [...data].map((each) => each.toString(16).padStart(2, "0")).join(" ");

function hexDump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const line = data.subarray(at, at + 16);
    const plain = [...line].map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hexOf(line).padEnd(47)}  ${plain}`);
  }
  return lines.join("\n");
}

function produce(topic, partitions, done, like = { key: null, value: "", headers: [] }) {
  // like: a record to begin with. What an input would change makes key and value base64, and headers stay as they are.
  const bytesOf = (text) => btoa(Array.from(new TextEncoder().encode(text), (each) => String.fromCharCode(each)).join(""));
  const isBase64 = "key_base64" in like || "value_base64" in like || /[\r\n]/.test(like.key) || /\r/.test(like.value);
  const isLine = ({ name, value }) => typeof value === "string" && !/^\s|[:\r\n]|\s$/.test(name) && name && !/^\s|[\r\n]|\s$/.test(value);
  const others = like.headers.filter((each) => !isLine(each));
  const first = (which) => like[`${which}_base64`] ?? (isBase64 && like[which] ? bytesOf(like[which]) : like[which]);
  const partition = el("input", { type: "number", min: 0, max: partitions - 1, placeholder: "by the key", value: like.partition });
  const [key, value, headers] = [el("input", { autocomplete: "off", value: first("key") }), el("textarea", {}, first("value") ?? ""),
    el("textarea", { rows: 2, placeholder: "name: value" }, like.headers.filter(isLine).map((each) => `${each.name}: ${each.value}`).join("\n"))];
  const [noKey, tombstone, base64] = [el("input", { type: "checkbox", checked: first("key") === null }), el("input", { type: "checkbox", checked: first("value") === null }), el("input", { type: "checkbox", checked: isBase64 })];
  key.addEventListener("input", () => { noKey.checked = false; });
  value.addEventListener("input", () => { tombstone.checked = false; });
  dialog(`Produce to ${topic}`, [field("Key", key), field("No key", noKey), field("Value", value), field("No value (tombstone)", tombstone),
    field("Key and value are base64", base64), field("Headers, one a line", headers),
    others.length ? el("p.quiet", {}, `and as they are: ${others.map((each) => each.name).join(", ")}`) : null, field("Partition", partition)], "Produce", async () => {
    const lines = headers.value.split("\n").filter((line) => line.trim()).map((line) => {
      const at = line.indexOf(":");
      if (at < 1) throw new Error(`"${line}" is not name: value`);
      return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
    });
    const record = { headers: [...lines, ...others] };
    const suffix = base64.checked ? "_base64" : "";
    if (!noKey.checked) record[`key${suffix}`] = key.value;
    if (!tombstone.checked) record[`value${suffix}`] = value.value;
    if (partition.value !== "") record.partition = Number(partition.value);
    const [written] = await post(`/topics/${part(topic)}/records`, { records: [record] });
    toast(`Written to partition ${written.partition} at offset ${written.offset}.`);
    done();
  });
}
