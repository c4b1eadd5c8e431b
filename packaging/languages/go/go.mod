module pykafka-broker.example/kafkabroker

go 1.24
