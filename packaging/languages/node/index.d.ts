/// <reference types="node" />
import { CreateTopicOptions, Operations, RecordsPageOptions, ResetOptions } from './operations'
import { KafkaRecord } from './records'

export * from './operations'
export * from './records'

/** A refusal of the broker. `status` is HTTP's, `code` the name of Kafka's error where one is behind it. */
export class ControlError extends Error {
  status: number
  code?: string
  problem: { [name: string]: unknown }
}

/** A client of a broker's control API: `new ControlClient('http://127.0.0.1:9644')`. */
export class ControlClient extends Operations {
  constructor(url: string, options?: { token?: string })
  readonly controlUrl: string

  /** Return the records of a topic, of all pages unless there is a limit. */
  records(topic: string, options?: RecordsPageOptions): Promise<KafkaRecord[]>
}

export interface StartOptions {
  /** The program and its first arguments; by default PYKAFKA_BROKER_PROGRAM, or what is found on the PATH. */
  command?: string[]
  /** Kafka's broker configs: `{ 'log.retention.ms': 1000 }`; a warning of the process names an unknown one. */
  config?: { [name: string]: string | number | boolean }
  /** The release of Kafka that clients see, "2.8"; by default the newest. */
  emulate?: string
  /** The file to write down in what clients produce, fetch and commit, for `check`. */
  history?: string
  /** "debug", "info" (the default), "warning" or "error". */
  logLevel?: string
  /** The port to listen on; by default a free one. */
  port?: number
  /** False for Kafka's heartbeat intervals. */
  quickGroups?: boolean
  /** Start a schema registry, at `schemaRegistryUrl`. */
  schemaRegistry?: boolean
  /** By default 30,000. */
  startTimeoutMs?: number
  /** False to do some things sooner than Kafka does. */
  strict?: boolean
  /** Topics that are there after the start and after each reset: names, or partitions or options by name. */
  topics?: string[] | { [name: string]: number | CreateTopicOptions }
}

/** A broker on a free port of the loopback interface: `await KafkaBroker.start()`, and `await broker.stop()`. */
export class KafkaBroker extends ControlClient {
  private constructor()
  static start(options?: StartOptions): Promise<KafkaBroker>

  /** The addresses for a client's brokers. */
  readonly bootstrapServers: string
  readonly schemaRegistryUrl?: string
  /** The end of the broker's log. */
  readonly log: string

  /** Go back to the state before the first client, with the topics that `start` was given. */
  reset(options?: ResetOptions): Promise<void>
  /** Stop the broker. Its data goes with it. */
  stop(): Promise<void>
}
