// Package kafkabroker starts a Kafka broker for a test, and controls its topics, records, groups, clock and faults.
//
//	func TestAnOrderArrives(t *testing.T) {
//		broker := kafkabroker.Start(t)
//		client, err := kgo.NewClient(kgo.SeedBrokers(broker.BootstrapServers))
//
// The broker is the program pykafka-broker, in a process of its own that ends with the test.
package kafkabroker
