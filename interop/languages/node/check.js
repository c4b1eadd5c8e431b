// One line for each named check; the test that runs the program knows what the lines should say.
const readline = require('node:readline')

const [, , bootstrap, mode] = process.argv
const topic = (name) => `${name}-${process.pid}`
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

async function check(name, found) {
  let said
  try {
    said = await found()
  } catch (error) {
    said = `failed: ${error.stack}`
  }
  console.log(`${name}: ${String(said).replaceAll(`-${process.pid}`, '')}`)
}

async function until(condition) {
  for (const end = Date.now() + 60000; !condition(); await sleep(20)) {
    if (Date.now() > end) throw new Error(`not within a minute: ${condition}`)
  }
}

// The test restarts the broker while the program goes on.
function askForRestart() {
  console.log('restart')
  const lines = readline.createInterface({ input: process.stdin })
  return new Promise((done) => lines.once('line', () => { lines.close(); done() }))
}

module.exports = { bootstrap, restarting: mode === 'restart', topic, sleep, check, until, askForRestart }
