package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type production struct {
	job       int
	arguments arguments
	quiet     bool
	timeout   time.Duration
	producer  rocketmq.Producer
	sent      atomic.Int64
	failed    atomic.Int64
}

// produce sends messages and tells the outcome of each.
func produce(job int, a arguments) error {
	if a.text("mode", "sync") == "transaction" {
		return transact(job, a)
	}
	sender, err := producer.NewDefaultProducer(producerOptions(job, a, "interop-producer")...)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	defer func() { _ = sender.Shutdown() }()
	event{"job": job, "event": "started"}.print()
	p := &production{job: job, arguments: a, quiet: a.flag("quiet"), producer: sender,
		timeout: time.Duration(a.number("timeout", 10_000)) * time.Millisecond}
	warmUp, count := a.number("warm_up", 0), a.number("count", 1)
	if err := p.send(0, warmUp); err != nil {
		return err
	}
	p.sent.Store(0)
	p.failed.Store(0)
	started, startedCPU := time.Now(), cpuMicros()
	if err := p.send(warmUp, warmUp+count); err != nil {
		return err
	}
	event{"job": job, "event": "done", "sent": p.sent.Load(), "failed": p.failed.Load(),
		"elapsed_us": time.Since(started).Microseconds(), "cpu_us": cpuMicros() - startedCPU}.print()
	return nil
}

func producerOptions(job int, a arguments, group string) []producer.Option {
	options := []producer.Option{
		producer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(a["name_server"], ";"))),
		producer.WithGroupName(a.text("group", group)),
		producer.WithInstanceName(a.text("instance", fmt.Sprintf("go-%d-%d", job, time.Now().UnixNano()))),
		producer.WithRetry(a.number("retries", 2)),
		producer.WithSendMsgTimeout(time.Duration(a.number("timeout", 10_000)) * time.Millisecond),
		producer.WithTls(a.flag("tls")),
		producer.WithNamespace(a.text("namespace", "")),
	}
	if a.has("access_key") {
		options = append(options, producer.WithCredentials(credentials(a)))
	}
	return options
}

func credentials(a arguments) primitive.Credentials {
	return primitive.Credentials{AccessKey: a["access_key"], SecretKey: a["secret_key"]}
}

func (p *production) send(from, to int) error {
	switch mode := p.arguments.text("mode", "sync"); mode {
	case "sync":
		return p.spread(from, to, 1, func(index int, messages []*primitive.Message) {
			p.sync(index, messages)
		})
	case "batch":
		return p.spread(from, to, p.arguments.number("batch_size", 32), p.sync)
	case "one_way":
		return p.spread(from, to, 1, func(index int, messages []*primitive.Message) {
			ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
			defer cancel()
			if err := p.producer.SendOneWay(ctx, messages...); err != nil {
				p.tellFailed(index, err)
				return
			}
			p.sent.Add(1)
		})
	case "async":
		return p.async(from, to)
	default:
		return fmt.Errorf("unknown mode: %s", mode)
	}
}

// spread sends the messages in groups of groupSize from as many goroutines as asked for.
func (p *production) spread(from, to, groupSize int, send func(int, []*primitive.Message)) error {
	var next atomic.Int64
	next.Store(int64(from))
	var workers sync.WaitGroup
	errors := make(chan error, 1)
	for range p.arguments.number("in_flight", 1) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				first := int(next.Add(int64(groupSize))) - groupSize
				if first >= to {
					return
				}
				var messages []*primitive.Message
				for i := first; i < min(first+groupSize, to); i++ {
					message, err := p.message(i)
					if err != nil {
						select {
						case errors <- err:
						default:
						}
						return
					}
					messages = append(messages, message)
				}
				send(first, messages)
			}
		}()
	}
	workers.Wait()
	select {
	case err := <-errors:
		return err
	default:
		return nil
	}
}

func (p *production) sync(first int, messages []*primitive.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	result, err := p.producer.SendSync(ctx, messages...)
	for i := range messages {
		p.tell(first+i, result, err)
	}
}

func (p *production) async(from, to int) error {
	permits := make(chan struct{}, p.arguments.number("in_flight", 32))
	var open sync.WaitGroup
	for i := from; i < to; i++ {
		message, err := p.message(i)
		if err != nil {
			return err
		}
		permits <- struct{}{}
		open.Add(1)
		finish := func(_ context.Context, result *primitive.SendResult, err error) {
			p.tell(i, result, err)
			<-permits
			open.Done()
		}
		if err := p.producer.SendAsync(context.Background(), finish, message); err != nil {
			finish(context.Background(), nil, err)
		}
	}
	open.Wait()
	return nil
}

func (p *production) message(index int) (*primitive.Message, error) {
	content, err := body(p.arguments, index)
	if err != nil {
		return nil, err
	}
	message := primitive.NewMessage(p.arguments["topic"], content)
	if p.arguments.has("tags") {
		tags := strings.Split(p.arguments["tags"], ",")
		message.WithTag(tags[index%len(tags)])
	}
	if p.arguments.has("keys") {
		message.WithKeys([]string{strings.ReplaceAll(p.arguments["keys"], "{}", strconv.Itoa(index))})
	}
	if p.arguments.has("delay_level") {
		message.WithDelayTimeLevel(p.arguments.number("delay_level", 0))
	}
	for key, value := range p.arguments {
		if name, found := strings.CutPrefix(key, "property."); found {
			message.WithProperty(name, value)
		}
	}
	return message, nil
}

var statusNames = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	primitive.SendUnknownError:      "UNKNOWN",
}

func (p *production) tell(index int, result *primitive.SendResult, err error) {
	if err != nil {
		p.tellFailed(index, err)
		return
	}
	p.sent.Add(1)
	if !p.quiet {
		event{"job": p.job, "event": "sent", "index": index, "status": statusNames[result.Status],
			"msg_id": result.MsgID, "offset_msg_id": result.OffsetMsgID, "broker": result.MessageQueue.BrokerName,
			"queue_id": result.MessageQueue.QueueId, "queue_offset": result.QueueOffset}.print()
	}
}

func (p *production) tellFailed(index int, err error) {
	p.failed.Add(1)
	if !p.quiet {
		event{"job": p.job, "event": "failed", "index": index, "code": -1, "message": err.Error()}.print()
	}
}
