// A cluster as one: what every node tells of itself is put together, and what one node alone knows is asked there.
// Rule: a view asks as if there were one broker. Which nodes are meant is chosen in the head of the page: all, or one.
import { ask, askWith, part } from "/page/api.js";
import { el } from "/page/dom.js";

const CHOSEN = "pykafka-broker node";
const PIECE = 500;
const OF_ONE_NODE = new Set(["testing", "telemetry", "schemas"]);
let nodes = []; // ids; the first serves the page
let meant = []; // of them, those that are asked

export const several = () => meant.length > 1;

export async function joinNodes(place, changed) {
  nodes = await ask("GET", "/page/nodes").catch(() => []);
  if (nodes.length < 2) return;
  const kept = sessionStorage.getItem(CHOSEN) ?? "";
  const choice = el("select", { "aria-label": "Nodes shown" }, el("option", { value: "" }, "All nodes"),
    nodes.map((each) => el("option", { value: String(each), selected: String(each) === kept }, `Node ${each}`)));
  const choose = () => {
    sessionStorage.setItem(CHOSEN, choice.value);
    meant = choice.value === "" ? nodes : nodes.filter((each) => String(each) === choice.value);
    askWith(several() ? askAll : (method, path, said) => askAt(meant[0], method, path, said));
  };
  choose();
  choice.addEventListener("change", () => { choose(); changed(); });
  place.replaceChildren(choice);
}

export const notice = (view) => (several() && OF_ONE_NODE.has(view)
  ? el("p.quiet", {}, `Every node has its own: this is what node ${nodes[0]} has. Choose another one above.`) : null);

const askAt = (node, method, path, said) => ask(method, path, { ...said, node: node === nodes[0] ? undefined : node });

// rows with what has come since the last look, each with the node that it is from; last: the newest row by node, which is
// moved on, and asked for once more: where it is missing, the broker has begun to count anew
export async function news(path, query, rows, last, signal) {
  const errors = [];
  const from = meant.length ? meant : [undefined];
  const told = await Promise.all(from.map(async (node) => {
    const [before, known] = [last[node], rows.filter((each) => each.node === node)];
    const said = { query: { ...query, after: before ? before.number - 1 : 0 }, signal };
    const found = await (node === undefined ? ask("GET", path, said) : askAt(node, "GET", path, said)).catch(unlessAborted(signal, errors));
    if (found === null) return known;
    last[node] = found.at(-1);
    const goesOn = before && found[0]?.number === before.number && found[0].time === before.time;
    return (goesOn ? known.concat(found.slice(1)) : found).map((each) => ({ ...each, node }));
  }));
  if (errors.length === from.length) throw errors[0];
  return told.flat().sort((a, b) => a.time - b.time);
}

export const atNode = (node, path, query) => (node === undefined ? ask("GET", path, { query }) : askAt(node, "GET", path, { query }));

function unlessAborted(signal, keep) {
  return (error) => {
    if (signal?.aborted) throw error;
    keep?.push(error);
    return null;
  };
}

async function everywhere(path, query, signal) {
  const errors = [];
  const told = await Promise.all(nodes.map(async (node) => ({ node, answer: await askAt(node, "GET", path, { query, signal }).catch(unlessAborted(signal, errors)) })));
  const there = told.filter((each) => each.answer !== null);
  if (!there.length) throw errors.find((each) => each.status === 404) ?? errors[0];
  return there;
}

async function pieces(path, query, name, signal, most = Infinity) {
  // of every node the rows of a list, piece by piece
  const there = await everywhere(path, { ...query, offset: 0, limit: PIECE }, signal);
  return Promise.all(there.map(async ({ node, answer }) => {
    const rows = [...answer[name]];
    while (rows.length < Math.min(answer.total, most)) {
      const next = await askAt(node, "GET", path, { query: { ...query, offset: rows.length, limit: PIECE }, signal });
      if (!next[name].length) break;
      rows.push(...next[name]);
    }
    return { node, total: answer.total, rows };
  }));
}

const add = (into, from, names) => names.forEach((name) => { into[name] += from[name]; });

function ordered(rows, key, descending) {
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  return [...rows].sort((a, b) => (descending ? -1 : 1) * compare(key(a), key(b)));
}

