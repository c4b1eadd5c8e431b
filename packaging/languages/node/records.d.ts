/** Text, or bytes that are no UTF-8. */
export type Content = string | Buffer | null

/** A header of a record; a name may occur several times. */
export interface RecordHeader {
  name: string
  value: Content
}

/** A record of a topic. `timestamp` is in epoch milliseconds; `transaction` is null outside of one. */
export interface KafkaRecord {
  topic: string
  partition: number
  offset: number
  timestamp: number
  timestamp_type: string
  key: Content
  value: Content
  headers: RecordHeader[]
  transaction: 'committed' | 'aborted' | 'open' | null
}

/** A record to write or to expect. Fields that are left out are written as none, and are not compared. */
export interface RecordFields {
  key?: unknown
  value?: unknown
  headers?: RecordHeader[] | [string, unknown][] | { [name: string]: unknown }
  timestamp?: number
  partition?: number
}

/** A record, or its value alone: text, bytes (Buffer), null, or anything that is written as JSON. */
export type RecordLike = RecordFields | KafkaRecord | string | Uint8Array | number | boolean | null | unknown[] | object
