// KafkaJS, an application from `orders` to `billed`: BOOTSTRAP NAME right|wrong ORDERS; interop/broken_programs.py says which.
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const [, , bootstrap, name, how, count] = process.argv
const right = how === 'right'
const orders = Number(count)
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const kafka = (clientId) => new Kafka({ brokers: [bootstrap], clientId, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } })

async function biller(idempotent) {
  const producer = kafka('biller').producer({ idempotent, createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  return (order) => producer.send({ topic: 'billed', messages: [{ key: order.key, value: 'paid', partition: 0 }] })
}

// Calls `work` with each order until it returns true.
async function work(clientId, each, readUncommitted = true) {
  const consumer = kafka(clientId).consumer({ groupId: 'billing', maxWaitTimeInMs: 100, readUncommitted, rebalanceTimeout: 5000 })
  const commit = ({ offset }) => consumer.commitOffsets([{ topic: 'orders', partition: 0, offset: `${Number(offset) + 1}` }])
  let ended = false
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => { if (!ended) ended = await each(message, () => commit(message)) }
  })
  while (!ended) await sleep(5)
  await consumer.disconnect()
}

async function commitsFirst() {
  const bill = await biller(true)
  const half = orders / 2
  let taken = 0
  await work('first', async (order, commit) => {
    taken += 1
    if (!right) await commit()
    if (taken === half) return true // the crash
    await bill(order)
    if (right) await commit()
    return false
  })
  let left = orders - (right ? half - 1 : half)
  await work('second', async (order, commit) => {
    await bill(order)
    await commit()
    left -= 1
    return left === 0
  })
}

async function billAll(bill, readUncommitted = true) {
  let left = orders
  await work('reader', async (order, commit) => {
    await bill(order)
    await commit()
    left -= 1
    return left === 0
  }, readUncommitted)
}

async function swallowsErrors() {
  const send = await biller(false)
  const until = async (order) => { while (!await send(order).then(() => true, () => false)); }
  await billAll(right ? until : (order) => send(order).catch(() => {}))
}

const applications = {
  commits_first: commitsFirst,
  retries_without_idempotence: async () => billAll(await biller(right)),
  swallows_errors: swallowsErrors,
  reads_uncommitted: async () => billAll(await biller(true), !right)
}
applications[name]().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
