// @platformatic/kafka, which speaks only versions of today.
const fs = require('node:fs')
const path = require('node:path')
const { pathToFileURL } = require('node:url')
const { COUNT, FIRST_MS, awaitRestart, largeOnes, main, same, until, values } = require('./scenario.js')

const [, , scenario, bootstrap, topic] = process.argv
const secure = {
  tls: { ca: scenario === 'security' ? [fs.readFileSync(process.env.MATRIX_CA)] : [] },
  sasl: { mechanism: 'SCRAM-SHA-512', username: process.env.MATRIX_USER, password: process.env.MATRIX_PASSWORD },
}
const base = { clientId: 'matrix', bootstrapBrokers: [bootstrap], ...(scenario === 'security' ? secure : {}) }
const TOPIC = 2 // among the resources that have configs
// The package has modules only, which NODE_PATH does not help to find.
const library = import(pathToFileURL(path.join(process.env.NODE_PATH, '@platformatic/kafka/dist/index.js')))

const admin = async () => new (await library).Admin(base)
const texts = (messages) => messages.map(({ value }) => value.toString())
const of = (given) => given.map((value) => ({ key: Buffer.from('k'), value: Buffer.from(value) }))
const inTopic = (messages) => messages.map((message) => ({ topic, partition: 0, ...message }))

async function withProducer(settings, use) {
  const producer = new (await library).Producer({ ...base, ...settings })
  await use(producer)
  await producer.close()
}

const deliver = (producer, messages) => producer.send({ messages: inTopic(messages), acks: -1 })
const send = (messages, settings = {}) => withProducer(settings, (producer) => deliver(producer, messages))

async function join(groupId, onData, options = {}, settings = {}) {
  const consumer = new (await library).Consumer({
    ...base, groupId, maxWaitTime: 200, heartbeatInterval: 300, sessionTimeout: 10000, ...settings,
  })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: 100, ...options })
  stream.on('data', onData)
  stream.on('error', () => {}) // while the broker is away
  const has = () => (consumer.assignments ?? []).reduce((sum, { partitions }) => sum + partitions.length, 0)
  return { has, close: async () => { await stream.close(); await consumer.close(true) } }
}

async function read(count, options = {}, settings = {}) {
  const got = []
  const reading = await join(`${topic}-${Math.random()}`, (message) => got.push(message), options, settings)
  await until(() => got.length >= count, `${count} records`)
  await reading.close()
  return got
}

async function thereAndBack(settings = {}) {
  await send(of(values), settings)
  same(texts(await read(COUNT)), values)
}

async function timed(count, stepMs) {
  const stamped = Array.from({ length: count }, (_, number) => ({ ...of([`${number}`])[0], timestamp: BigInt(FIRST_MS + number * stepMs) }))
  for (const message of stamped) await send([message])
}

async function twoMembers(groupProtocol) {
  const member = () => join(topic, () => {}, {}, { groupProtocol })
  const first = await member()
  await until(() => first.has() === 4, 'the first member has four partitions')
  const second = await member()
  await until(() => first.has() === 2 && second.has() === 2, 'two partitions each')
  await first.close()
  await until(() => second.has() === 4, 'the second member has four partitions')
  await second.close()
}

