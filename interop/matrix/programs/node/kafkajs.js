// KafkaJS, 1.0 to 2. What a release lacks is found by asking it, never by its number.
const fs = require('node:fs')
const path = require('node:path')
const modules = process.env.NODE_PATH
const { COUNT, FIRST_MS, NotSupported, awaitRestart, largeOnes, main, same, sleep, until, values } = require('./scenario.js')
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require(path.join(modules, 'kafkajs'))

const [, , scenario, bootstrap, topic] = process.argv
const secure = {
  ssl: { ca: scenario === 'security' ? [fs.readFileSync(process.env.MATRIX_CA, 'utf8')] : [] },
  sasl: { mechanism: 'scram-sha-512', username: process.env.MATRIX_USER, password: process.env.MATRIX_PASSWORD },
}
const kafka = new Kafka({
  brokers: [bootstrap], clientId: 'matrix', logLevel: logLevel.NOTHING, ...(scenario === 'security' ? secure : {}),
})

async function send(messages, compression, settings = {}) {
  const producer = kafka.producer(settings)
  await producer.connect()
  await producer.send({ topic, acks: -1, compression, messages: messages.map((message) => ({ partition: 0, key: 'k', ...message })) })
  await producer.disconnect()
}

async function consumer(groupId, eachMessage, settings = {}) {
  const made = kafka.consumer({ groupId, maxWaitTimeInMs: 200, heartbeatInterval: 300, sessionTimeout: 10000, ...settings })
  made.partitions = -1
  if (made.events.GROUP_JOIN) made.on(made.events.GROUP_JOIN, ({ payload }) => { made.partitions = (payload.memberAssignment[topic] || []).length })
  await made.connect()
  await made.subscribe({ topic, fromBeginning: true })
  await made.run({ autoCommit: false, eachMessage })
  return made
}

async function read(count, settings) {
  const got = []
  const reader = await consumer(`${topic}-reader-${count}`, async ({ message }) => { got.push(message) }, settings)
  await until(() => got.length >= count, `${count} records`)
  await sleep(200) // more than that must not come
  await reader.disconnect()
  return got
}

const texts = (messages) => messages.map((message) => message.value.toString())
const bytes = (value) => (value === null || value === undefined ? null : value.toString('hex'))

async function withAdmin(use) {
  const admin = kafka.admin()
  await admin.connect()
  const found = await use(admin)
  await admin.disconnect()
  return found
}

async function partitionsOf(admin, name) {
  const found = await (admin.fetchTopicMetadata || admin.getTopicMetadata)({ topics: [name] })
  return found.topics[0].partitions.length
}

