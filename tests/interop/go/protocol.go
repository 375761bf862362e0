package main

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// arguments are the key=value words of one command, values percent-encoded.
type arguments map[string]string

func parseArguments(words []string) (arguments, error) {
	parsed := arguments{}
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found {
			return nil, fmt.Errorf("expected key=value, found: %s", word)
		}
		key, err := url.QueryUnescape(key)
		if err != nil {
			return nil, err
		}
		if parsed[key], err = url.QueryUnescape(value); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

func (a arguments) has(key string) bool {
	_, found := a[key]
	return found
}

func (a arguments) text(key, otherwise string) string {
	if value, found := a[key]; found {
		return value
	}
	return otherwise
}

func (a arguments) number(key string, otherwise int) int {
	if number, err := strconv.Atoi(a[key]); err == nil {
		return number
	}
	return otherwise
}

func (a arguments) flag(key string) bool { return a[key] == "true" }

// event is one JSON object on one line of standard output.
type event map[string]any

var output sync.Mutex

func (e event) print() {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// body makes a body that the receiving side can compute again from the number of the message.
func body(a arguments, index int) ([]byte, error) {
	if a.has("body") {
		return []byte(a["body"]), nil
	}
	made := make([]byte, a.number("size", 100))
	switch kind := a.text("kind", "text"); kind {
	case "text":
		for i := range made {
			made[i] = '.'
		}
		copy(made, "message-"+strconv.Itoa(index))
	case "zeros":
	case "bytes":
		for i := range made {
			made[i] = byte(index*31 + i*7 + (i >> 8))
		}
	default:
		return nil, fmt.Errorf("unknown body kind: %s", kind)
	}
	return made, nil
}

func sha1Hex(body []byte) string {
	digest := sha1.Sum(body)
	return hex.EncodeToString(digest[:])
}

// cpuMicros is the processor time of this process so far, user and system.
func cpuMicros() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Microseconds()
}
