// The Go client as a program for tests. With a command as arguments it runs that command; without arguments it reads
// commands from standard input, each as "JOB COMMAND key=value...", so that many scenarios share one process. What
// happens is told in JSON lines on standard output. See ../README.md for the commands.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var consumers sync.Map // job number -> *consumption

func main() {
	rlog.SetLogLevel("error")
	if len(os.Args) > 1 {
		os.Exit(single(os.Args[1:]))
	}
	session()
}

func single(words []string) int {
	if !run(0, words[0], words[1:]) {
		return 1
	}
	if running, found := consumers.Load(0); found {
		consumption := running.(*consumption)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			consumption.tellEnough()
		}()
		<-consumption.enough
		consumption.stop()
	}
	return 0
}

func session() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		job, err := strconv.Atoi(words[0])
		if err != nil {
			panic(err)
		}
		go run(job, words[1], words[2:])
	}
	consumers.Range(func(_, running any) bool {
		running.(*consumption).stop()
		return true
	})
}

func run(job int, command string, words []string) bool {
	err := dispatch(job, command, words)
	if err != nil {
		event{"job": job, "event": "error", "message": err.Error()}.print()
	}
	return err == nil
}

func dispatch(job int, command string, words []string) error {
	arguments, err := parseArguments(words)
	if err != nil {
		return err
	}
	switch command {
	case "produce":
		return produce(job, arguments)
	case "consume":
		return consume(job, arguments)
	case "request":
		return request(job, arguments)
	case "stop":
		running, found := consumers.LoadAndDelete(job)
		if !found {
			return fmt.Errorf("job %d consumes nothing", job)
		}
		running.(*consumption).stop()
		return nil
	default:
		return fmt.Errorf("unknown command: %s", command)
	}
}