async function overview(_, path, { signal }) {
  const [first, ...others] = (await everywhere(path, {}, signal)).map((each) => each.answer);
  others.forEach((each) => add(first, each, ["groups", "connections", "bytes", "messages_in", "bytes_in", "bytes_out", "requests"]));
  return first;
}

async function topics(_, path, { query, signal }) {
  // all nodes know all topics, in one order by name; what is counted is counted where it is
  const byName = query.sort === "name" || query.sort === "partitions";
  const lists = byName
    ? (await everywhere(path, query, signal)).map(({ answer }) => ({ total: answer.total, rows: answer.topics }))
    : await pieces(path, { ...query, sort: "name", descending: false }, "topics", signal);
  const joined = new Map();
  for (const { rows } of lists) {
    for (const row of rows) {
      if (joined.has(row.name)) add(joined.get(row.name), row, ["records", "bytes", "messages_in", "bytes_in", "bytes_out"]);
      else joined.set(row.name, { ...row });
    }
  }
  const rows = [...joined.values()];
  const shown = byName ? rows : ordered(rows, (each) => each[query.sort], query.descending).slice(query.offset, query.offset + query.limit);
  return { total: lists[0].total, topics: shown };
}

async function topic(_, path, { query, signal }) {
  // what only the leader knows of a partition is taken from it
  const there = await everywhere(path, query, signal);
  const found = there[0].answer;
  const rows = new Map(there.map(({ node, answer }) => [node, new Map(answer.partitions.map((each) => [each.partition, each]))]));
  return { ...found, partitions: found.partitions.map((each) => rows.get(each.leader)?.get(each.partition) ?? each) };
}

async function partitions(name, signal) {
  const found = [];
  let total = 1;
  while (found.length < total) {
    const piece = await topic(null, `/browse/topics/${name}`, { query: { offset: found.length, limit: PIECE }, signal });
    total = piece.total;
    if (!piece.partitions.length) break;
    found.push(...piece.partitions);
  }
  return found;
}

const leaderOf = (row) => (nodes.includes(row.leader) ? row.leader : nodes[0]);
const parse = (text) => text.split(",").filter(Boolean).map((each) => each.split(":")).map(([index, offset]) => [Number(index), offset]);

async function records([name], path, { query, signal }) {
  const rows = await partitions(name, signal);
  const asked = [];
  const { newest, from_offset, from_time, offsets, before, ...rest } = query;
  const named = query.partition !== undefined && query.partition !== null && query.partition !== "";
  if (named) {
    const row = rows.find((each) => each.partition === Number(query.partition));
    return askAt(row ? leaderOf(row) : nodes[0], "GET", path, { query, signal });
  }
  const [led, leaderless] = [true, false].map((known) => rows.filter((each) => nodes.includes(each.leader) === known));
  if (from_time !== undefined) led.forEach((row) => asked.push([leaderOf(row), { ...rest, from_time, partition: row.partition }]));
  else {
    const back = before !== undefined || newest;
    const positions = new Map(before !== undefined ? parse(before) : offsets !== undefined ? parse(offsets) : rows.map((each) => [each.partition, newest ? each.end ?? 0 : from_offset ?? 0]));
    const byLeader = new Map();
    for (const row of led.filter((each) => positions.has(each.partition))) {
      byLeader.set(leaderOf(row), [...(byLeader.get(leaderOf(row)) ?? []), `${row.partition}:${positions.get(row.partition)}`]);
    }
    byLeader.forEach((those, node) => asked.push([node, { ...rest, [back ? "before" : "offsets"]: those.join(",") }]));
  }
  const [errors, missing] = [[], []];
  const told = (await Promise.all(asked.map(async ([node, said]) => {
    const answer = await askAt(node, "GET", path, { query: said, signal }).catch(unlessAborted(signal, errors));
    if (answer === null) missing.push(...(said.partition === undefined ? parse(said.before ?? said.offsets).map(([index]) => index) : [said.partition]));
    return answer;
  }))).filter(Boolean);
  if (errors.length && !told.length) throw errors[0];
  const join = (texts) => texts.filter(Boolean).join(",") || null;
  return {
    records: ordered(told.flatMap((each) => each.records), (each) => each.timestamp, false),
    next_offsets: join(told.map((each) => each.next_offsets)) ?? "", earlier_offsets: join(told.map((each) => each.earlier_offsets)),
    more: told.some((each) => each.more), looked_at: told.reduce((sum, each) => sum + each.looked_at, 0),
    missing: [...missing, ...leaderless.map((each) => each.partition)].sort((a, b) => a - b),
  };
}

