// Compiled by TypeScript and never run: what a test may write.
import { ControlError, Fault, KafkaBroker, KafkaRecord } from '..'

export async function used(): Promise<KafkaRecord[]> {
  const broker: KafkaBroker = await KafkaBroker.start({ topics: { orders: { partitions: 2 } }, config: { a: 1 } })
  const fault: Fault = await broker.addFault({ api: ['Produce'], error: 'NOT_LEADER_OR_FOLLOWER', delay_clock: 'wall' })
  await broker.waitForFault(fault.id, { n: 2 })
  await broker.produce('orders', ['a', null, Buffer.of(1), { key: 1, headers: { a: 'b' } }])
  // @ts-expect-error: the number of records must be given
  await broker.waitForRecords('orders')
  // @ts-expect-error: no such clock
  await broker.addFault({ delay_clock: 'sun' })
  const value: string | Buffer | null = (await broker.waitForRecord('orders', { key: 1 })).value
  void [value, new ControlError().code]
  await broker.reset({ keep: ['clock'] })
  return broker.records('orders', { partition: 0, key: Buffer.of(1) })
}
