// Records as a test writes, expects and reads them. Bytes that are no UTF-8 are Buffers; the API has them in base64.
'use strict'

const FIELDS = ['key', 'value', 'headers', 'timestamp', 'partition']
const READ = Symbol('a record that was read')

/** Return a record for the API: a value alone, or an object with `key` or `value` and perhaps other fields. */
function toRecord(given) {
  if (!isRecord(given)) return content({}, 'value', given)
  const { headers, timestamp, partition } = given
  const said = { timestamp, partition: READ in given ? undefined : partition } // the key chooses again
  if ('key' in given) content(said, 'key', given.key)
  if ('value' in given) content(said, 'value', given.value)
  if (headers !== undefined) said.headers = toHeaders(headers)
  return said
}

function toRecords(given) {
  return Array.from(given, toRecord)
}

function isRecord(given) {
  if (typeof given !== 'object' || given === null || given instanceof Uint8Array || Array.isArray(given)) return false
  if (!('key' in given || 'value' in given)) return false
  const unknown = Object.keys(given).find((name) => !FIELDS.includes(name) && !(READ in given))
  if (unknown !== undefined) {
    throw new TypeError(`a record has no ${unknown}, only ${FIELDS.join(', ')}; write a JSON value as { value: ... }`)
  }
  return true
}

function toHeaders(headers) {
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers)
  return pairs.map((each) => (Array.isArray(each) ? each : [each.name, each.value])).map(toHeader)
}

function toHeader([name, value]) {
  return content({ name }, 'value', value)
}

function content(said, name, value) {
  if (value instanceof Uint8Array) said[`${name}_base64`] = Buffer.from(value).toString('base64')
  else said[name] = value === undefined ? null : value
  return said
}

/** Revive a part of an answer for JSON.parse: base64 becomes a Buffer, under the name of the text. */
function revive(_, part) {
  if (typeof part !== 'object' || part === null) return part
  for (const name of ['key', 'value']) {
    const encoded = `${name}_base64`
    if (!(encoded in part)) continue
    if (part[encoded] !== null) part[name] = Buffer.from(part[encoded], 'base64')
    delete part[encoded]
  }
  if ('offset' in part && 'timestamp_type' in part) Object.defineProperty(part, READ, { value: true })
  return part
}

module.exports = { revive, toRecord, toRecords }