const scenarios = {
  async connect() {
    if (!kafka.admin) throw new NotSupported('the client has no administration, which tells of topics')
    await withAdmin(async (admin) => {
      if (!admin.fetchTopicMetadata && !admin.getTopicMetadata) throw new NotSupported('the client does not tell of topics')
      same(await partitionsOf(admin, topic), 4)
    })
  },
  async produce() {
    await send(values.map((value) => ({ key: 'k', value })))
    same(texts(await read(COUNT)), values)
  },
  async records() {
    const records = [['key', 'value'], [null, 'no key'], ['gone', null], ['empty', ''], [Buffer.from([0, 255]), Buffer.alloc(100)]]
    await send(records.map(([key, value]) => ({ key, value })))
    const hex = records.map((record) => record.map((each) => (each === null ? null : Buffer.from(each).toString('hex'))))
    same((await read(records.length)).map(({ key, value }) => [bytes(key), bytes(value)]), hex)
  },
  async headers() {
    try {
      await send([{ value: 'v', headers: { one: ['1', 'again'], empty: '' } }])
    } catch (error) {
      throw error instanceof TypeError ? new NotSupported('the client has one header of a name') : error
    }
    const [{ headers }] = await read(1)
    if (!headers) throw new NotSupported('the client has no headers')
    if (!Array.isArray(headers.one)) throw new NotSupported('the client has one header of a name')
    same(headers.one.map(String), ['1', 'again'])
    same(String(headers.empty), '')
  },
  async timestamps() {
    const times = [0, 1, 2, 3, 4].map((number) => `${FIRST_MS + number}`)
    await send(times.map((timestamp) => ({ value: 'v', timestamp })))
    same((await read(5)).map((message) => message.timestamp), times)
  },
  async codecs() {
    const said = []
    try {
      CompressionCodecs[CompressionTypes.Snappy] = require(path.join(modules, 'kafkajs-snappy'))
    } catch {
      said.push('snappy: not there')
    }
    let sent = []
    for (const name of ['GZIP', 'Snappy']) {
      await send(values.map((value) => ({ value })), CompressionTypes[name])
      sent = [...sent, ...values]
      same(texts(await read(sent.length)), sent)
      said.push(name.toLowerCase())
    }
    return [...said, 'lz4 and zstd: in packages of others'].join(', ')
  },
  async idempotent() {
    await send(values.map((value) => ({ value })), undefined, { idempotent: true, maxInFlightRequests: 1 })
    same(texts(await read(COUNT)), values)
  },
  async transactions() {
    const producer = kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 })
    if (!producer.transaction) throw new NotSupported('the client has no transactions')
    await producer.connect()
    for (const number of [0, 1, 2, 3]) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ key: 'k', value: `${number}` }, { key: 'k', value: `${number}` }] })
      await (number % 2 ? transaction.abort() : transaction.commit())
    }
    await producer.disconnect()
    same(texts(await read(8, { readUncommitted: true })), ['0', '0', '1', '1', '2', '2', '3', '3'])
    same(texts(await read(4)), ['0', '0', '2', '2'])
  },
  async group() {
    const first = await consumer(topic, async () => {})
    if (!first.events.GROUP_JOIN) throw new NotSupported('the client does not tell of its partitions')
    await until(() => first.partitions === 4, 'the first member has four partitions')
    const second = await consumer(topic, async () => {})
    await until(() => first.partitions === 2 && second.partitions === 2, 'two partitions each')
    await first.disconnect()
    await until(() => second.partitions === 4, 'the second member has four partitions')
    await second.disconnect()
  },
  async commit() {
    await send(values.map((value) => ({ value })))
    const first = []
    const one = await consumer(topic, async ({ message }) => { first.push(message) })
    await until(() => first.length === COUNT, 'all records')
    if (!one.commitOffsets) throw new NotSupported('the client commits by itself only')
    await one.commitOffsets([{ topic, partition: 0, offset: '30' }])
    await one.disconnect()
    const later = []
    const other = await consumer(topic, async ({ message }) => { later.push(message) })
    await until(() => later.length === COUNT - 30, 'the rest')
    same(texts(later), values.slice(30))
    await other.disconnect()
  },
  async seek() {
    await send(Array.from({ length: 10 }, (_, number) => ({ value: `${number}`, timestamp: `${FIRST_MS + 1000 * number}` })))
    if (!kafka.admin) throw new NotSupported('the client has no look-up by time')
    await withAdmin(async (admin) => {
      if (!admin.fetchTopicOffsetsByTimestamp) throw new NotSupported('the client has no look-up by time')
      same((await admin.fetchTopicOffsetsByTimestamp(topic, FIRST_MS + 4500))[0].offset, '5')
      const [{ low, high }] = await admin.fetchTopicOffsets(topic)
      same([low, high], ['0', '10'])
    })
    const got = []
    const reader = await consumer(topic, async ({ message }) => { got.push(message) })
    await until(() => got.length === 10, 'all records')
    reader.seek({ topic, partition: 0, offset: '5' })
    await until(() => got.length === 15, 'the last five again')
    same(got[10].value.toString(), '5')
    await reader.disconnect()
  },
  async admin() {
    const name = `${topic}-made`
    if (!kafka.admin) throw new NotSupported('the client has no administration')
    await withAdmin(async (admin) => {
      if (!admin.createPartitions || !admin.alterConfigs) throw new NotSupported('the client creates and deletes topics, no more')
      await admin.createTopics({ waitForLeaders: true, topics: [{ topic: name, numPartitions: 1 }] })
      await admin.createPartitions({ topicPartitions: [{ topic: name, count: 3 }] })
      for (const end = Date.now() + 10000; Date.now() < end && (await partitionsOf(admin, name)) !== 3;) await sleep(50)
      same(await partitionsOf(admin, name), 3)
      const resource = { type: 2, name }
      await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '7654321' }] }] })
      const found = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }], includeSynonyms: false })
      same(found.resources[0].configEntries[0].configValue, '7654321')
      await admin.deleteTopics({ topics: [name] })
    })
  },
  async large() {
    for (const value of largeOnes) await send([{ value }])
    same(texts(await read(5)), largeOnes)
  },
  async security() {
    try {
      await send(values.map((value) => ({ value })))
    } catch (error) {
      throw /not supported by the client/.test(error.message) ? new NotSupported('the client has no SCRAM') : error
    }
    same(texts(await read(COUNT)), values)
  },
  async restart() {
    const producer = kafka.producer({ retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 } })
    await producer.connect()
    const found = new Set()
    const retry = { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 }
    const reader = await consumer(topic, async ({ message }) => { found.add(message.value.toString()) }, { retry })
    for (const value of values.slice(0, 50)) await producer.send({ topic, messages: [{ key: 'k', value }] })
    await until(() => found.size === 50, 'half of the records')
    await awaitRestart()
    for (const value of values.slice(50)) await producer.send({ topic, messages: [{ key: 'k', value }] })
    await until(() => found.size === COUNT, 'all records')
    await reader.disconnect()
  },
}

main(scenarios, scenario)
