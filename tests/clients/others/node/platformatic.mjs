// The operations of @platformatic/kafka. Records are read by its Fetch, without a group.

import { Admin, Consumer, Producer } from '@platformatic/kafka'
import { readFileSync } from 'node:fs'
import { settle } from './program.mjs'

const manifest = new URL('./node_modules/@platformatic/kafka/package.json', import.meta.url)
export const name = `@platformatic/kafka ${JSON.parse(readFileSync(manifest)).version}`

const TOPIC = 2
const BROKER = 4
const LOGGERS = 8
const SET = 0
const DELETE = 1
const APPEND = 2
const SUBTRACT = 3
const ANY = 1
const ALLOW = 3
const LITERAL = 3
const READ = 3

export async function run(program, brokers) {
  const options = { clientId: 'platformatic', bootstrapBrokers: brokers, retries: 2, timeout: 10_000 }
  const admin = new Admin(options)
  await topics(program, admin)
  await configs(program, admin)
  await cluster(program, admin)
  await records(program, options, admin)
  await groups(program, options, admin)
  await program.operation('create topics while controllers restart', () =>
    program.createWhileControllersRestart((number) =>
      admin.createTopics({ topics: [`platformatic-rolling-${number}`], partitions: 1, replicas: 1 })
    )
  )
  await program.operation('delete topics', async () => {
    const names = async () =>
      (await admin.listTopics()).filter((each) => each.startsWith('platformatic'))
    await admin.deleteTopics({ topics: await names() })
    await settle()
    return names()
  })
  await program.refused('delete an unknown topic', 'UNKNOWN_TOPIC_OR_PARTITION', () =>
    admin.deleteTopics({ topics: ['platformatic-unknown'] })
  )
  await admin.close()
}

async function topics(program, admin) {
  const created = async (options) => {
    const found = (await admin.createTopics(options))[0]
    const entries = Object.keys(found.configuration).length
    return `${found.partitions} partitions, ${found.replicas} replicas, ${entries} entries`
  }
  const three = { topics: ['platformatic'], partitions: 3, replicas: 3 }
  await program.operation('create a topic', () => created(three))
  await program.refused('create a topic that exists', 'TOPIC_ALREADY_EXISTS', () => created(three))
  await program.operation('create a topic with configurations', () =>
    created({
      topics: ['platformatic-configured'],
      partitions: 1,
      replicas: 1,
      configs: [
        { name: 'retention.ms', value: '1000' },
        { name: 'cleanup.policy', value: 'compact' }
      ]
    })
  )
  await program.refused('create a topic with an invalid value', 'INVALID_CONFIG', () =>
    created({
      topics: ['platformatic-invalid'],
      partitions: 1,
      replicas: 1,
      configs: [{ name: 'retention.ms', value: 'abc' }]
    })
  )
  await program.operation('create a topic with an assignment', () =>
    created({
      topics: ['platformatic-placed'],
      partitions: -1,
      replicas: -1,
      assignments: [
        { partition: 0, brokers: [2, 1] },
        { partition: 1, brokers: [3, 2] }
      ]
    })
  )
  await program.operation("create a topic with the brokers' defaults", () =>
    created({ topics: ['platformatic-defaults'], partitions: -1, replicas: -1 })
  )
  await settle()
  await program.operation('list topics', async () =>
    (await admin.listTopics()).filter((each) => each.startsWith('platformatic')).sort()
  )
  await program.operation('describe a topic', () => described(admin, 'platformatic'))
  await program.refused('describe an unknown topic', 'Unknown topic', () =>
    described(admin, 'platformatic-unknown')
  )
  const grown = (count, validateOnly = false) =>
    admin.createPartitions({ topics: [{ name: 'platformatic', count }], validateOnly })
  await program.operation('create partitions, validate only', () => grown(5, true))
  await program.operation('create partitions', async () => {
    await grown(4)
    await settle()
    return described(admin, 'platformatic')
  })
  await program.refused('create fewer partitions', 'INVALID_PARTITIONS', () => grown(2))
}

async function described(admin, topic) {
  const found = (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)
  return `${found.partitions.length} partitions, ${found.partitions[0].replicas.length} replicas`
}

