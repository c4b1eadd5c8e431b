// @platformatic/kafka, which speaks only versions of today.
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import shared from './check.js'

const { bootstrap, restarting, topic, sleep, check, until, askForRestart } = shared
const base = { clientId: 'platformatic', bootstrapBrokers: [bootstrap] }
const admin = new Admin(base)

async function create(name, partitions = 1, configs = []) {
  await admin.createTopics({ topics: [topic(name)], partitions, replicas: 1, configs })
  await sleep(300) // Kafka's brokers learn it a little later
  return topic(name)
}

async function why(promise) {
  try {
    await promise
    return 'none'
  } catch (error) {
    let inner = error
    while (inner.errors?.length) inner = inner.errors[0]
    return inner.apiId ?? inner.message
  }
}

async function withProducer(options, use) {
  const producer = new Producer({ ...base, serializers: stringSerializers, ...options })
  const said = await use(producer)
  await producer.close()
  return said
}

async function consume(groupId, t, onData, options = {}, settings = {}) {
  const consumer = new Consumer({ ...base, groupId, deserializers: stringDeserializers, maxWaitTime: 200, ...settings })
  const stream = await consumer.consume({ topics: [t], mode: 'earliest', ...options })
  stream.on('data', onData)
  stream.on('error', () => {}) // while the broker is away
  return { consumer, close: async () => { await stream.close(); await consumer.close(true) } }
}

async function read(t, count) {
  const got = []
  const reading = await consume(`${t}-${Math.random()}`, t, (message) => got.push(message))
  await until(() => got.length >= count)
  await reading.close()
  return got
}

async function compressed(compression) {
  const t = await create(compression, 2)
  const messages = Array.from({ length: 500 }, (_, i) => ({ topic: t, key: `${i}`, value: 'v'.repeat(i), headers: { h: '1' } }))
  await withProducer({ compression }, (producer) => producer.send({ messages }))
  const got = await read(t, 500)
  return `${got.length} ${got.reduce((sum, message) => sum + message.value.length, 0)} ${got[0].headers.get('h')}`
}

async function transactions() {
  const t = await create('transactions')
  await withProducer({ transactionalId: t, idempotent: true }, async (producer) => {
    for (let i = 0; i < 4; i++) {
      const transaction = await producer.beginTransaction()
      await transaction.send({ messages: [{ topic: t, value: `${i}` }, { topic: t, value: `${i}` }] })
      await (i % 2 ? transaction.abort() : transaction.commit())
    }
  })
  const [listed] = await admin.listOffsets({ topics: [{ name: t, partitions: [{ partitionIndex: 0, timestamp: -1n }] }] })
  return `${(await read(t, 4)).length >= 4} ${listed.partitions[0].offset}`
}

async function group(groupProtocol) {
  const t = await create(`group-${groupProtocol}`, 4)
  const settings = { groupProtocol, heartbeatInterval: 300 }
  const join = () => consume(t, t, () => {}, { autocommit: 100 }, settings)
  const has = ({ consumer }) => (consumer.assignments ?? []).reduce((sum, { partitions }) => sum + partitions.length, 0)
  await withProducer({}, (producer) => producer.send({ messages: Array.from({ length: 20 }, (_, i) => ({ topic: t, partition: i % 4, value: 'x' })) }))
  const a = await join()
  await until(() => has(a) === 4)
  const b = await join()
  await until(() => has(a) === 2 && has(b) === 2)
  await a.close()
  await until(() => has(b) === 4)
  await b.close()
  const type = (await admin.listGroups({ types: [groupProtocol] })).get(t)?.groupType
  await admin.alterConsumerGroupOffsets({ groupId: t, topics: [{ name: t, partitionOffsets: [{ partition: 0, offset: 2n }] }] })
  const [{ topics: [{ partitions }] }] = await admin.listConsumerGroupOffsets({ groups: [t] })
  return `${type} ${partitions.find(({ partitionIndex }) => partitionIndex === 0).committedOffset}`
}

async function administration() {
  const t = await create('admin', 1, [{ name: 'retention.ms', value: '1234567' }])
  const set = (value) => admin.incrementalAlterConfigs({
    resources: [{ resourceType: 2, resourceName: t, configs: [{ name: 'cleanup.policy', configOperation: 0, value }] }]
  })
  await set('compact,delete')
  const bad = await why(set('nonsense'))
  await admin.createPartitions({ topics: [{ name: t, count: 3, assignments: null }] })
  await sleep(300)
  const [described] = await admin.describeConfigs({ resources: [{ resourceType: 2, resourceName: t, configurationKeys: ['cleanup.policy'] }] })
  const metadata = await admin.metadata({ topics: [t] })
  await withProducer({}, (producer) => producer.send({ messages: Array.from({ length: 5 }, () => ({ topic: t, partition: 0, key: 'k', value: 'x' })) }))
  const [deleted] = await admin.deleteRecords({ topics: [{ name: t, partitions: [{ partition: 0, offset: 3n }] }] })
  const again = await why(admin.createTopics({ topics: [t], partitions: 1, replicas: 1 }))
  await admin.deleteTopics({ topics: [t] })
  const partitions = metadata.topics.get(t).partitionsCount
  return `${described.configs[0].value} ${bad} ${partitions} ${deleted.partitions[0].lowWatermark} ${again}`
}

async function refused() {
  const t = await create('small', 1, [{ name: 'max.message.bytes', value: '2000' }])
  return withProducer({ retries: 1 }, (producer) => why(producer.send({ messages: [{ topic: t, value: 'x'.repeat(5000) }] })))
}

async function restart() {
  const t = await create('restart')
  const patient = { retries: 600, retryDelay: 100 }
  const seen = new Set()
  const reading = await consume(t, t, ({ value }) => seen.add(value), {}, patient)
  await withProducer({ idempotent: true, ...patient }, async (producer) => {
    let over
    for (let i = 0; i < 200; i++) {
      if (i === 100) over = askForRestart()
      await producer.send({ messages: [{ topic: t, value: `${i}` }] })
    }
    await over
  })
  await until(() => seen.size === 200)
  await reading.close()
  return (await read(t, 200)).length
}

if (restarting) {
  await check('restart', restart)
} else {
  for (const codec of ['none', 'gzip', 'snappy', 'lz4']) await check(codec, () => compressed(codec))
  await check('transactions', transactions)
  for (const protocol of ['classic', 'consumer']) await check(protocol, () => group(protocol))
  await check('admin', administration)
  await check('refused', refused)
}
process.exit(0)
