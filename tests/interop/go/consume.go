package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

type consumption struct {
	job       int
	quiet     bool
	failFirst int32
	level     int
	count     int64
	consumer  rocketmq.PushConsumer
	succeeded atomic.Int64
	first     sync.Once
	firstTime time.Time
	firstCPU  int64
	told      sync.Once
	closed    sync.Once
	enough    chan struct{}
	replier   *replier
}

func model(a arguments) consumer.MessageModel {
	if a.flag("broadcast") {
		return consumer.BroadCasting
	}
	return consumer.Clustering
}

// consume starts a push consumer that tells every message.
func consume(job int, a arguments) error {
	options := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(a["name_server"], ";"))),
		consumer.WithGroupName(a["group"]),
		consumer.WithInstance(a.text("instance", fmt.Sprintf("go-%d-%d", job, time.Now().UnixNano()))),
		consumer.WithConsumerModel(model(a)),
		consumer.WithTls(a.flag("tls")),
		consumer.WithConsumerOrder(a.flag("orderly")),
		consumer.WithConsumeGoroutineNums(a.number("threads", 8)),
	}
	switch from := a.text("from", "first"); from {
	case "first":
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	case "last":
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
	default:
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp),
			consumer.WithConsumeTimestamp(from))
	}
	if a.has("access_key") {
		options = append(options, consumer.WithCredentials(credentials(a)))
	}
	if a.has("namespace") {
		options = append(options, consumer.WithNamespace(a["namespace"]))
	}
	pusher, err := consumer.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	c := &consumption{job: job, quiet: a.flag("quiet"), failFirst: int32(a.number("fail_first", 0)),
		level: a.number("retry_level", 0), count: int64(a.number("count", 1<<40)), consumer: pusher,
		enough: make(chan struct{})}
	if a.has("reply") {
		if err := c.replyWith(a); err != nil {
			return err
		}
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: a.text("expression", "*")}
	if a.has("sql") {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: a["sql"]}
	}
	if err := pusher.Subscribe(a["topic"], selector, c.handle); err != nil {
		return err
	}
	if err := pusher.Start(); err != nil {
		return err
	}
	consumers.Store(job, c)
	event{"job": job, "event": "started"}.print()
	return nil
}

func (c *consumption) stop() {
	if err := c.consumer.Shutdown(); err != nil {
		event{"job": c.job, "event": "error", "message": err.Error()}.print()
		return
	}
	if c.replier != nil {
		c.replier.stop()
	}
	event{"job": c.job, "event": "stopped", "succeeded": c.succeeded.Load()}.print()
}

func (c *consumption) tellEnough() { c.closed.Do(func() { close(c.enough) }) }

func (c *consumption) handle(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	c.first.Do(func() { c.firstTime, c.firstCPU = time.Now(), cpuMicros() })
	if concurrently, found := primitive.GetConcurrentlyCtx(ctx); found {
		concurrently.DelayLevelWhenNextConsume = c.level
	}
	failing := false
	for _, message := range messages {
		fails := message.ReconsumeTimes < c.failFirst
		if c.replier != nil {
			c.replier.reply(c.job, message)
		}
		failing = failing || fails
		if !c.quiet {
			c.tell(message, fails)
		}
	}
	if failing {
		return consumer.ConsumeRetryLater, nil
	}
	if succeeded := c.succeeded.Add(int64(len(messages))); succeeded >= c.count {
		c.told.Do(func() {
			event{"job": c.job, "event": "done", "succeeded": succeeded,
				"elapsed_us": time.Since(c.firstTime).Microseconds(), "cpu_us": cpuMicros() - c.firstCPU}.print()
			c.tellEnough()
		})
	}
	return consumer.ConsumeSuccess, nil
}

func (c *consumption) tell(message *primitive.MessageExt, fails bool) {
	outcome := "success"
	if fails {
		outcome = "later"
	}
	event{"job": c.job, "event": "message", "outcome": outcome, "msg_id": message.MsgId,
		"offset_msg_id": message.OffsetMsgId, "topic": message.Topic, "broker": message.Queue.BrokerName,
		"queue_id": message.Queue.QueueId, "queue_offset": message.QueueOffset,
		"reconsume_times": message.ReconsumeTimes, "size": len(message.Body), "sha1": sha1Hex(message.Body),
		"tags": message.GetTags(), "keys": message.GetKeys(), "properties": message.GetProperties(),
		"born_ms": message.BornTimestamp, "stored_ms": message.StoreTimestamp}.print()
}
