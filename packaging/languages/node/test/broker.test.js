'use strict'

const assert = require('node:assert')
const { execFile } = require('node:child_process')
const { once } = require('node:events')
const { after, afterEach, before, describe, test } = require('node:test')
const { promisify } = require('node:util')
const { ControlClient, ControlError, KafkaBroker } = require('..')

describe('a broker', () => {
  let broker

  before(async () => {
    broker = await KafkaBroker.start({ topics: { orders: 2 }, config: { 'message.max.bytes': 100_000 } })
  })
  afterEach(() => broker.reset())
  after(() => broker.stop())

  test('has its topics, also after a reset, and no records', async () => {
    await broker.produce('orders', ['apples'])
    await broker.createTopic('payments', { partitions: 3 })
    await broker.reset()
    assert.deepStrictEqual((await broker.topics()).map(({ name, partitions }) => [name, partitions]), [['orders', 2]])
    assert.deepStrictEqual(await broker.records('orders'), [])
  })

  test('writes and reads records of all forms', async () => {
    const bytes = Buffer.from([0xff, 0x00])
    const headers = { unit: 'kg', raw: bytes }
    const written = await broker.produce('orders', [
      { key: '17', value: { fruit: 'apples' }, headers, timestamp: 1000, partition: 1 },
      { value: null, key: bytes, partition: 1 },
    ])
    assert.deepStrictEqual(written, [{ partition: 1, offset: 0 }, { partition: 1, offset: 1 }])
    const [first, second] = await broker.waitForRecords('orders', 2)
    assert.deepStrictEqual(
      [first.key, first.value, first.timestamp, first.headers],
      ['17', '{"fruit":"apples"}', 1000, [{ name: 'unit', value: 'kg' }, { name: 'raw', value: bytes }]]
    )
    assert.deepStrictEqual([second.key, second.value], [bytes, null])
    await broker.assertRecords('orders', [{ key: '17', value: { fruit: 'apples' } }, { key: bytes, value: null }])
    for (const key of [bytes, new Uint8Array(bytes)]) {
      assert.deepStrictEqual(await broker.records('orders', { key }), [second])
    }
    await broker.produce('orders', [first]) // what was read may be written again
    await broker.assertContains('orders', [{ value: { fruit: 'apples' }, partition: 1 }])
    assert.strictEqual((await broker.records('orders')).length, 3)
  })

  test('reads more records than a page has', async () => {
    for (let begin = 0; begin < 6000; begin += 2000) {
      await broker.produce('orders', Array.from({ length: 2000 }, (_, n) => ({ value: begin + n, partition: 0 })))
    }
    const values = (await broker.records('orders')).map(({ value }) => Number(value))
    assert.deepStrictEqual(values, [...Array(6000).keys()])
    assert.strictEqual((await broker.records('orders', { limit: 7 })).length, 7)
  })

  test('is asked about any name', async () => {
    for (const name of ['..', '.', 'a/../b', 'a b?c#d']) {
      await assert.rejects(broker.group(name), (error) => error.status === 404 && error.message.includes(name))
    }
  })

  test('refuses with its own sentence', async () => {
    await assert.rejects(broker.topic('nowhere'), (error) => {
      assert.ok(error instanceof ControlError)
      assert.deepStrictEqual([error.status, error.code], [404, 'UNKNOWN_TOPIC_OR_PARTITION'])
      return true
    })
    await assert.rejects(broker.waitForRecords('orders', 1, { timeout_ms: 1 }), { status: 408 })
    await assert.rejects(broker.produce('orders', ['x'.repeat(200_000)]), { code: 'MESSAGE_TOO_LARGE' })
    await assert.rejects(broker.produce('orders', [{ key: 'a', offset: 3 }]), /a record has no offset/)
  })

  test('has a clock, faults, groups and seeds', async () => {
    const { now_ms: before } = await broker.freezeClock()
    assert.strictEqual((await broker.advanceClock(60_000)).now_ms, before + 60_000)
    const { id } = await broker.addFault({ api: 'Produce', error: 'NOT_LEADER_OR_FOLLOWER', times: 1 })
    assert.strictEqual((await broker.fault(id)).hits, 0)
    await broker.commit('billing', 'orders', 0)
    assert.strictEqual((await broker.lag('billing')).lag, 0)
    const dumped = await broker.dump()
    await broker.reset()
    await broker.deleteTopic('orders')
    assert.strictEqual((await broker.seed(dumped)).offsets, 1)
    assert.deepStrictEqual((await broker.groups()).map((each) => each.group_id), ['billing'])
    assert.match(await broker.metrics(), /^# HELP/)
  })

  test('is also controlled by its address alone', async () => {
    const other = new ControlClient(`${broker.controlUrl}/`)
    assert.deepStrictEqual(await other.broker(), await broker.broker())
  })
})

test('a listener may be configured with a login', async () => {
  const broker = await KafkaBroker.start({
    config: {
      listeners: 'SASL_PLAINTEXT://127.0.0.1:0',
      'sasl.enabled.mechanisms': 'PLAIN',
      'listener.name.sasl_plaintext.plain.sasl.jaas.config':
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";',
    },
  })
  try {
    assert.deepStrictEqual((await broker.broker()).listeners, { SASL_PLAINTEXT: broker.bootstrapServers })
    await broker.createTopic('orders')
  } finally {
    await broker.stop()
  }
})

test('a start that fails tells why', async () => {
  await assert.rejects(KafkaBroker.start({ config: { 'num.partitions': 'many' } }), /ended with exit code \d+\n.*num\.partitions/s)
  await assert.rejects(KafkaBroker.start({ command: ['no-such-program'] }), /no-such-program is not there: have/)
  await assert.rejects(KafkaBroker.start({ port: 0, ports: 1 }), /a broker has no ports/)
  await assert.rejects(KafkaBroker.start({ topics: 'orders' }), /topics must be a list, such as \['orders'\]/)
  await assert.rejects(KafkaBroker.start({ topics: ['no/topic'] }), { code: 'INVALID_TOPIC_EXCEPTION' })
})

test('an unknown config is named in a warning of the process', async () => {
  const warned = once(process, 'warning')
  const broker = await KafkaBroker.start({ config: { 'log.retention.mss': 1 } })
  try {
    assert.match((await warned)[0].message, /^unknown config log\.retention\.mss is ignored; did you mean log\.retention\.ms/)
  } finally {
    await broker.stop()
  }
})

test('a machine without the broker is told so by the name of the command', async () => {
  const { PATH, PYKAFKA_BROKER_PROGRAM: program } = process.env
  process.env.PATH = ''
  delete process.env.PYKAFKA_BROKER_PROGRAM
  try {
    await assert.rejects(KafkaBroker.start(), /^Error: pykafka-broker is not there: have/)
  } finally {
    process.env.PATH = PATH
    if (program !== undefined) process.env.PYKAFKA_BROKER_PROGRAM = program
  }
})

test('a program that forgets stop ends, and its broker too', async () => {
  const program = `
    const { KafkaBroker } = require(${JSON.stringify(require.resolve('..'))})
    KafkaBroker.start().then((broker) => console.log(broker.controlUrl))`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program])
  const control = new ControlClient(stdout.trim())
  for (;;) {
    try {
      await control.health()
    } catch (error) {
      if (error.code === 'ECONNREFUSED') return
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
})