async function atLeader([name, index], path, { query, signal }) {
  const { partitions: rows } = await askAt(nodes[0], "GET", `/browse/topics/${name}`, { query: { offset: Number(index), limit: 1 }, signal });
  return askAt(rows.length ? leaderOf(rows[0]) : nodes[0], "GET", path, { query, signal });
}

async function groups(_, path, { query, signal }) {
  // a group is where its coordinator is, which does not know the ends of what others lead: the lag stands with the group
  const lists = await pieces(path, { ...query, sort: "group", descending: false }, "groups", signal);
  const keys = { type: (each) => each.group.type, state: (each) => each.group.state, members: (each) => each.group.members };
  const rows = ordered(lists.flatMap((each) => each.rows), keys[query.sort] ?? ((each) => each.group.group_id), query.descending);
  return { total: rows.length, groups: rows.slice(query.offset ?? 0, (query.offset ?? 0) + (query.limit ?? 100)).map((each) => ({ ...each, lag: null })) };
}

async function group(_, path, { query, signal }) {
  const [{ answer }] = await everywhere(path, query, signal);
  const ends = new Map();
  for (const name of new Set(answer.offsets.map((each) => each.topic))) ends.set(name, await partitions(part(name), signal).catch(unlessAborted(signal)));
  const offsets = answer.offsets.map((each) => {
    const row = each.end === null ? ends.get(each.topic)?.find((one) => one.partition === each.partition) : null;
    return row && row.end !== null ? { ...each, end: row.end, lag: Math.max(0, row.end - Math.max(each.committed ?? 0, row.start)) } : each;
  });
  return { ...answer, offsets };
}

const together = async (_, path, { query, signal }) => (await everywhere(path, query, signal)).flatMap(({ node, answer }) => answer.map((each) => ({ ...each, node })));

const RULES = [
  [/^\/browse$/, overview],
  [/^\/browse\/topics$/, topics],
  [/^\/browse\/topics\/([^/]+)$/, topic],
  [/^\/browse\/topics\/([^/]+)\/records$/, records],
  [/^\/browse\/topics\/([^/]+)\/partitions\/(\d+)\/records\/.*$/, atLeader],
  [/^\/browse\/groups$/, groups],
  [/^\/groups\/[^/]+$/, group],
  [/^\/browse\/transactions$/, together],
  [/^\/connections$/, together],
  [/^\/browse\/configs\/broker\/(\d+)$/, ([node], path, said) => askAt(nodes.includes(Number(node)) ? Number(node) : nodes[0], "GET", path, said)],
];

async function askAll(method, path, said) {
  if (method !== "GET") return tellOne(method, path, said);
  for (const [pattern, way] of RULES) {
    const found = pattern.exec(path);
    if (found) return way(found.slice(1), path, { query: {}, ...said });
  }
  return askAt(nodes[0], method, path, said);
}

const ELSEWHERE = new Set(["NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "GROUP_ID_NOT_FOUND", "NOT_CONTROLLER"]);

async function deleteRecords(name, path, { query }) {
  for (const row of await partitions(name)) await askAt(leaderOf(row), "DELETE", path, { query: { ...query, partition: row.partition } });
}

async function produce(name, path, { body }) {
  // each node has a turn of its own among the partitions, and may come to one that another node leads
  const rows = await partitions(name);
  const row = rows[Math.floor(Math.random() * rows.length)];
  return askAt(leaderOf(row), "POST", path, { body: { records: body.records.map((each) => ({ ...each, partition: row.partition })) } });
}

async function tellOne(method, path, said) {
  const [, name] = /^\/topics\/([^/]+)\/records$/.exec(path) ?? [];
  if (name && method === "DELETE" && !said.query.partition) return deleteRecords(name, path, said);
  if (name && method === "POST" && said.body.records.every((each) => (each.key ?? each.key_base64 ?? each.partition ?? null) === null)) return produce(name, path, said);
  // the first node that it is for; nothing is done by the others
  let first = null;
  for (const node of nodes) {
    try {
      return await askAt(node, method, path, said);
    } catch (error) {
      first ??= error;
      if (!ELSEWHERE.has(error.code)) throw error;
    }
  }
  throw first;
}