async function configs(program, admin) {
  const entries = async (resourceType, resourceName, options = {}) => {
    const resources = [{ resourceType, resourceName }]
    return (await admin.describeConfigs({ resources, ...options }))[0].configs
  }
  const value = async (key) => {
    await settle()
    return (await entries(TOPIC, 'platformatic')).find((each) => each.name === key).value
  }
  const alter = (configOperation, name, to, validateOnly = false) =>
    admin.incrementalAlterConfigs({
      validateOnly,
      resources: [
        {
          resourceType: TOPIC,
          resourceName: 'platformatic',
          configs: [{ name, configOperation, ...(to === undefined ? {} : { value: to }) }]
        }
      ]
    })
  await program.operation("describe a topic's configuration", async () => {
    return `${(await entries(TOPIC, 'platformatic')).length} entries`
  })
  await program.operation("describe a broker's configuration", async () => {
    return `${(await entries(BROKER, '1')).length} entries`
  })
  await program.operation("describe a broker's loggers", async () => {
    await entries(LOGGERS, '1')
  })
  await program.operation('describe synonyms and documentation', async () => {
    const options = { includeSynonyms: true, includeDocumentation: true }
    const found = await entries(TOPIC, 'platformatic', options)
    const { configType, synonyms, documentation } = found.find(
      (each) => each.name === 'segment.bytes'
    )
    return { configType, synonyms, documentation }
  })
  await program.operation('alter configurations incrementally', async () => {
    await alter(SET, 'retention.ms', '60000')
    await alter(APPEND, 'cleanup.policy', 'compact')
    const both = await value('cleanup.policy')
    await alter(SUBTRACT, 'cleanup.policy', 'delete')
    const left = await value('cleanup.policy')
    await alter(DELETE, 'cleanup.policy')
    return [await value('retention.ms'), both, left]
  })
  await program.operation('alter configurations incrementally, validate only', async () => {
    await alter(SET, 'retention.ms', '5', true)
    return value('retention.ms')
  })
  await program.refused('set an invalid value', 'INVALID_CONFIG', () =>
    alter(SET, 'cleanup.policy', 'foo')
  )
  await program.refused('set an unknown name', 'INVALID_CONFIG', () => alter(SET, 'nonsense', '1'))
  await program.operation('alter configurations', async () => {
    const resource = { resourceType: TOPIC, resourceName: 'platformatic' }
    const change = [{ name: 'max.message.bytes', value: '2000000' }]
    await admin.alterConfigs({ resources: [{ ...resource, configs: change }] })
    return [await value('max.message.bytes'), await value('retention.ms')]
  })
}

async function cluster(program, admin) {
  await program.operation('describe the cluster', async () => {
    const found = await admin.metadata({ topics: [], forceUpdate: true })
    return [found.id, [...found.brokers.keys()].sort()]
  })
  await program.operation('describe log directories', async () => {
    const partitions = [0, 1, 2, 3]
    const found = await admin.describeLogDirs({ topics: [{ name: 'platformatic', partitions }] })
    return found.map((each) => [each.broker, each.results[0].topics[0].partitions.length]).sort()
  })
  const entities = [{ entityType: 'user', entityName: 'platformatic' }]
  const quota = (op) =>
    admin.alterClientQuotas({ entries: [{ entities, ops: [{ key: 'producer_byte_rate', ...op }] }] })
  await program.operation('alter client quotas', () => quota({ value: 1e6, remove: false }))
  await program.operation('describe client quotas', async () => {
    await settle()
    const match = { entityType: 'user', matchType: 0, match: 'platformatic' }
    return admin.describeClientQuotas({ components: [match] })
  })
  await program.operation('delete client quotas', () => quota({ remove: true }))
  const acl = {
    resourceType: TOPIC,
    resourceName: 'platformatic',
    resourcePatternType: LITERAL,
    principal: 'User:a',
    host: '*',
    operation: READ,
    permissionType: ALLOW
  }
  await program.operation('list ACLs', () =>
    admin.describeAcls({
      filter: {
        resourceType: ANY,
        resourcePatternType: ANY,
        operation: ANY,
        permissionType: ANY,
        resourceName: null,
        principal: null,
        host: null
      }
    })
  )
  await program.operation('create an ACL', () => admin.createAcls({ creations: [acl] }))
  await program.operation('delete ACLs', () => admin.deleteAcls({ filters: [acl] }))
}

const text = (value) => (value === null || value === undefined ? null : String(value))

