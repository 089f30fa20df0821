// The agent of Sarama.
package main

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"kdissect/record/loop"

	"github.com/IBM/sarama"
)

type producer struct {
	sarama.SyncProducer
	codec, acks, transaction string
}

var (
	agent     = loop.New()
	producers = map[string]*producer{}
	consumers = map[string]*consumer{}
	codecs    = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
		"zstd": sarama.CompressionZSTD,
	}
	allAcks = map[string]sarama.RequiredAcks{
		"all": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse,
	}
)

func main() {
	agent.Operations["versions"] = versions
	agent.Operations["open_producer"] = openProducer
	agent.Operations["begin"] = begin
	agent.Operations["end"] = end
	agent.Operations["produce"] = produce
	agent.Operations["open_consumer"] = openConsumer
	agent.Operations["poll"] = poll
	agent.Operations["commit"] = commit
	agent.Operations["close"] = closeClient
	agent.Serve()
}

func versions(loop.Command) (any, error) {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/IBM/sarama" {
			return map[string]string{"sarama": module.Version}, nil
		}
	}
	return nil, errors.New("no version")
}

func configuration(command loop.Command) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.ClientID = command.Text("client", "")
	if text := command.Setting("version"); text != "" {
		version, err := sarama.ParseKafkaVersion(text)
		if err != nil {
			return nil, err
		}
		config.Version = version
		config.ApiVersionsRequest = version.IsAtLeast(sarama.V0_10_0_0)
	}
	if tls := command.TLS(); tls != nil {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = tls
	}
	if mechanism := command.Setting("mechanism"); mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
		config.Net.SASL.User = command.Setting("user")
		config.Net.SASL.Password = command.Setting("password")
		config.Net.SASL.Version = sarama.SASLHandshakeV1
		if command.Setting("handshake") == "0" {
			config.Net.SASL.Version = sarama.SASLHandshakeV0
			config.ApiVersionsRequest = false
		}
	}
	return config, nil
}

func openProducer(command loop.Command) (any, error) {
	config, err := configuration(command)
	if err != nil {
		return nil, err
	}
	codec, acks := command.Text("codec", "none"), command.Text("acks", "all")
	config.Producer.Compression = codecs[codec]
	config.Producer.RequiredAcks = allAcks[acks]
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	if id := command.Text("transactional_id", ""); id != "" || command.Is("idempotent") {
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = id
		config.Net.MaxOpenRequests = 1
	}
	made, err := sarama.NewSyncProducer([]string{agent.Bootstrap}, config)
	producers[command.Text("client", "")] = &producer{SyncProducer: made, codec: codec, acks: acks}
	return nil, err
}

func begin(command loop.Command) (any, error) {
	known := producers[command.Text("client", "")]
	known.transaction = command.Text("transaction", "")
	return nil, known.BeginTxn()
}

func end(command loop.Command) (any, error) {
	known := producers[command.Text("client", "")]
	outcome := known.transaction
	known.transaction = ""
	if outcome == "committed" {
		return nil, known.CommitTxn()
	}
	return nil, known.AbortTxn()
}

func produce(command loop.Command) (any, error) {
	name := command.Text("client", "")
	known := producers[name]
	var records []loop.Record
	command.Into("records", &records)
	var messages []*sarama.ProducerMessage
	start := time.Now().UnixNano()
	for i := range records {
		messages = append(messages, message(&records[i], !command.Is("without_headers")))
	}
	failures := map[*sarama.ProducerMessage]bool{}
	var several sarama.ProducerErrors
	if err := known.SendMessages(messages); errors.As(err, &several) {
		for _, failure := range several {
			failures[failure.Msg] = true
			failed(name, "produce", failure.Err, failure.Msg.Topic, failure.Msg.Partition)
		}
	} else if err != nil {
		return nil, err
	}
	for i, sent := range messages {
		if !failures[sent] {
			produced(name, known, &records[i], sent, start)
		}
	}
	return map[string]int{"records": len(records)}, nil
}

func message(record *loop.Record, hasHeaders bool) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{Topic: record.Topic, Partition: record.Partition}
	if record.Key != nil {
		made.Key = sarama.StringEncoder(*record.Key)
	}
	if record.Value != nil {
		made.Value = sarama.StringEncoder(*record.Value)
	}
	for _, header := range record.Headers {
		if hasHeaders {
			made.Headers = append(made.Headers,
				sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
		}
	}
	return made
}

func produced(
	name string, known *producer, record *loop.Record, sent *sarama.ProducerMessage, start int64,
) {
	event := loop.Event{
		"topic": sent.Topic, "partition": sent.Partition, "offset": sent.Offset,
		"timestamp_ms": nil, "codec": known.codec, "acks": known.acks, "transaction": nil,
		"sent_ns": start, "acknowledged_ns": time.Now().UnixNano(),
	}
	if !sent.Timestamp.IsZero() {
		event["timestamp_ms"] = sent.Timestamp.UnixMilli()
	}
	if known.acks == "0" {
		event["offset"] = nil
	}
	if known.transaction != "" {
		event["transaction"] = known.transaction
	}
	loop.Describe(event, loop.Bytes(record.Key), loop.Bytes(record.Value), len(sent.Headers))
	agent.Emit("produced", name, event)
}

