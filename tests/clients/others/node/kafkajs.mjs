// The operations of kafkajs. It consumes in groups only.

import kafkajs from 'kafkajs'
import { readFileSync } from 'node:fs'
import { settle, wait } from './program.mjs'

const { Kafka, CompressionTypes, ConfigResourceTypes, AclResourceTypes, AclOperationTypes } = kafkajs
const { AclPermissionTypes, ResourcePatternTypes, logLevel } = kafkajs
const manifest = new URL('./node_modules/kafkajs/package.json', import.meta.url)
export const name = `kafkajs ${JSON.parse(readFileSync(manifest)).version}`

export async function run(program, brokers) {
  const kafka = new Kafka({
    clientId: 'kafkajs',
    brokers,
    logLevel: logLevel.NOTHING,
    requestTimeout: 10_000,
    retry: { retries: 3 }
  })
  const admin = kafka.admin()
  await admin.connect()
  await topics(program, admin)
  await configs(program, admin)
  await replicas(program, admin)
  await cluster(program, admin)
  await records(program, kafka, admin)
  await groups(program, kafka, admin)
  await program.operation('create topics while controllers restart', () =>
    program.createWhileControllersRestart((number) =>
      admin.createTopics({
        topics: [{ topic: `kafkajs-rolling-${number}`, numPartitions: 1, replicationFactor: 1 }],
        waitForLeaders: false
      })
    )
  )
  await program.operation('delete topics', async () => {
    const names = async () =>
      (await admin.listTopics()).filter((each) => each.startsWith('kafkajs'))
    await admin.deleteTopics({ topics: await names() })
    await settle()
    return await names()
  })
  await admin.disconnect()
}

async function topics(program, admin) {
  const three = { topic: 'kafkajs', numPartitions: 3, replicationFactor: 3 }
  await program.operation('create a topic, validate only', () =>
    admin.createTopics({ topics: [three], validateOnly: true, waitForLeaders: false })
  )
  await program.operation('create a topic', () => admin.createTopics({ topics: [three] }))
  await program.operation('create a topic that exists', async () => {
    return String(await admin.createTopics({ topics: [three] }))
  })
  await program.operation('create a topic with configurations', () =>
    admin.createTopics({
      topics: [
        {
          topic: 'kafkajs-configured',
          configEntries: [
            { name: 'retention.ms', value: '1000' },
            { name: 'cleanup.policy', value: 'compact' }
          ]
        }
      ]
    })
  )
  await program.refused('create a topic with an invalid value', 'INVALID_CONFIG', () =>
    admin.createTopics({
      topics: [
        { topic: 'kafkajs-invalid', configEntries: [{ name: 'retention.ms', value: 'abc' }] }
      ]
    })
  )
  await program.operation('create a topic with an assignment', () =>
    admin.createTopics({
      topics: [
        {
          topic: 'kafkajs-placed',
          replicaAssignment: [
            { partition: 0, replicas: [2, 1] },
            { partition: 1, replicas: [3, 2] }
          ]
        }
      ]
    })
  )
  await program.operation("create a topic with the brokers' defaults", async () => {
    await admin.createTopics({ topics: [{ topic: 'kafkajs-defaults' }] })
    return described(admin, 'kafkajs-defaults')
  })
  await settle()
  await program.operation('list topics', async () =>
    (await admin.listTopics()).filter((each) => each.startsWith('kafkajs')).sort()
  )
  await program.operation('describe a topic', () => described(admin, 'kafkajs'))
  await program.refused('describe an unknown topic', 'UNKNOWN_TOPIC_OR_PARTITION', () =>
    described(admin, 'kafkajs-unknown')
  )
  await program.operation('create partitions, validate only', () =>
    admin.createPartitions({
      validateOnly: true,
      topicPartitions: [{ topic: 'kafkajs', count: 5 }]
    })
  )
  await program.operation('create partitions', async () => {
    await admin.createPartitions({ topicPartitions: [{ topic: 'kafkajs', count: 4 }] })
    await settle()
    return described(admin, 'kafkajs')
  })
  await program.refused('create fewer partitions', 'INVALID_PARTITIONS', () =>
    admin.createPartitions({ topicPartitions: [{ topic: 'kafkajs', count: 2 }] })
  )
}

async function described(admin, topic) {
  const found = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0]
  return `${found.partitions.length} partitions, ${found.partitions[0].replicas.length} replicas`
}

async function configs(program, admin) {
  const topic = { type: ConfigResourceTypes.TOPIC, name: 'kafkajs' }
  const entries = async (resource, includeSynonyms = false) => {
    const found = await admin.describeConfigs({ resources: [resource], includeSynonyms })
    return found.resources[0].configEntries
  }
  const value = async (key) => {
    await settle()
    return (await entries(topic)).find((each) => each.configName === key)?.configValue
  }
  const alter = (key, to, validateOnly = false) =>
    admin.alterConfigs({
      validateOnly,
      resources: [{ ...topic, configEntries: [{ name: key, value: to }] }]
    })
  await program.operation("describe a topic's configuration", async () => {
    return `${(await entries(topic)).length} entries`
  })
  await program.operation("describe a broker's configuration", async () => {
    const broker = { type: ConfigResourceTypes.BROKER, name: '1' }
    return `${(await entries(broker)).length} entries`
  })
  await program.operation('describe synonyms', async () => {
    const found = await entries(topic, true)
    return found.find((each) => each.configName === 'segment.bytes').configSynonyms
  })
  await program.operation('alter configurations', async () => {
    await alter('retention.ms', '60000')
    return value('retention.ms')
  })
  await program.operation('alter configurations, validate only', async () => {
    await alter('retention.ms', '5', true)
    return value('retention.ms')
  })
  await program.refused('set an invalid value', 'INVALID_CONFIG', () =>
    alter('cleanup.policy', 'foo')
  )
  await program.refused('set an unknown name', 'INVALID_CONFIG', () => alter('nonsense', '1'))
}

