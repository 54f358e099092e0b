// What both programs share: an operation is a line of JSON, see tests/clients/others/outcomes.py.

import { createInterface } from 'node:readline'

const LIMIT_MS = 120_000
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Until every broker has seen what was changed.
export const settle = () => wait(1000)

function print(fields) {
  process.stdout.write(JSON.stringify(fields) + '\n')
}

function words(value) {
  if (value === undefined || value === null || value === true) return ''
  if (typeof value === 'string') return value
  return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? Number(each) : each))
}

// The deepest error has the name that Kafka gives it.
function* chain(error) {
  yield error
  for (const each of error.errors ?? (error.cause ? [error.cause] : [])) yield* chain(each)
}

function describe(error) {
  const all = [...chain(error)]
  return all.map((each) => each.type ?? each.apiId ?? each.message).join(': ')
}

export class Program {
  constructor(client) {
    this.client = client
  }

  async operation(name, operation) {
    let timer
    const limit = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer in ${LIMIT_MS / 1000} s`)), LIMIT_MS)
    })
    let outcome = 'works'
    let seen
    try {
      seen = words(await Promise.race([operation(), limit]))
    } catch (error) {
      outcome = 'fails'
      seen = describe(error)
    } finally {
      clearTimeout(timer)
    }
    print({ client: this.client, operation: name, outcome, seen })
  }

  // An operation that must be refused: what works is the refusal.
  refused(name, expected, operation) {
    return this.operation(name, async () => {
      let seen
      try {
        seen = await operation()
      } catch (error) {
        if (describe(error).includes(expected)) return expected
        throw error
      }
      throw new Error(`not refused: ${words(seen)}`)
    })
  }

  // Has the harness restart active controllers; create is called meanwhile.
  async createWhileControllersRestart(create) {
    const failed = []
    let count = 0
    let done = false
    print({ client: this.client, ask: 'restart controllers' })
    const restarted = answers.next().then(() => (done = true))
    while (!done) {
      try {
        await create(count++)
      } catch (error) {
        failed.push(describe(error))
      }
      await wait(100)
    }
    await restarted
    if (failed.length) throw new Error(`${failed.length} of ${count}: ${failed.slice(0, 3)}`)
    return 'none fails'
  }
}
