// node main.mjs BROKERS CONTROLLERS CLIENT

import { Program } from './program.mjs'

const [brokers, , client] = process.argv.slice(2)
const { name, run } = await import(`./${client}.mjs`)
await run(new Program(name), brokers.split(','))
process.exit(0)
