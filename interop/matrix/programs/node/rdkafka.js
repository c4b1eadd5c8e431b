// node-rdkafka, and Confluent's successor of it, which has its interface too: both are librdkafka, compiled for Node.js.
const path = require('node:path')
const { COUNT, FIRST_MS, NotSupported, awaitRestart, largeOnes, main, same, until, values } = require('./scenario.js')
const { AdminClient, KafkaConsumer, Producer } = require(path.join(process.env.NODE_PATH, process.argv[2]))

const [, , , scenario, bootstrap, topic] = process.argv
const PATIENCE_MS = 20000
const secure = {
  'security.protocol': 'sasl_ssl', 'sasl.mechanisms': 'SCRAM-SHA-512', 'ssl.ca.location': process.env.MATRIX_CA,
  'sasl.username': process.env.MATRIX_USER, 'sasl.password': process.env.MATRIX_PASSWORD,
}
const settings = { 'bootstrap.servers': bootstrap, ...(scenario === 'security' ? secure : {}) }

// What these clients do by a callback in the last place, awaited.
const call = (object, name, ...words) => new Promise((done, failed) => {
  object[name](...words, (error, found) => (error ? failed(error) : done(found)))
})

function made(kind, more, topicSettings) {
  try {
    return new kind({ ...settings, ...more }, topicSettings)
  } catch (error) {
    throw /No such configuration property|Invalid value|not available/.test(error.message) ? new NotSupported(error.message.split('\n')[0]) : error
  }
}

async function connectedProducer(more = {}) {
  const producer = made(Producer, { dr_cb: true, ...more }, {})
  producer.on('event.error', () => {})
  producer.delivered = 0
  producer.failed = []
  producer.on('delivery-report', (error) => (error ? producer.failed.push(error) : producer.delivered++))
  await call(producer, 'connect', { timeout: PATIENCE_MS })
  producer.setPollInterval(20)
  return producer
}

async function deliver(producer, messages, withinMs = PATIENCE_MS) {
  const wanted = producer.delivered + messages.length
  for (const { key, value, timestamp, headers } of messages) producer.produce(topic, 0, value, key, timestamp, null, headers)
  await until(() => producer.failed.length || producer.delivered === wanted, 'all delivered', withinMs)
  same(producer.failed.map((error) => error.message), [])
}

async function send(messages, more) {
  const producer = await connectedProducer(more)
  await deliver(producer, messages)
  await call(producer, 'disconnect')
}

const of = (texts) => texts.map((value) => ({ key: 'k', value: Buffer.from(value) }))
const texts = (messages) => messages.map((message) => message.value.toString())

async function connectedConsumer(group, more = {}) {
  const consumer = made(KafkaConsumer, { 'group.id': group, 'enable.auto.commit': false, ...more }, { 'auto.offset.reset': 'earliest' })
  consumer.on('event.error', () => {})
  await call(consumer, 'connect', { timeout: PATIENCE_MS })
  consumer.setDefaultConsumeTimeout(100)
  return consumer
}

// Up to that many, and no one waits longer than a poll lasts.
const poll = async (consumer, count) => (await call(consumer, 'consume', count).catch(() => [])) || []

async function take(consumer, count, withinMs = 30000) {
  const got = []
  await until(async () => got.push(...(await poll(consumer, count - got.length))) >= count, `${count} records`, withinMs)
  return got
}

async function read(count, more) {
  const consumer = await connectedConsumer(`${topic}-reader`, more)
  consumer.assign([{ topic, partition: 0, offset: 0 }])
  const got = await take(consumer, count)
  await call(consumer, 'disconnect')
  return got
}

async function partitionsOf(client, name) {
  const { topics } = await call(client, 'getMetadata', { topic: name, timeout: PATIENCE_MS })
  return topics.find((each) => each.name === name).partitions.length
}

async function group(more) {
  const join = async () => {
    const member = await connectedConsumer(topic, more)
    member.subscribe([topic])
    member.polling = (async () => { while (!member.leaving) await poll(member, 10) })()
    member.leave = async () => { member.leaving = true; await member.polling; await call(member, 'disconnect') }
    return member
  }
  const has = (member, count) => member.assignments().length === count
  const first = await join()
  await until(() => has(first, 4), 'the first member has four partitions')
  const second = await join()
  await until(() => has(first, 2) && has(second, 2), 'two partitions each')
  await first.leave()
  await until(() => has(second, 4), 'the second member has four partitions')
  await second.leave()
}

