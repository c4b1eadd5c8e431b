// KafkaJS, one step at a time: `BOOTSTRAP send TOPIC VALUE`, or `BOOTSTRAP read TOPIC GROUP`, which does what the lines
// of its input say (`read MILLISECONDS`, `commit`) and answers each with one line.
const readline = require('node:readline')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const [, , bootstrap, mode, topic, last] = process.argv
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100 } })
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

// The client's name of an error: that of the one behind it, where it has only given up trying.
const nameOf = (error) => error.cause?.type ?? error.type ?? error.cause?.name ?? error.name

async function answer(step) {
  console.log(await step.catch((error) => `failed ${nameOf(error)}`))
}

async function send() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  await answer(producer.send({ topic, messages: [{ value: last, partition: 0 }] }).then(() => 'done'))
  await producer.disconnect()
}

async function read() {
  const consumer = kafka.consumer({ groupId: last, heartbeatInterval: 500, sessionTimeout: 6000, maxWaitTimeInMs: 200 })
  const got = []
  let crash, taken
  consumer.on(consumer.events.CRASH, ({ payload }) => { if (!payload.restart) crash = payload.error })
  consumer.on(consumer.events.GROUP_JOIN, () => { got.length = 0 }) // it reads on from what is committed
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => { got.push(message) } })

  async function next(within) {
    for (const end = Date.now() + within; !got.length && !crash && Date.now() < end;) await sleep(5)
    if (crash) throw crash
    if (!got.length) return 'none'
    taken = got.shift()
    return `value ${taken.value}`
  }

  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [step, within] = line.split(' ')
    if (step === 'commit') {
      const offsets = [{ topic, partition: 0, offset: `${Number(taken.offset) + 1}` }]
      await answer(consumer.commitOffsets(offsets).then(() => 'done'))
    } else {
      await answer(next(Number(within)))
    }
  }
  await consumer.disconnect()
}

(mode === 'send' ? send() : read()).then(() => process.exit(0))
