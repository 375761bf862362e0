// Package mockbroker starts a RocketMQ name server and broker for the tests of a Go program, breaks it on purpose, turns its
// clock and tells what came in.
//
// The command rocketmq-mock-broker is looked for in the environment variable ROCKETMQ_MOCK_BROKER, then on the PATH.
package mockbroker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Broker is a name server and a broker in a process of their own.
type Broker struct {
	// NameServer is where clients find the name server, host:port.
	NameServer string
	// Address is where the broker is, host:port.
	Address string
	// Console is a page to look at and the control API, described at /openapi.json.
	Console string
	process *exec.Cmd
}

// Pattern says which requests are meant; what is empty matches everything.
type Pattern struct {
	Request    string `json:"request,omitempty"`
	Topic      string `json:"topic,omitempty"`
	Group      string `json:"group,omitempty"`
	Queue      *int   `json:"queue,omitempty"`
	Client     string `json:"client,omitempty"`
	Connection uint64 `json:"connection,omitempty"`
	Port       string `json:"port,omitempty"`
}

// Fault is something that goes wrong on purpose. Do is the name of an action such as "drop_answer", or a map with one entry such
// as {"answer": {"code": 2}}.
type Fault struct {
	On    Pattern `json:"on"`
	After uint32  `json:"after,omitempty"`
	Times *uint32 `json:"times,omitempty"`
	Do    any     `json:"do"`
}

// Request is an entry of the journal.
type Request struct {
	Sequence uint64            `json:"sequence"`
	Name     string            `json:"name"`
	Client   string            `json:"client"`
	Topic    string            `json:"topic"`
	Groups   []string          `json:"groups"`
	Response *int              `json:"response"`
	Fields   map[string]string `json:"fields"`
	Fault    *uint64           `json:"fault"`
}

// Message is a stored message. Body is text, or an object with base64.
type Message struct {
	Topic      string            `json:"topic"`
	Queue      int               `json:"queue"`
	Offset     int64             `json:"offset"`
	Tag        string            `json:"tag"`
	Keys       []string          `json:"keys"`
	Body       any               `json:"body"`
	Properties map[string]string `json:"properties"`
}

// Times is a count for Fault.Times.
func Times(count uint32) *uint32 { return &count }

// Start starts a broker that ends with the test; arguments are further ones of the command, such as "--topic", "orders:4".
func Start(t testing.TB, arguments ...string) *Broker {
	t.Helper()
	broker, err := Run(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
	return broker
}

// Run starts a broker that ends with Close.
func Run(arguments ...string) (*Broker, error) {
	command := os.Getenv("ROCKETMQ_MOCK_BROKER")
	if command == "" {
		found, err := exec.LookPath("rocketmq-mock-broker")
		if err != nil {
			return nil, errors.New("rocketmq-mock-broker is not on the PATH: install it, or name it in ROCKETMQ_MOCK_BROKER")
		}
		command = found
	}
	all := []string{"--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0", "--console", "127.0.0.1:0"}
	process := exec.Command(command, append(all, arguments...)...)
	process.Stderr = os.Stderr
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", command, err)
	}
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the broker did not start: %w", errors.Join(err, process.Wait()))
	}
	broker := &Broker{process: process}
	for _, word := range strings.Fields(ready) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "name_server":
			broker.NameServer = value
		case "broker":
			broker.Address = value
		case "console":
			broker.Console = "http://" + value
		}
	}
	return broker, nil
}

// Close ends the broker.
func (b *Broker) Close() error {
	if err := b.process.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return b.process.Wait()
}

// Advance turns message time: delayed messages that are due by then have been stored when it returns.
func (b *Broker) Advance(by time.Duration) error {
	return b.Call("POST", "/v1/clock/advance", map[string]int64{"ms": by.Milliseconds()}, nil)
}

// AdvanceSessions turns session time: clients that were silent are dropped, locks fall.
func (b *Broker) AdvanceSessions(by time.Duration) error {
	return b.Call("POST", "/v1/clock/advance_sessions", map[string]int64{"ms": by.Milliseconds()}, nil)
}

// PutFault puts a fault behind the others and returns its number.
func (b *Broker) PutFault(fault Fault) (uint64, error) {
	var put struct {
		ID uint64 `json:"id"`
	}
	err := b.Call("POST", "/v1/faults", fault, &put)
	return put.ID, err
}

// Hits says how many requests a fault has met.
func (b *Broker) Hits(id uint64) (uint64, error) {
	var faults []struct {
		ID   uint64 `json:"id"`
		Hits uint64 `json:"hits"`
	}
	if err := b.Call("GET", "/v1/faults", nil, &faults); err != nil {
		return 0, err
	}
	for _, fault := range faults {
		if fault.ID == id {
			return fault.Hits, nil
		}
	}
	return 0, fmt.Errorf("there is no fault %d", id)
}

// RemoveFault removes a fault.
func (b *Broker) RemoveFault(id uint64) error {
	return b.Call("DELETE", fmt.Sprintf("/v1/faults/%d", id), nil, nil)
}

// WaitForRequests waits up to half a minute for so many requests of a pattern.
func (b *Broker) WaitForRequests(on Pattern, count int) ([]Request, error) {
	var found []Request
	err := b.Call("POST", "/v1/journal/wait", map[string]any{"on": on, "count": count}, &found)
	return found, err
}

// Messages returns the messages of a topic, the latest first.
func (b *Broker) Messages(topic string) ([]Message, error) {
	var found []Message
	err := b.Call("GET", "/v1/messages?limit=10000&topic="+url.QueryEscape(topic), nil, &found)
	return found, err
}

// WaitForMessages waits up to half a minute for so many messages in a topic.
func (b *Broker) WaitForMessages(topic string, count int) error {
	return b.Call("POST", "/v1/messages/wait", map[string]any{"topic": topic, "count": count}, nil)
}

// WaitForConsumed waits up to half a minute until a group has committed so many messages of a topic.
func (b *Broker) WaitForConsumed(group, topic string, count int) error {
	return b.Call("POST", "/v1/groups/wait", map[string]any{"group": group, "topic": topic, "count": count}, nil)
}

// Reset starts over with nothing stored, no faults and an empty journal.
func (b *Broker) Reset() error {
	return b.Call("POST", "/v1/reset", nil, nil)
}

// Call asks the control API; what is answered is read into answer, if that is not nil.
func (b *Broker) Call(method, path string, body, answer any) error {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, b.Console+path, reader)
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		var problem struct {
			Error string `json:"error"`
		}
		if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
			return fmt.Errorf("%s %s: %s", method, path, response.Status)
		}
		return fmt.Errorf("%s %s: %s", method, path, problem.Error)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
