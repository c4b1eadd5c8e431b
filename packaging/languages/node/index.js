// A Kafka broker for tests, in a process of its own that ends with this one.
'use strict'

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')
const { createInterface } = require('node:readline')
const { ControlClient, ControlError } = require('./control.js')

const LOG_CHARACTERS = 16_000
const START_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 30_000

/** A broker on a free port of the loopback interface: `await KafkaBroker.start()`, and `await broker.stop()`. */
class KafkaBroker extends ControlClient {
  #child
  #ended
  #topics

  constructor(started, options) {
    super(started.controlUrl)
    this.bootstrapServers = started.bootstrapServers
    this.schemaRegistryUrl = started.schemaRegistryUrl
    this.#child = started.child
    this.#ended = started.ended
    this.#topics = topicsOf(options.topics)
  }

  /** Start a broker and wait until clients may connect. */
  static async start(options = {}) {
    const { command: given, ...others } = options
    let refusal
    for (const command of given === undefined ? commands(process.env) : [given]) {
      try {
        const broker = new KafkaBroker(await started(command, others), others)
        try {
          await broker.#createTopics()
        } catch (error) {
          await broker.stop()
          throw error
        }
        return broker
      } catch (error) {
        if (!(error instanceof NotThere)) throw error
        refusal ??= error // the first one names the command that a reader knows
      }
    }
    throw new Error(`${refusal.message}: have pykafka-broker on the PATH, or set PYKAFKA_BROKER_PROGRAM`)
  }

  /** The end of the broker's log. */
  get log() {
    return this.#child.logged
  }

  /** Go back to the state before the first client, with the topics that `start` was given. */
  async reset(options = {}) {
    await super.reset(options)
    await this.#createTopics()
  }

  /** Stop the broker. Its data goes with it. */
  async stop() {
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    await this.#ended
    clearTimeout(timer)
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop()
  }

  async #createTopics() {
    for (const [name, options] of this.#topics) await this.createTopic(name, { ...options, exist_ok: true })
  }
}

/** A program that this machine does not have. */
class NotThere extends Error {}

function commands(environment) {
  const program = environment.PYKAFKA_BROKER_PROGRAM
  if (!program) return [['pykafka-broker'], ['python3', '-m', 'pykafka_broker'], ['python', '-m', 'pykafka_broker']]
  return [/^(python|py)[\d.]*(\.exe)?$/i.test(path.basename(program)) ? [program, '-m', 'pykafka_broker'] : [program]]
}

/** Return pairs of a name and the options of createTopic, from names or an object of partitions or options. */
function topicsOf(topics = []) {
  if (Array.isArray(topics)) return topics.map((name) => [name, {}])
  return Object.entries(topics).map(([name, of]) => [name, typeof of === 'number' ? { partitions: of } : of])
}

function flags(options) {
  const { config = {}, emulate, history, logLevel = 'info', quickGroups = true, schemaRegistry, strict = true } = options
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name))
  if (unknown !== undefined) throw new TypeError(`a broker has no ${unknown}, only command, ${OPTIONS.join(', ')}`)
  if (typeof options.topics === 'string') throw new TypeError(`topics must be a list, such as ['${options.topics}']`)
  const given = ['--stop-on-stdin-close', '--control', '127.0.0.1:0', '--log-level', logLevel]
  if (!('log.dirs' in config || 'log.dir' in config)) given.push('--ephemeral')
  if (!('listeners' in config)) given.push('--listen', `127.0.0.1:${options.port ?? 0}`)
  if (quickGroups) given.push('--quick-groups')
  if (strict) given.push('--strict')
  if (emulate !== undefined) given.push('--emulate', emulate)
  if (schemaRegistry) given.push('--schema-registry', '127.0.0.1:0')
  if (history !== undefined) given.push('--history', history)
  for (const [name, value] of Object.entries(config)) given.push('--override', `${name}=${value}`)
  return given
}

const OPTIONS = 'config emulate history logLevel port quickGroups schemaRegistry startTimeoutMs strict topics'.split(' ')

/** Start the process, and return it with its addresses. Throws NotThere where there is no such program. */
async function started(command, options) {
  const [program, ...begin] = command
  const child = spawn(program, [...begin, ...flags(options)], { env: environment(), windowsHide: true })
  child.logged = ''
  createInterface({ input: child.stderr }).on('line', (line) => {
    child.logged = `${child.logged}${line}\n`.slice(-LOG_CHARACTERS)
    const [, warning] = line.match(/ WARNING pykafka_broker: (unknown config .*)/) ?? []
    if (warning !== undefined) process.emitWarning(warning) // a test that goes wrong for it would not show the log
  })
  child.stdin.on('error', () => {}) // the process has ended already
  const ended = new Promise((resolve) => child.once('close', resolve))
  const missing = once(child, 'spawn').then(
    () => undefined,
    (error) => Promise.reject(error.code === 'ENOENT' ? new NotThere(`${program} is not there`) : error)
  )
  await missing
  const limit = options.startTimeoutMs ?? START_TIMEOUT_MS
  let late = false
  const timer = setTimeout(() => {
    late = true
    child.kill('SIGKILL')
  }, limit)
  const addresses = {}
  for await (const line of createInterface({ input: child.stdout })) {
    const [, name, address] = line.match(/^(control|schema registry|listening) on (.*)$/) ?? []
    if (name !== undefined) addresses[name] = address
    if (name === 'listening') break
  }
  clearTimeout(timer)
  if (addresses.listening === undefined) {
    const code = await ended
    if (/No module named '?pykafka_broker/.test(child.logged)) throw new NotThere(`${program} has no pykafka_broker`)
    throw new Error(`the broker ${late ? `was not ready within ${limit} ms` : `ended with exit code ${code}`}\n${child.logged}`)
  }
  for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref() // tests that forget `stop` end
  return {
    child,
    ended,
    bootstrapServers: addresses.listening,
    controlUrl: addresses.control,
    schemaRegistryUrl: addresses['schema registry'],
  }
}

/** Return the environment without settings of a broker: a test's broker has the test's settings. */
function environment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(KAFKA_|CLUSTER_ID$)/.test(name)))
}

module.exports = { ControlClient, ControlError, KafkaBroker }