// consumer takes records of claims or of partitions that it was given, in the background.
type consumer struct {
	group    sarama.ConsumerGroup
	given    sarama.Consumer
	name     any
	session  sarama.ConsumerGroupSession
	lock     sync.Mutex
	last     map[string]map[int32]int64
	messages chan *sarama.ConsumerMessage
	stop     context.CancelFunc
}

func (c *consumer) Setup(session sarama.ConsumerGroupSession) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.session = session
	return nil
}

func (c *consumer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *consumer) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case record, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			c.messages <- record
		case <-session.Context().Done():
			return nil
		}
	}
}

func openConsumer(command loop.Command) (any, error) {
	config, err := configuration(command)
	if err != nil {
		return nil, err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	if config.Version.IsAtLeast(sarama.V0_11_0_0) {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	config.Consumer.MaxWaitTime = 500 * time.Millisecond
	config.Consumer.Group.InstanceId = command.Setting("instance")
	made := &consumer{
		messages: make(chan *sarama.ConsumerMessage, 1000), last: map[string]map[int32]int64{},
	}
	consumers[command.Text("client", "")] = made
	if command["assign"] != nil {
		return nil, made.take(command, config)
	}
	made.name = command.Text("group", "")
	made.group, err = sarama.NewConsumerGroup(
		[]string{agent.Bootstrap}, command.Text("group", ""), config)
	if err != nil {
		return nil, err
	}
	var topics []string
	command.Into("topics", &topics)
	running, stop := context.WithCancel(context.Background())
	made.stop = stop
	go func() {
		for running.Err() == nil && made.group.Consume(running, topics, made) == nil {
		}
	}()
	return nil, nil
}

func (c *consumer) take(command loop.Command, config *sarama.Config) error {
	var places [][]any
	command.Into("assign", &places)
	var err error
	if c.given, err = sarama.NewConsumer([]string{agent.Bootstrap}, config); err != nil {
		return err
	}
	for _, place := range places {
		part, err := c.given.ConsumePartition(
			place[0].(string), int32(place[1].(float64)), int64(place[2].(float64)))
		if err != nil {
			return err
		}
		go func() {
			for record := range part.Messages() {
				c.messages <- record
			}
		}()
	}
	return nil
}

func poll(command loop.Command) (any, error) {
	name := command.Text("client", "")
	known := consumers[name]
	end := time.After(time.Duration(command.Number("seconds", 1) * float64(time.Second)))
	wanted, count := int(command.Number("records", 1<<31)), 0
	for count < wanted {
		select {
		case record := <-known.messages:
			count++
			known.took(name, record)
		case <-end:
			return map[string]int{"records": count}, nil
		}
	}
	return map[string]int{"records": count}, nil
}

func (c *consumer) took(name string, record *sarama.ConsumerMessage) {
	if c.last[record.Topic] == nil {
		c.last[record.Topic] = map[int32]int64{}
	}
	c.last[record.Topic][record.Partition] = record.Offset
	event := loop.Event{
		"group": c.name, "topic": record.Topic, "partition": record.Partition,
		"offset": record.Offset, "timestamp_ms": nil,
	}
	if !record.Timestamp.IsZero() {
		event["timestamp_ms"] = record.Timestamp.UnixMilli()
	}
	loop.Describe(event, record.Key, record.Value, len(record.Headers))
	agent.Emit("consumed", name, event)
}

func commit(command loop.Command) (any, error) {
	name := command.Text("client", "")
	known := consumers[name]
	known.lock.Lock()
	defer known.lock.Unlock()
	for topic, partitions := range known.last {
		for partition, offset := range partitions {
			known.session.MarkOffset(topic, partition, offset+1, "")
			agent.Emit("commits", name, loop.Event{
				"group": known.name, "topic": topic, "partition": partition, "offset": offset + 1,
			})
		}
	}
	known.session.Commit()
	return nil, nil
}

func closeClient(command loop.Command) (any, error) {
	name := command.Text("client", "")
	if known := producers[name]; known != nil {
		delete(producers, name)
		return nil, known.Close()
	}
	known := consumers[name]
	delete(consumers, name)
	if known == nil {
		return nil, nil
	}
	if known.given != nil {
		return nil, known.given.Close()
	}
	known.stop()
	return nil, known.group.Close()
}

func failed(name, operation string, failure error, topic string, partition int32) {
	var known sarama.KError
	if errors.As(failure, &known) {
		agent.Failed(name, operation, int16(known), known.Error(), topic, partition)
		return
	}
	agent.Failed(name, operation, 0, failure.Error(), topic, partition)
}
