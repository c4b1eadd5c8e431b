// KafkaJS with the codecs that it has in itself, and Snappy.
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const { bootstrap, restarting, topic, sleep, check, until, askForRestart } = require('./check')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })
const admin = kafka.admin()
const why = (promise) => promise.then(() => 'none', (error) => error.type ?? error.message)

async function create(name, numPartitions = 1, configs = {}) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic: topic(name), numPartitions, configEntries }] })
  return topic(name)
}

async function withProducer(options, use) {
  const producer = kafka.producer(options)
  await producer.connect()
  const said = await use(producer)
  await producer.disconnect()
  return said
}

async function consumer(groupId, t, eachMessage, options = {}, onJoin = () => {}) {
  const started = kafka.consumer({ groupId, maxWaitTimeInMs: 200, heartbeatInterval: 300, ...options })
  started.on(started.events.GROUP_JOIN, ({ payload }) => onJoin((payload.memberAssignment[t] || []).length))
  await started.connect()
  await started.subscribe({ topic: t, fromBeginning: true })
  await started.run({ eachMessage })
  return started
}

async function read(t, count, options) {
  const got = []
  const reading = await consumer(`${t}-${Math.random()}`, t, async ({ message }) => { got.push(message) }, options)
  await until(() => got.length >= count)
  await sleep(300) // more than that must not come
  await reading.disconnect()
  return got
}

async function compressed(name, compression) {
  const t = await create(name, 2)
  const messages = Array.from({ length: 500 }, (_, i) => ({ key: `${i}`, value: 'v'.repeat(i), headers: { h: ['1', '2'] } }))
  await withProducer({}, (producer) => producer.send({ topic: t, compression, messages }))
  const got = await read(t, 500)
  return `${got.length} ${got.reduce((sum, message) => sum + message.value.length, 0)} ${got[0].headers.h}`
}

async function transactions() {
  const t = await create('transactions')
  await withProducer({ transactionalId: t, idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
    for (let i = 0; i < 4; i++) {
      const transaction = await producer.transaction()
      await transaction.send({ topic: t, messages: [{ value: `${i}` }, { value: `${i}` }] })
      await transaction.sendOffsets({ consumerGroupId: t, topics: [{ topic: t, partitions: [{ partition: 0, offset: `${i * 10}` }] }] })
      await (i % 2 ? transaction.abort() : transaction.commit())
    }
  })
  const show = (messages) => messages.map((message) => `${message.value}@${message.offset}`).join(' ')
  const [committed] = await admin.fetchOffsets({ groupId: t, topics: [t] })
  return `${show(await read(t, 4))} | ${show(await read(t, 8, { readUncommitted: true }))} | ${committed.partitions[0].offset}`
}

async function group() {
  const t = await create('group', 4)
  const have = {}
  const join = (name) => consumer(t, t, async () => {}, {}, (partitions) => { have[name] = partitions })
  const a = await join('a')
  const b = await join('b')
  await until(() => have.a === 2 && have.b === 2)
  const { groups: [described] } = await admin.describeGroups([t])
  await a.disconnect()
  await until(() => have.b === 4)
  await b.commitOffsets([{ topic: t, partition: 1, offset: '17' }])
  await b.disconnect()
  const [fetched] = await admin.fetchOffsets({ groupId: t, topics: [t] })
  const [deleted] = await admin.deleteGroups([t])
  const offsets = fetched.partitions.sort((x, y) => x.partition - y.partition).map(({ offset }) => offset)
  return `${described.state} ${described.protocol} ${described.members.length} ${offsets} ${deleted.errorCode}`
}

async function offsets() {
  const t = await create('offsets')
  const messages = Array.from({ length: 10 }, (_, i) => ({ value: 'x', timestamp: `${1700000000000 + i * 1000}` }))
  await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
    for (const message of messages) await producer.send({ topic: t, messages: [message] })
  })
  const [later] = await admin.fetchTopicOffsetsByTimestamp(t, 1700000004500)
  await admin.deleteTopicRecords({ topic: t, partitions: [{ partition: 0, offset: '3' }] })
  const [now] = await admin.fetchTopicOffsets(t)
  return `${later.offset} ${now.low} ${now.high}`
}

async function administration() {
  const t = await create('admin', 1, { 'retention.ms': '1234567' })
  const alter = (value) => admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: t, configEntries: [{ name: 'cleanup.policy', value }] }]
  })
  await alter('compact')
  const bad = await why(alter('nonsense'))
  await admin.createPartitions({ topicPartitions: [{ topic: t, count: 3 }] })
  await sleep(300) // Kafka's brokers learn it a little later
  const { resources: [described] } = await admin.describeConfigs({
    includeSynonyms: true, resources: [{ type: ConfigResourceTypes.TOPIC, name: t, configNames: ['cleanup.policy'] }]
  })
  const { topics: [metadata] } = await admin.fetchTopicMetadata({ topics: [t] })
  const again = await admin.createTopics({ topics: [{ topic: t }] })
  await admin.deleteTopics({ topics: [t] })
  return `${described.configEntries[0].configValue} ${bad} ${metadata.partitions.length} ${again}`
}

async function refused() {
  const t = await create('small', 1, { 'max.message.bytes': '2000' })
  return withProducer({ allowAutoTopicCreation: false, retry: { retries: 1 } }, async (producer) => {
    const large = await why(producer.send({ topic: t, messages: [{ value: 'x'.repeat(5000) }] }))
    return `${large} ${await why(producer.send({ topic: topic('never'), messages: [{ value: 'x' }] }))}`
  })
}

async function restart() {
  const t = await create('restart')
  const seen = new Set()
  const reading = await consumer(t, t, async ({ message }) => { seen.add(`${message.value}`) }, { retry: { retries: 100 } })
  const patient = { idempotent: true, maxInFlightRequests: 1, retry: { retries: 100, maxRetryTime: 1000 } }
  await withProducer(patient, async (producer) => {
    let over
    for (let i = 0; i < 200; i++) {
      if (i === 100) over = askForRestart()
      await producer.send({ topic: t, messages: [{ value: `${i}` }] })
    }
    await over
  })
  await until(() => seen.size === 200)
  await reading.disconnect()
  return (await read(t, 200)).length
}

async function main() {
  await admin.connect()
  if (restarting) {
    await check('restart', restart)
  } else {
    await check('none', () => compressed('none', CompressionTypes.None))
    await check('gzip', () => compressed('gzip', CompressionTypes.GZIP))
    await check('snappy', () => compressed('snappy', CompressionTypes.Snappy))
    await check('transactions', transactions)
    await check('group', group)
    await check('offsets', offsets)
    await check('admin', administration)
    await check('refused', refused)
  }
  process.exit(0)
}
main()
