// What the client has since 1.19, for who asks for it in this way.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

func init() {
	asked := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
	scenarios["next_group"] = quietly(func() error { return group(kgo.WithContext(asked)) })
}
