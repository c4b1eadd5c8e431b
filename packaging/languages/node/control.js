// The control API over HTTP: a call returns the broker's answer, or rejects with a ControlError that has its sentence.
'use strict'

const http = require('node:http')
const { Operations } = require('./operations.js')
const { revive } = require('./records.js')

/** A refusal of the broker. `status` is HTTP's, `code` the name of Kafka's error where one is behind it. */
class ControlError extends Error {
  constructor(problem) {
    super(problem.detail)
    this.name = 'ControlError'
    this.status = problem.status
    this.code = problem.code
    this.problem = problem
  }
}

/** A client of a broker's control API: `new ControlClient('http://127.0.0.1:9644')`. */
class ControlClient extends Operations {
  constructor(url, { token } = {}) {
    super()
    this.controlUrl = url.replace(/\/$/, '')
    this._token = token
  }

  /** Return the records of a topic, of all pages unless there is a limit. */
  async records(topic, options = {}) {
    if (options.limit !== undefined) return (await this.recordsPage(topic, options)).records
    const one = options.partition !== undefined && options.partition !== null
    const partitions = one ? [options.partition] : [...Array((await this.topic(topic)).partitions).keys()]
    const found = []
    for (const partition of partitions) {
      let page
      let from = options.from_offset ?? 0
      do {
        page = await this.recordsPage(topic, { ...options, partition, from_offset: from, limit: 5000 })
        found.push(...page.records)
        from = page.next_offsets[partition]
      } while (page.more)
    }
    return found
  }

  async _call(method, path, { query = {}, body, text } = {}) {
    const given = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) {
      if (value instanceof Uint8Array) given.set(`${name}_base64`, Buffer.from(value).toString('base64'))
      else if (value !== undefined && value !== null) given.set(name, String(value))
    }
    const headers = this._token === undefined ? {} : { authorization: `Bearer ${this._token}` }
    let data
    if (text !== undefined) {
      headers['content-type'] = 'text/plain; charset=utf-8'
      data = text
    } else if (body !== undefined) {
      headers['content-type'] = 'application/json'
      data = JSON.stringify(body)
    }
    const url = new URL(this.controlUrl)
    // A URL would lose the name of a group called '..'.
    const target = `${url.pathname.replace(/\/$/, '')}${path}${String(given) && `?${given}`}`
    const answer = await exchange(url, { method, path: target, headers }, data)
    const isJson = /^application\/(problem\+)?json\b/.test(answer.type)
    const said = isJson ? JSON.parse(answer.text, revive) : answer.text
    if (answer.status < 400) return said === null ? undefined : said
    throw new ControlError(isJson ? said : { status: answer.status, detail: said.trim() })
  }
}

/** Each call has a connection of its own: an idle one may be closed by the broker when the next call begins. */
function exchange(url, options, data) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { ...options, agent: false }, (response) => {
      const pieces = []
      response.on('data', (piece) => pieces.push(piece))
      response.on('error', reject)
      response.on('end', () => {
        const text = Buffer.concat(pieces).toString()
        resolve({ status: response.statusCode, type: response.headers['content-type'] ?? '', text })
      })
    })
    request.on('error', reject)
    request.end(data)
  })
}

module.exports = { ControlClient, ControlError }
