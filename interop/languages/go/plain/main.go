// franz-go with the settings that it has by itself: writes records one after the other, and reads them one by one.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	. "languages/check"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, topic, count := context.Background(), os.Args[2], Must(strconv.Atoi(os.Args[3]))
	p := Must(kgo.NewClient(kgo.SeedBrokers(Bootstrap), kgo.DefaultProduceTopic(topic)))
	for i := range count {
		Must(p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).First())
	}
	p.Close()
	c := Must(kgo.NewClient(kgo.SeedBrokers(Bootstrap), kgo.ConsumeTopics(topic), kgo.FetchMaxPartitionBytes(500)))
	for read := 0; read < count; {
		read += c.PollFetches(ctx).NumRecords()
	}
	c.Close()
}
