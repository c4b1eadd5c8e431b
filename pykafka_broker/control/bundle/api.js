// The control API. Rule: a problem becomes an Error that says what the broker said.
import { dialog, el, field } from "/page/dom.js";

const TOKEN = "pykafka-broker control token";
let asking = null;
let whole = null; // for a page of a whole cluster: how it asks (cluster.js)

export function askWith(way) { whole = way; }

// node: another node of the cluster than the one that serves the page
export async function ask(method, path, { query = {}, body, signal, node } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : "";
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch((node === undefined ? "" : `/page/nodes/${node}`) + path + text, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The broker does not answer.");
  }
  if (answer.status === 401) {
    await newToken();
    return ask(method, path, { query, body, signal, node });
  }
  const content = await answer.json().catch(() => null);
  if (!answer.ok) throw Object.assign(new Error(content?.detail ?? `HTTP ${answer.status}`), { status: answer.status, code: content?.code });
  return content;
}

function newToken() {
  asking ??= new Promise((resolve) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true });
    const box = dialog("The broker asks for its control token", field("Control token", input), "Go on",
      () => sessionStorage.setItem(TOKEN, input.value.trim()));
    box.addEventListener("close", () => { asking = null; resolve(); });
  });
  return asking;
}

const way = (method, path, said) => (whole ?? ask)(method, path, said);
export const get = (path, query, signal) => way("GET", path, { query, signal });
export const post = (path, body) => way("POST", path, { body });
export const remove = (path, query) => way("DELETE", path, { query });
export const part = encodeURIComponent;
