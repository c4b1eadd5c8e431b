// KafkaJS, applications from `orders` to `billed`, one for each line BOOTSTRAP NAME right|wrong; interop/broken_programs.py
// says which.
const { Kafka, Partitioners, logLevel } = require('kafkajs')
const readline = require('node:readline')

async function work(bootstrap, name, right) {
  const wrong = (mistake) => !right && name === mistake
  const kafka = (clientId) => new Kafka({ brokers: [bootstrap], clientId, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 10 } })
  const once = ['commits_first', 'swallows_errors'].includes(name)
  const production = { createPartitioner: Partitioners.DefaultPartitioner, idempotent: !once && !wrong('retries_without_idempotence') }
  const biller = kafka('biller').producer(once ? { ...production, retry: { retries: 0 } } : production)
  const readUncommitted = wrong('reads_uncommitted')
  const reader = kafka('reader').consumer({ groupId: 'billing', maxWaitTimeInMs: 100, readUncommitted, rebalanceTimeout: 5000 })
  const commit = ({ offset }) => reader.commitOffsets([{ topic: 'orders', partition: 0, offset: `${Number(offset) + 1}` }])

  async function bill(order) {
    if (wrong('commits_first')) await commit(order)
    const sent = biller.send({ topic: 'billed', messages: [{ key: order.key, value: 'paid', partition: 0 }] })
    await (wrong('swallows_errors') ? sent.catch(() => {}) : sent)
    if (!wrong('commits_first')) await commit(order)
    return order.key.toString() === 'last'
  }

  try {
    await biller.connect()
    await reader.connect()
    await reader.subscribe({ topic: 'orders', fromBeginning: true })
    await new Promise((resolve, reject) => {
      let ended = false
      const end = (how, why) => { ended = true; how(why) }
      reader.on(reader.events.CRASH, ({ payload }) => end(reject, payload.error))
      const eachMessage = async ({ message }) => {
        if (!ended) await bill(message).then((isLast) => isLast && end(resolve), (error) => end(reject, error))
      }
      reader.run({ autoCommit: false, eachMessage }).catch(reject)
    })
  } finally {
    await reader.disconnect()
    await biller.disconnect()
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [bootstrap, name, how] = line.split(' ')
    await work(bootstrap, name, how === 'right').then(
      () => console.log('done'), (error) => console.log(`failed ${error}`.replaceAll('\n', ' ')))
  }
  process.exit(0)
}
main()
