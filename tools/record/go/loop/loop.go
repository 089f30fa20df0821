// Package loop is what the Go agents share: the command loop of clients/agent.py and its events.
package loop

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Command is one command's arguments.
type Command map[string]any

// Event is a row of a side-car's table.
type Event map[string]any

// Operation is a command's work.
type Operation func(Command) (any, error)

// Record is one record to produce.
type Record struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Key       *string    `json:"key"`
	Value     *string    `json:"value"`
	Headers   [][]string `json:"headers"`
}

// Agent obeys commands and collects events.
type Agent struct {
	Bootstrap  string
	Operations map[string]Operation
	events     []Event
}

// New makes an agent; the program's first argument is the bootstrap address.
func New() *Agent {
	return &Agent{Bootstrap: os.Args[1], Operations: map[string]Operation{}}
}

// Serve obeys until stdin ends.
func (a *Agent) Serve() {
	replies := json.NewEncoder(os.Stdout)
	replies.SetEscapeHTML(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var command Command
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			panic(err)
		}
		if err := replies.Encode(a.obey(command)); err != nil {
			panic(err)
		}
	}
}

func (a *Agent) obey(command Command) map[string]any {
	a.events = []Event{}
	start := time.Now().UnixNano()
	var failure any
	result, err := a.Operations[command.Text("op", "")](command)
	if err != nil {
		failure = err.Error()
	}
	return map[string]any{
		"start_ns": start, "end_ns": time.Now().UnixNano(),
		"result": result, "error": failure, "events": a.events,
	}
}

// Emit adds an event to the running command's reply.
func (a *Agent) Emit(kind string, client string, event Event) {
	event["kind"], event["session"] = kind, client
	a.events = append(a.events, event)
}

// Failed reports an error a client received; a code of 0 is the library's own.
func (a *Agent) Failed(client, operation string, code int16, name, topic string, partition int32) {
	var known any
	if code != 0 {
		known = code
	}
	a.Emit("errors", client, Event{
		"operation": operation, "code": known, "name": name, "topic": topic,
		"partition": partition, "time_ns": time.Now().UnixNano(),
	})
}

// Text is a text argument, or what it is otherwise.
func (c Command) Text(name, otherwise string) string {
	if text, ok := c[name].(string); ok {
		return text
	}
	return otherwise
}

// Number is a numeric argument, or what it is otherwise.
func (c Command) Number(name string, otherwise float64) float64 {
	if number, ok := c[name].(float64); ok {
		return number
	}
	return otherwise
}

// Is is a boolean argument, false when absent.
func (c Command) Is(name string) bool {
	value, _ := c[name].(bool)
	return value
}

// Setting is a text among the command's settings.
func (c Command) Setting(name string) string {
	settings, _ := c["settings"].(map[string]any)
	return Command(settings).Text(name, "")
}

// Into decodes an argument.
func (c Command) Into(name string, target any) {
	text, _ := json.Marshal(c[name])
	if err := json.Unmarshal(text, target); err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
}

// Bytes is a text's UTF-8, nil for null.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Describe adds sizes and digests of a key and a value.
func Describe(event Event, key, value []byte, headers int) {
	event["key_size"], event["key_sha256"] = digest(key)
	event["value_size"], event["value_sha256"] = digest(value)
	event["header_count"] = headers
}

func digest(data []byte) (int, any) {
	if data == nil {
		return -1, nil
	}
	sum := sha256.Sum256(data)
	return len(data), hex.EncodeToString(sum[:])
}