const scenarios = {
  async connect() {
    const found = await (await admin()).metadata({ topics: [topic] })
    same(found.topics.get(topic).partitionsCount, 4)
  },
  produce: () => thereAndBack(),
  async records() {
    const records = [['key', 'value'], [null, 'no key'], ['gone', null], ['empty', ''], [[0, 255], Buffer.alloc(100)]]
    const bytes = records.map((record) => record.map((each) => (each === null ? null : Buffer.from(each))))
    await send(bytes.map(([key, value]) => ({ key, value })))
    const hex = (each) => (each === null || each === undefined ? null : each.toString('hex'))
    same((await read(records.length)).map(({ key, value }) => [hex(key), hex(value)]), bytes.map((record) => record.map(hex)))
  },
  async headers() {
    const headers = new Map([[Buffer.from('one'), Buffer.from('1')], [Buffer.from('one'), Buffer.from('again')], [Buffer.from('empty'), Buffer.alloc(0)]])
    await send([{ value: Buffer.from('v'), headers }])
    const [message] = await read(1)
    const found = [...message.headers].map(([key, value]) => [key.toString(), value.toString()])
    same(found, [['one', '1'], ['one', 'again'], ['empty', '']])
  },
  async timestamps() {
    await timed(5, 1)
    same((await read(5)).map(({ timestamp }) => Number(timestamp)), [0, 1, 2, 3, 4].map((number) => FIRST_MS + number))
  },
  async codecs() {
    const said = []
    const sent = []
    for (const compression of ['gzip', 'snappy', 'lz4', 'zstd']) {
      try {
        await send(of(values), { compression })
        said.push(compression)
        sent.push(...values)
      } catch (error) {
        if (![error, ...(error.errors ?? [])].some(({ code }) => code === 'PLT_KFK_UNSUPPORTED_COMPRESSION')) throw error
        said.push(`${compression}: not with this Node.js`)
      }
    }
    same(texts(await read(sent.length)), sent)
    return said.join(', ')
  },
  idempotent: () => thereAndBack({ idempotent: true }),
  async transactions() {
    await withProducer({ transactionalId: topic, idempotent: true }, async (producer) => {
      for (let number = 0; number < 4; number++) {
        const transaction = await producer.beginTransaction()
        await transaction.send({ messages: inTopic(of([`${number}`, `${number}`])) })
        await (number % 2 ? transaction.abort() : transaction.commit())
      }
    })
    same(texts(await read(8, { isolationLevel: 0 })), ['0', '0', '1', '1', '2', '2', '3', '3'])
    same(texts(await read(4, { isolationLevel: 1 })), ['0', '0', '2', '2'])
  },
  group: () => twoMembers('classic'),
  next_group: () => twoMembers('consumer'),
  async commit() {
    await send(of(values))
    const got = []
    const first = await join(topic, (message) => got.push(message), { autocommit: false })
    await until(() => got.length === COUNT, 'all records')
    await got[29].commit()
    await first.close()
    const later = []
    const second = await join(topic, (message) => later.push(message), { mode: 'committed' })
    await until(() => later.length >= COUNT - 30, 'the rest')
    await second.close()
    same(texts(later), values.slice(30))
  },
  async seek() {
    await timed(10, 1000)
    const asking = await admin()
    for (const [timestamp, wanted] of [[FIRST_MS + 4500, 5], [-2, 0], [-1, 10]]) {
      const [listed] = await asking.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp: BigInt(timestamp) }] }] })
      same(Number(listed.partitions[0].offset), wanted)
    }
    const offsets = [{ topic, partition: 0, offset: 5n }]
    same(texts(await read(5, { mode: 'manual', offsets })), ['5', '6', '7', '8', '9'])
  },
  async admin() {
    const asking = await admin()
    const name = `${topic}-made`
    await asking.createTopics({ topics: [name], partitions: 1, replicas: 1 })
    await asking.createPartitions({ topics: [{ name, count: 3, assignments: null }] })
    const grown = async () => (await asking.metadata({ topics: [name], forceUpdate: true })).topics.get(name).partitionsCount === 3
    await until(grown, 'three partitions')
    const configs = [{ name: 'retention.ms', configOperation: 0, value: '7654321' }]
    await asking.incrementalAlterConfigs({ resources: [{ resourceType: TOPIC, resourceName: name, configs }] })
    const changed = async () => {
      const [described] = await asking.describeConfigs({ resources: [{ resourceType: TOPIC, resourceName: name, configurationKeys: ['retention.ms'] }] })
      return described.configs[0].value === '7654321'
    }
    await until(changed, 'the changed config')
    await asking.deleteTopics({ topics: [name] })
  },
  async large() {
    for (const value of largeOnes) await send(of([value]))
    same(texts(await read(5)), largeOnes)
  },
  security: () => thereAndBack(),
  async restart() {
    const patient = { retries: 600, retryDelay: 100 }
    const found = new Set()
    const reading = await join(topic, ({ value }) => found.add(value.toString()), {}, patient)
    await withProducer(patient, async (producer) => {
      for (const message of of(values.slice(0, 50))) await deliver(producer, [message])
      await until(() => found.size === 50, 'half of the records')
      await awaitRestart()
      for (const message of of(values.slice(50))) await deliver(producer, [message])
      await until(() => found.size === COUNT, 'all records')
    })
    await reading.close()
  },
}

main(scenarios, scenario)