async function records(program, options, admin) {
  const topic = 'platformatic-data'
  await admin.createTopics({ topics: [topic], partitions: 9, replicas: 3 })
  await settle()
  const consumer = new Consumer({ ...options, groupId: 'platformatic-reader' })
  const sent = async (message, producing = {}) => {
    const producer = new Producer(options)
    try {
      const result = await producer.send({ messages: [{ topic, ...message }], ...producing })
      return result.offsets?.map((each) => `${each.partition} ${each.offset}`)
    } finally {
      await producer.close()
    }
  }
  const read = async (partition, fetchOffset = 0n) => {
    const found = (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)
    const { leader, leaderEpoch } = found.partitions[partition]
    const wanted = {
      partition,
      fetchOffset,
      currentLeaderEpoch: leaderEpoch,
      lastFetchedEpoch: -1,
      partitionMaxBytes: 2_000_000
    }
    const answer = await consumer.fetch({
      node: leader,
      topics: [{ topicId: found.id, partitions: [wanted] }]
    })
    return answer.responses[0].partitions[0].records.flatMap((batch) => batch.records)
  }
  const roundTrip = async (message, producing = {}) => {
    await sent(message, producing)
    return (await read(message.partition)).at(-1)
  }
  const pair = { key: Buffer.from('k'), value: Buffer.from('v'.repeat(1000)) }
  for (const acks of [0, 1, -1]) {
    await program.operation(`produce with acks=${acks === -1 ? 'all' : acks}`, () =>
      sent({ ...pair, partition: acks + 1 }, { acks })
    )
  }
  await program.operation('produce idempotently', () =>
    sent({ ...pair, partition: 3 }, { idempotent: true, acks: -1 })
  )
  for (const compression of ['gzip', 'snappy', 'lz4', 'zstd']) {
    await program.operation(`produce and consume, ${compression}`, async () => {
      const found = await roundTrip({ ...pair, partition: 4 }, { compression })
      return `${found.value.length} bytes`
    })
  }
  await program.operation('headers', async () => {
    const headers = new Map([[Buffer.from('name'), Buffer.from('value')]])
    const found = await roundTrip({ ...pair, headers, partition: 5 })
    return found.headers.map((each) => each.map(text))
  })
  await program.operation('null key and value', async () => {
    const found = await roundTrip({ partition: 6 })
    return [text(found.key), text(found.value)]
  })
  await program.operation('a large record', async () => {
    const found = await roundTrip({ value: Buffer.alloc(900_000), partition: 7 })
    return `${found.value.length} bytes`
  })
  await program.refused('a record that is too large', 'MESSAGE_TOO_LARGE', () =>
    sent({ value: Buffer.alloc(5_000_000), partition: 7 })
  )
  await program.operation('consume from the beginning', async () => {
    return `${(await read(2)).length} records`
  })
  await program.refused('consume from where there is nothing', 'OFFSET_OUT_OF_RANGE', () =>
    read(2, 1_000_000n)
  )
  const offsets = async (timestamp, partition) => {
    const partitions = [{ partitionIndex: partition, timestamp }]
    const found = await admin.listOffsets({ topics: [{ name: topic, partitions }] })
    return found[0].partitions[0].offset
  }
  await program.operation('earliest offset', () => offsets(-2n, 2))
  await program.operation('latest offset', () => offsets(-1n, 2))
  await program.operation('offset of a time', () => offsets(1n, 2))
  await program.operation('offset of the highest time', () => offsets(-3n, 2))
  await program.operation('delete records', async () => {
    const partitions = [{ partition: 4, offset: 1n }]
    return admin.deleteRecords({ topics: [{ name: topic, partitions }] })
  })
  await consumer.close()
}

async function groups(program, options, admin) {
  await program.operation('list groups', async () => {
    await admin.listGroups()
  })
  await program.operation('consume in a group', async () => {
    const consumer = new Consumer({ ...options, groupId: 'platformatic' })
    const stream = await consumer.consume({ topics: ['platformatic-data'], mode: 'earliest' })
    for await (const message of stream) {
      if (message) break
    }
    await consumer.close(true)
  })
  await program.operation('produce in a transaction', async () => {
    const producer = new Producer({ ...options, transactionalId: 'platformatic', idempotent: true })
    const transaction = await producer.beginTransaction()
    const messages = [{ topic: 'platformatic-data', partition: 8, value: Buffer.from('v') }]
    await transaction.send({ messages })
    await transaction.commit()
    await producer.close()
  })
}