async function replicas(program, admin) {
  const reassign = (to) =>
    admin.alterPartitionReassignments({
      topics: [
        { topic: 'kafkajs-placed', partitionAssignment: [{ partition: 0, replicas: to }] }
      ]
    })
  await program.operation('reassign a partition', async () => {
    await reassign([3, 1])
    for (let tries = 0; tries < 100; tries++) {
      const found = await admin.fetchTopicMetadata({ topics: ['kafkajs-placed'] })
      const first = found.topics[0].partitions.find((each) => each.partitionId === 0)
      if (String(first.replicas) === '3,1' && first.isr.length === 2) return first.replicas
      await wait(200)
    }
    throw new Error('the reassignment does not end')
  })
  await program.operation('list reassignments', () => admin.listPartitionReassignments({}))
  await program.refused('reassign to an unknown broker', 'INVALID_REPLICA_ASSIGNMENT', () =>
    reassign([1, 99])
  )
}

async function cluster(program, admin) {
  await program.operation('describe the cluster', async () => {
    const found = await admin.describeCluster()
    return [found.clusterId, found.brokers.map((each) => each.nodeId).sort()]
  })
  const acl = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: 'kafkajs',
    resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: 'User:a',
    host: '*',
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.ALLOW
  }
  await program.operation('list ACLs', () => admin.describeAcls(acl))
  await program.operation('create an ACL', () => admin.createAcls({ acl: [acl] }))
  await program.operation('delete ACLs', () => admin.deleteAcls({ filters: [acl] }))
}

async function records(program, kafka, admin) {
  const topic = 'kafkajs-data'
  await admin.createTopics({ topics: [{ topic, numPartitions: 8, replicationFactor: 3 }] })
  await settle()
  const sent = async (message, options = {}, producing = {}) => {
    const producer = kafka.producer(producing)
    await producer.connect()
    try {
      const result = await producer.send({ topic, messages: [message], ...options })
      return result.map((each) => `${each.partition} ${each.baseOffset}`)
    } finally {
      await producer.disconnect()
    }
  }
  for (const acks of [0, 1, -1]) {
    await program.operation(`produce with acks=${acks === -1 ? 'all' : acks}`, () =>
      sent({ key: 'k', value: 'v', partition: acks + 1 }, { acks })
    )
  }
  await program.operation('produce idempotently', () =>
    sent({ value: 'once', partition: 3 }, {}, { idempotent: true })
  )
  await program.operation('produce, gzip', () =>
    sent({ value: 'v'.repeat(1000), partition: 4 }, { compression: CompressionTypes.GZIP })
  )
  await program.operation('headers', () =>
    sent({ value: 'v', partition: 5, headers: { name: 'value' } })
  )
  await program.operation('null key and value', () =>
    sent({ key: null, value: null, partition: 6 })
  )
  await program.operation('a large record', () =>
    sent({ value: 'x'.repeat(900_000), partition: 7 })
  )
  await program.refused('a record that is too large', 'MESSAGE_TOO_LARGE', () =>
    sent({ value: 'x'.repeat(5_000_000), partition: 7 })
  )
  await program.operation('earliest and latest offsets', async () => {
    const found = await admin.fetchTopicOffsets(topic)
    return found.sort((a, b) => a.partition - b.partition)
  })
  await program.operation('offsets of a time', async () => {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, 1)
    return found.sort((a, b) => a.partition - b.partition)
  })
  await program.operation('delete records', async () => {
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 4, offset: '1' }] })
    return (await admin.fetchTopicOffsets(topic)).find((each) => each.partition === 4)
  })
}

async function groups(program, kafka, admin) {
  await program.operation('list groups', async () => {
    await admin.listGroups()
  })
  await program.operation('consume in a group', async () => {
    const consumer = kafka.consumer({ groupId: 'kafkajs', retry: { retries: 1 } })
    await consumer.connect()
    try {
      await consumer.subscribe({ topic: 'kafkajs-data', fromBeginning: true })
      await new Promise((resolve, reject) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
        consumer.run({ eachMessage: async () => resolve() }).catch(reject)
      })
    } finally {
      await consumer.disconnect()
    }
  })
  await program.operation('produce in a transaction', async () => {
    const producer = kafka.producer({ transactionalId: 'kafkajs', retry: { retries: 1 } })
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic: 'kafkajs-data', messages: [{ value: 'v' }] })
    await transaction.commit()
    await producer.disconnect()
  })
}
