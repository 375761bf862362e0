package mockbroker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func startProducer(t *testing.T, broker *Broker, timeout time.Duration) rocketmq.Producer {
	t.Helper()
	rlog.SetLogLevel("error")
	started, err := rocketmq.NewProducer(producer.WithNsResolver(primitive.NewPassthroughResolver([]string{broker.NameServer})),
		producer.WithRetry(2), producer.WithSendMsgTimeout(timeout), producer.WithGroupName("p"),
		producer.WithInstanceName(fmt.Sprint(time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Shutdown() })
	if _, err := started.SendSync(context.Background(), message("warm")); err != nil {
		t.Fatal(err)
	}
	return started
}

func message(body string) *primitive.Message {
	return primitive.NewMessage("orders", []byte(body))
}

// What the client gets over within its time: the send succeeds, and the fault has met it.
func TestSendsSurviveWhatPasses(t *testing.T) {
	broker := Start(t, "--topic", "orders:2")
	client := startProducer(t, broker, 3*time.Second)
	for _, action := range []any{
		map[string]any{"delay": map[string]any{"ms": 30}},
		map[string]any{"latency": map[string]any{"median_ms": 2, "p99_ms": 9}},
		"close",
		map[string]any{"reset": map[string]any{}},
		map[string]any{"reset": map[string]any{"after_bytes": 9}},
		map[string]any{"truncate": map[string]any{"bytes": 9}},
		"duplicate",
		map[string]any{"drip": map[string]any{"bytes": 9, "every_ms": 1}},
	} {
		id, err := broker.PutFault(Fault{On: Pattern{Request: "send"}, Times: Times(1), Do: action})
		if err != nil {
			t.Fatal(err)
		}
		result, err := client.SendSync(context.Background(), message("x"))
		if err != nil {
			t.Errorf("%v: %v", action, err)
			continue
		}
		if result.Status != primitive.SendOK {
			t.Errorf("%v: %v", action, result)
		}
		if hits, err := broker.Hits(id); err != nil || hits != 1 {
			t.Errorf("%v: met %d requests, %v", action, hits, err)
		}
	}
}

// What it cannot get over: it says so, or says it by the status.
func TestSendsFailAsTheyShould(t *testing.T) {
	broker := Start(t, "--topic", "orders:2")
	client := startProducer(t, broker, 300*time.Millisecond)
	with := func(fault Fault, check func(*primitive.SendResult, error)) {
		t.Helper()
		id, err := broker.PutFault(fault)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(client.SendSync(ctx, message("x")))
		if err := broker.RemoveFault(id); err != nil {
			t.Fatal(err)
		}
	}
	send := Pattern{Request: "send"}
	for _, action := range []any{"drop_answer", "drop_request", map[string]any{"corrupt": map[string]any{"at": 8}}} {
		with(Fault{On: send, Do: action}, func(result *primitive.SendResult, err error) {
			if err == nil {
				t.Errorf("%v: sent: %v", action, result)
			}
		})
	}
	with(Fault{Do: "flush_timeout"}, func(result *primitive.SendResult, err error) {
		if err != nil || result.Status != primitive.SendFlushDiskTimeout {
			t.Errorf("flush_timeout: %v, %v", result, err)
		}
	})
	// Java tries again when the broker is busy; the Go client does not.
	busy, refused := map[string]any{"answer": map[string]any{"code": 2}}, map[string]any{"answer": map[string]any{"code": 16}}
	for _, fault := range []Fault{{Do: "disk_full"}, {On: send, Times: Times(1), Do: busy}, {On: send, Do: refused}} {
		with(fault, func(result *primitive.SendResult, err error) {
			if err == nil && result.Status == primitive.SendOK {
				t.Errorf("%v: sent: %v", fault, result)
			}
		})
	}
	with(Fault{On: Pattern{Port: "broker"}, Do: "off"}, func(result *primitive.SendResult, err error) {
		if err == nil {
			t.Errorf("off: sent: %v", result)
		}
	})
}

// The Go client keeps a connection on which nothing comes back: it fails until the broker has given the connection up.
func TestAHalfOpenConnectionFailsUntilItIsGivenUp(t *testing.T) {
	broker := Start(t, "--topic", "orders:2")
	client := startProducer(t, broker, 300*time.Millisecond)
	if _, err := broker.PutFault(Fault{On: Pattern{Request: "send"}, Times: Times(1), Do: "half_open"}); err != nil {
		t.Fatal(err)
	}
	if result, err := client.SendSync(context.Background(), message("x")); err == nil {
		t.Errorf("sent: %v", result)
	}
	if err := broker.AdvanceSessions(3 * time.Minute); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(150 * time.Second); ; {
		if _, err := client.SendSync(context.Background(), message("x")); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Two hours pass in a moment, then a week: the message comes at once, and nobody is dropped.
func TestADelayedMessageComesWhenTimeIsTurned(t *testing.T) {
	broker := Start(t, "--topic", "orders:2")
	client := startProducer(t, broker, 3*time.Second)
	arrivals := make(chan string, 16)
	started, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{broker.NameServer})),
		consumer.WithGroupName("g"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		t.Fatal(err)
	}
	handler := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if message.GetTags() == "later" {
				arrivals <- string(message.Body)
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := started.Subscribe("orders", consumer.MessageSelector{}, handler); err != nil {
		t.Fatal(err)
	}
	if err := started.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Shutdown() })
	expect := func(body string) {
		t.Helper()
		select {
		case arrived := <-arrivals:
			if arrived != body {
				t.Fatalf("%s came, not %s", arrived, body)
			}
		case <-time.After(150 * time.Second):
			t.Fatalf("%s did not come", body)
		}
	}
	later := message("in two hours").WithTag("later").WithDelayTimeLevel(18)
	if _, err := client.SendSync(context.Background(), later); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.WaitForRequests(Pattern{Request: "send", Topic: "orders"}, 2); err != nil {
		t.Fatal(err)
	}
	if err := broker.Advance(2 * time.Hour); err != nil {
		t.Fatal(err)
	}
	expect("in two hours")
	if err := broker.Advance(7 * 24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendSync(context.Background(), message("after a week").WithTag("later")); err != nil {
		t.Fatal(err)
	}
	expect("after a week")
	if found, err := broker.Messages("orders"); err != nil || len(found) != 3 {
		t.Fatalf("%v, %v", found, err)
	}
}
