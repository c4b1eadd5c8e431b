// What the programs for clients of Node.js have in common.
const readline = require('node:readline')

const COUNT = 100
const FIRST_MS = 1600000000000
const values = Array.from({ length: COUNT }, (_, number) => `value ${number}`)
const largeOnes = ['A', 'B', 'C', 'D', 'E'].map((letter) => letter.repeat(900000))
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

// What the client can't do, as the cell will say it.
class NotSupported extends Error {}

function same(found, wanted) {
  const [one, other] = [found, wanted].map((value) => JSON.stringify(value))
  if (one !== other) throw new Error(`found ${one.slice(0, 300)}, not ${other.slice(0, 300)}`)
}

async function until(condition, what, withinMs = 40000) {
  for (const end = Date.now() + withinMs; !(await condition()); await sleep(20)) {
    if (Date.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`)
  }
}

// Returns when the broker is back.
async function awaitRestart() {
  console.log('restart')
  await new Promise((done) => readline.createInterface({ input: process.stdin }).once('line', done))
}

async function run(scenarios, name) {
  if (!scenarios[name]) throw new NotSupported('the client has nothing of the kind')
  return scenarios[name]()
}

// Ends the process, whatever the client has left.
function main(scenarios, name) {
  run(scenarios, name).then(
    (said) => { if (said) console.log(said); process.exit(0) },
    (error) => {
      if (error instanceof NotSupported) console.log(error.message)
      else console.error(error)
      process.exit(error instanceof NotSupported ? 77 : 1)
    },
  )
}

module.exports = { COUNT, FIRST_MS, NotSupported, awaitRestart, largeOnes, main, same, sleep, until, values }