const scenarios = {
  async connect() {
    const producer = await connectedProducer()
    same(await partitionsOf(producer, topic), 4)
    await call(producer, 'disconnect')
  },
  async produce() {
    await send(of(values))
    same(texts(await read(COUNT)), values)
  },
  async records() {
    const records = [['key', 'value'], [null, 'no key'], ['gone', null], ['empty', ''], [Buffer.from([0, 255]), Buffer.alloc(100)]]
    const bytes = records.map((record) => record.map((each) => (each === null ? null : Buffer.from(each))))
    await send(bytes.map(([key, value]) => ({ key, value })))
    const hex = (each) => (each === null || each === undefined ? null : Buffer.from(each).toString('hex'))
    same((await read(records.length)).map(({ key, value }) => [hex(key), hex(value)]), bytes.map((record) => record.map(hex)))
  },
  async headers() {
    await send([{ value: Buffer.from('v'), headers: [{ one: '1' }, { one: 'again' }, { empty: '' }] }])
    const [{ headers }] = await read(1)
    same((headers || []).map((header) => Object.entries(header).map(([name, value]) => [name, String(value)])), [[['one', '1']], [['one', 'again']], [['empty', '']]])
  },
  async timestamps() {
    const times = [0, 1, 2, 3, 4].map((number) => FIRST_MS + number)
    await send(times.map((timestamp) => ({ value: Buffer.from('v'), timestamp })))
    same((await read(5)).map((message) => message.timestamp), times)
  },
  async codecs() {
    const names = ['gzip', 'snappy', 'lz4', 'zstd']
    const said = []
    for (const name of names) {
      try {
        await send(of(values), { 'compression.codec': name, 'linger.ms': 20 })
        said.push(name)
      } catch (error) {
        if (!(error instanceof NotSupported)) throw error
        said.push(`${name}: not in this build`)
      }
    }
    const sent = said.filter((each) => names.includes(each)).flatMap(() => values)
    same(texts(await read(sent.length)), sent)
    return said.join(', ')
  },
  async idempotent() {
    await send(of(values), { 'enable.idempotence': true })
    same(texts(await read(COUNT)), values)
  },
  async transactions() {
    const producer = await connectedProducer({ 'transactional.id': topic })
    if (!producer.initTransactions) throw new NotSupported('the client has no transactions')
    await call(producer, 'initTransactions', PATIENCE_MS)
    for (const number of [0, 1, 2, 3]) {
      await call(producer, 'beginTransaction')
      await deliver(producer, of([`${number}`, `${number}`]))
      await call(producer, number % 2 ? 'abortTransaction' : 'commitTransaction', PATIENCE_MS)
    }
    await call(producer, 'disconnect')
    same(texts(await read(8, { 'isolation.level': 'read_uncommitted' })), ['0', '0', '1', '1', '2', '2', '3', '3'])
    same(texts(await read(4, { 'isolation.level': 'read_committed' })), ['0', '0', '2', '2'])
  },
  group: () => group({ 'heartbeat.interval.ms': 300, 'session.timeout.ms': 10000 }),
  next_group: () => group({ 'group.protocol': 'consumer' }),
  async commit() {
    await send(of(values))
    const one = await connectedConsumer(topic)
    one.subscribe([topic])
    const got = await take(one, 30)
    one.commitMessageSync(got[29])
    await until(async () => (await call(one, 'committed', [{ topic, partition: 0 }], PATIENCE_MS))[0].offset === 30, 'the committed offset')
    await call(one, 'disconnect')
    const other = await connectedConsumer(topic)
    other.subscribe([topic])
    same(texts(await take(other, COUNT - 30)), values.slice(30))
    await call(other, 'disconnect')
  },
  async seek() {
    await send(Array.from({ length: 10 }, (_, number) => ({ value: Buffer.from(`${number}`), timestamp: FIRST_MS + 1000 * number })))
    const consumer = await connectedConsumer(topic)
    const [found] = await call(consumer, 'offsetsForTimes', [{ topic, partition: 0, offset: FIRST_MS + 4500 }], PATIENCE_MS)
    same(found.offset, 5)
    const { lowOffset, highOffset } = await call(consumer, 'queryWatermarkOffsets', topic, 0, PATIENCE_MS)
    same([lowOffset, highOffset], [0, 10])
    consumer.assign([{ topic, partition: 0, offset: 5 }])
    same(texts(await take(consumer, 5)), ['5', '6', '7', '8', '9'])
    await call(consumer, 'disconnect')
  },
  async admin() {
    const name = `${topic}-made`
    const admin = AdminClient.create(settings)
    const producer = await connectedProducer()
    await call(admin, 'createTopic', { topic: name, num_partitions: 1, replication_factor: 1 })
    await call(admin, 'createPartitions', name, 3, PATIENCE_MS)
    await until(async () => (await partitionsOf(producer, name)) === 3, 'three partitions')
    await call(admin, 'deleteTopic', name, PATIENCE_MS)
    admin.disconnect()
    if (!admin.alterConfigs && !admin.incrementalAlterConfigs) throw new NotSupported('the client makes, grows and deletes topics, and has no configs')
  },
  async large() {
    await send(of(largeOnes))
    same(texts(await read(5)), largeOnes)
  },
  async security() {
    await send(of(values))
    same(texts(await read(COUNT)), values)
  },
  async restart() {
    const producer = await connectedProducer()
    const consumer = await connectedConsumer(topic, { 'session.timeout.ms': 10000 })
    consumer.subscribe([topic])
    await deliver(producer, of(values.slice(0, 50)))
    const found = new Set(texts(await take(consumer, 50)))
    await awaitRestart()
    await deliver(producer, of(values.slice(50)), 40000)
    await until(async () => texts(await poll(consumer, COUNT)).forEach((text) => found.add(text)) || found.size === COUNT, 'all records')
  },
}

main(scenarios, scenario)
