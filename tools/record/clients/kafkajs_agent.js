// The agent of KafkaJS: the command loop of clients/agent.py in JavaScript.
"use strict";

const crypto = require("crypto");
const readline = require("readline");
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");

CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");

const CODECS = { none: 0, gzip: 1, snappy: 2 };
const bootstrap = process.argv[2];
const producers = {};
const consumers = {};
let events = [];

const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000) * 1000;
const sha256 = (data) =>
  data === null ? null : crypto.createHash("sha256").update(data).digest("hex");
const size = (data) => (data === null ? -1 : data.length);
const toBytes = (text) => (text === null || text === undefined ? null : Buffer.from(text));
const emit = (kind, session, columns) => events.push({ kind, session, ...columns });
const describe = (key, value, headers) => ({
  key_size: size(key),
  value_size: size(value),
  key_sha256: sha256(key),
  value_sha256: sha256(value),
  header_count: Object.keys(headers || {}).length,
});

function kafka({ client, settings = {} }) {
  const sasl = settings.mechanism && {
    mechanism: settings.mechanism.toLowerCase(),
    username: settings.user,
    password: settings.password,
  };
  return new Kafka({
    clientId: client,
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    ...(sasl ? { sasl } : {}),
    ...(settings.tls_ca ? { ssl: tls(settings) } : {}),
  });
}

function tls(settings) {
  const version = settings.tls_version && `TLSv${settings.tls_version}`;
  const versions = version ? { minVersion: version, maxVersion: version } : {};
  const ciphers = settings.tls_ciphers ? { ciphers: settings.tls_ciphers } : {};
  return { ca: [settings.tls_ca], ...versions, ...ciphers };
}

function failed(session, operation, error, topic) {
  const code = typeof error.code === "number" ? error.code : null;
  const name = error.type || error.name;
  emit("errors", session, { operation, code, name, topic, partition: null, time_ns: now() });
}

const operations = {
  async versions() {
    return { kafkajs: require("kafkajs/package.json").version, node: process.version };
  },

  async open_producer(command) {
    const { client, codec = "none", acks = "all", idempotent = false } = command;
    const producer = kafka(command).producer({
      idempotent,
      transactionalId: command.transactional_id,
      maxInFlightRequests: idempotent ? 1 : undefined,
    });
    await producer.connect();
    producers[client] = { producer, codec, acks };
  },

  async produce({ client, records }) {
    const { producer, codec, acks } = producers[client];
    const groups = {};
    for (const record of records) {
      const headers = Object.fromEntries(record.headers || []);
      const message = { ...record, headers, key: toBytes(record.key), value: toBytes(record.value) };
      (groups[record.topic] ||= []).push(message);
    }
    const sent_ns = now();
    for (const [topic, messages] of Object.entries(groups)) {
      const request = { topic, messages, acks: acks === "all" ? -1 : Number(acks) };
      try {
        const answers = await producer.send({ ...request, compression: CODECS[codec] });
        produced(client, messages, answers || [], sent_ns);
      } catch (error) {
        failed(client, "produce", error, topic);
      }
    }
    return { records: records.length };
  },

  async open_consumer({ client, group, topics, settings = {} }) {
    const consumer = kafka({ client, settings }).consumer({ groupId: group });
    const known = { consumer, group, waiting: [], next: {} };
    consumers[client] = known;
    await consumer.connect();
    await consumer.subscribe({ topics, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) =>
        known.waiting.push({ topic, partition, message }),
    });
  },

  async poll({ client, seconds, records = Infinity }) {
    const known = consumers[client];
    const deadline = Date.now() + seconds * 1000;
    let count = 0;
    while (Date.now() < deadline && count < records) {
      const found = known.waiting.shift();
      if (found === undefined) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        continue;
      }
      count += 1;
      consumed(client, known, found);
    }
    return { records: count };
  },

  async commit({ client }) {
    const { consumer, group, next } = consumers[client];
    const offsets = Object.values(next);
    await consumer.commitOffsets(offsets.map((one) => ({ ...one, offset: String(one.offset) })));
    for (const { topic, partition, offset } of offsets) {
      emit("commits", client, { group, topic, partition, offset });
    }
  },

  async close({ client }) {
    await producers[client]?.producer.disconnect();
    await consumers[client]?.consumer.disconnect();
    delete producers[client];
    delete consumers[client];
  },
};

// KafkaJS tells the base offset of a partition's batch; its records follow in order.
function produced(client, messages, answers, sent_ns) {
  const { codec, acks } = producers[client];
  const next = Object.fromEntries(answers.map((one) => [one.partition, Number(one.baseOffset)]));
  for (const { topic, partition, key, value, headers } of messages) {
    emit("produced", client, {
      topic,
      partition,
      offset: acks === "0" ? null : next[partition]++,
      timestamp_ms: null,
      ...describe(key, value, headers),
      codec,
      acks,
      transaction: null,
      sent_ns,
      acknowledged_ns: now(),
    });
  }
}

function consumed(client, known, { topic, partition, message }) {
  const offset = Number(message.offset);
  known.next[`${topic} ${partition}`] = { topic, partition, offset: offset + 1 };
  emit("consumed", client, {
    group: known.group,
    topic,
    partition,
    offset,
    timestamp_ms: Number(message.timestamp),
    ...describe(message.key, message.value, message.headers),
  });
}

async function obey(command) {
  events = [];
  const start_ns = now();
  let result = null;
  let error = null;
  try {
    result = (await operations[command.op](command)) ?? null;
  } catch (failure) {
    error = String(failure);
  }
  return { start_ns, end_ns: now(), result, error, events };
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await obey(JSON.parse(line))) + "\n");
  }
  process.exit(0);
}

main();
