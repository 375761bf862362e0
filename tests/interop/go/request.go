package main

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// request asks questions one after the other and tells each reply.
func request(job int, a arguments) error {
	asker, err := producer.NewDefaultProducer(producerOptions(job, a, "interop-asker")...)
	if err != nil {
		return err
	}
	if err := asker.Start(); err != nil {
		return err
	}
	defer func() { _ = asker.Shutdown() }()
	event{"job": job, "event": "started"}.print()
	for i := range a.number("count", 1) {
		question := primitive.NewMessage(a["topic"], []byte(fmt.Sprintf("%s %d", a.text("body", "question"), i)))
		limit := time.Duration(a.number("timeout", 30_000)) * time.Millisecond
		reply, err := asker.Request(context.Background(), limit, question)
		if err != nil {
			return err
		}
		event{"job": job, "event": "reply", "index": i, "body": string(reply.Body),
			"properties": reply.GetProperties()}.print()
	}
	event{"job": job, "event": "done"}.print()
	return nil
}

// replier answers questions with their body and what is added to it.
type replier struct {
	producer rocketmq.Producer
	added    string
}

func (c *consumption) replyWith(a arguments) error {
	sender, err := producer.NewDefaultProducer(producerOptions(c.job, arguments{"name_server": a["name_server"],
		"instance": fmt.Sprintf("go-replier-%d-%d", c.job, time.Now().UnixNano())}, "interop-replier")...)
	if err != nil {
		return err
	}
	c.replier = &replier{producer: sender, added: a["reply"]}
	return sender.Start()
}

func (r *replier) stop() { _ = r.producer.Shutdown() }

func (r *replier) reply(job int, question *primitive.MessageExt) {
	body := append(append([]byte{}, question.Body...), r.added...)
	reply, err := consumer.CreateReplyMessage(question, body)
	if err == nil {
		// The client reads the body as properties instead of keeping it.
		reply.Body = body
		// The broker knows an asker from its first heartbeat on.
		for range 60 {
			if _, err = r.producer.SendSync(context.Background(), reply); err == nil {
				break
			}
			time.Sleep(time.Second)
		}
	}
	if err != nil {
		event{"job": job, "event": "error", "message": err.Error()}.print()
	}
}
