package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const checkLimit = 150 * time.Second

// transactions decides by the number of the message, its property "index": decisions and checks are words taken in turn,
// "commit", "rollback", "unknown", and for checks "later", which is unknown when first asked and a commit then.
type transactions struct {
	job       int
	decisions []string
	checks    []string
	mutex     sync.Mutex
	asked     map[int]int
	decided   map[int]bool
	changed   chan struct{}
}

var states = map[string]primitive.LocalTransactionState{
	"commit":   primitive.CommitMessageState,
	"rollback": primitive.RollbackMessageState,
	"unknown":  primitive.UnkonwnState,
}

func (t *transactions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return states[t.decisions[indexOf(message)%len(t.decisions)]]
}

func (t *transactions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	index := indexOf(&message.Message)
	t.asked[index]++
	word := t.checks[index%len(t.checks)]
	if word == "later" {
		word = map[bool]string{true: "unknown", false: "commit"}[t.asked[index] == 1]
	}
	event{"job": t.job, "event": "checked", "index": index, "times": t.asked[index], "state": word,
		"topic": message.Topic, "keys": message.GetKeys(), "msg_id": message.MsgId,
		"transaction_id": message.TransactionId, "sha1": sha1Hex(message.Body)}.print()
	if word != "unknown" {
		t.decided[index] = true
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
	return states[word]
}

// await waits until so many messages were decided by a check.
func (t *transactions) await(count int) error {
	limit := time.After(checkLimit)
	for {
		t.mutex.Lock()
		decided := len(t.decided)
		t.mutex.Unlock()
		if decided >= count {
			return nil
		}
		select {
		case <-t.changed:
		case <-limit:
			return fmt.Errorf("of %d messages checks decided only %d", count, decided)
		}
	}
}

func indexOf(message *primitive.Message) int {
	index, err := strconv.Atoi(message.GetProperty("index"))
	if err != nil {
		panic(err)
	}
	return index
}

// transact sends messages in transactions and tells the outcome of each.
func transact(job int, a arguments) error {
	listener := &transactions{job: job, decisions: strings.Split(a.text("decisions", "commit"), ","),
		checks: strings.Split(a.text("checks", "commit"), ","), asked: map[int]int{}, decided: map[int]bool{},
		changed: make(chan struct{}, 1)}
	sender, err := rocketmq.NewTransactionProducer(listener, producerOptions(job, a, "interop-producer")...)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	defer func() { _ = sender.Shutdown() }()
	event{"job": job, "event": "started"}.print()
	p := &production{job: job, arguments: a}
	for index := range a.number("count", 1) {
		message, err := p.message(index)
		if err != nil {
			return err
		}
		message.WithProperty("index", strconv.Itoa(index))
		result, err := sender.SendMessageInTransaction(context.Background(), message)
		if err != nil {
			p.tellFailed(index, err)
			continue
		}
		p.tell(index, result.SendResult, nil)
	}
	if err := listener.await(a.number("await_checks", 0)); err != nil {
		return err
	}
	event{"job": job, "event": "done", "sent": p.sent.Load(), "failed": p.failed.Load()}.print()
	return nil
}
