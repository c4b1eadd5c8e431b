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
  let answer, said;
  try {
    answer = await fetch((node === undefined ? "" : `/page/nodes/${node}`) + path + text, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: "no-store" });
    said = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("The broker does not answer."), { status: 0 });
  }
  if (answer.status === 401) {
    await newToken();
    return ask(method, path, { query, body, signal, node });
  }
  const content = parsed(said);
  if (!answer.ok) throw Object.assign(new Error(content?.detail ?? (said.trim() || `HTTP ${answer.status}`)), { status: answer.status, code: content?.code });
  return content;
}

// A whole number above 2^53: calculated with as a Number, and shown and handed on with all its digits.
class Long extends Number {
  constructor(digits) {
    super(digits);
    this.digits = digits;
  }
  toString() { return this.digits; }
  toLocaleString(locale) { return BigInt(this.digits).toLocaleString(locale); }
  toJSON() { return JSON.rawJSON(this.digits); }
}

function parsed(text) {
  const exact = (_, value, context) => (Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) ? new Long(context.source) : value);
  try {
    return JSON.parse(text, /\d{16}/.test(text) ? exact : undefined);
  } catch {
    return null;
  }
}

function newToken() {
  asking ??= new Promise((resolve) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true });
    const box = dialog("The broker asks for its control token", field("Control token", input), "Go on", () => {
      const token = input.value.trim();
      new Headers({ authorization: token }); // refuses what no header can hold
      sessionStorage.setItem(TOKEN, token);
    });
    box.addEventListener("close", () => { asking = null; resolve(); });
  });
  return asking;
}

const way = (method, path, said) => (whole ?? ask)(method, path, said);
export const get = (path, query, signal) => way("GET", path, { query, signal });
export const post = (path, body) => way("POST", path, { body });
export const remove = (path, query) => way("DELETE", path, { query });
export const part = encodeURIComponent;
