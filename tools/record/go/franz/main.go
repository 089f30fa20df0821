// The agent of franz-go.
package main

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"kdissect/record/loop"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const timeout = 20 * time.Second

type client struct {
	*kgo.Client
	codec, acks, transaction string
	group                    any
}

var (
	agent   = loop.New()
	clients = map[string]*client{}
	codecs  = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	allAcks = map[string]kgo.Acks{
		"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck(),
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
		if module.Path == "github.com/twmb/franz-go" {
			return map[string]string{"franz-go": module.Version}, nil
		}
	}
	return nil, errors.New("no version")
}

func options(command loop.Command) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(agent.Bootstrap), kgo.ClientID(command.Text("client", "")),
		kgo.RetryTimeout(timeout),
	}
	user, password := command.Setting("user"), command.Setting("password")
	switch command.Setting("mechanism") {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	}
	if config := command.TLS(); config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if old := command.Setting("max_version"); old != "" {
		opts = append(opts, kgo.MaxVersions(kversion.FromString(old)))
	}
	return opts
}

func openProducer(command loop.Command) (any, error) {
	codec, acks := command.Text("codec", "none"), command.Text("acks", "all")
	opts := append(options(command),
		kgo.ProducerBatchCompression(codecs[codec]), kgo.RequiredAcks(allAcks[acks]),
		kgo.ProducerLinger(20*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if id := command.Text("transactional_id", ""); id != "" {
		opts = append(opts, kgo.TransactionalID(id))
	} else if !command.Is("idempotent") {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	made, err := kgo.NewClient(opts...)
	clients[command.Text("client", "")] = &client{Client: made, codec: codec, acks: acks}
	return nil, err
}

func begin(command loop.Command) (any, error) {
	known := clients[command.Text("client", "")]
	known.transaction = command.Text("transaction", "")
	return nil, known.BeginTransaction()
}

func end(command loop.Command) (any, error) {
	known := clients[command.Text("client", "")]
	commit := kgo.TransactionEndTry(known.transaction == "committed")
	known.transaction = ""
	return nil, known.EndTransaction(context.Background(), commit)
}

func produce(command loop.Command) (any, error) {
	name := command.Text("client", "")
	known := clients[name]
	var records []loop.Record
	command.Into("records", &records)
	sent := make([]*kgo.Record, 0, len(records))
	start := time.Now().UnixNano()
	for _, record := range records {
		made := &kgo.Record{
			Topic: record.Topic, Partition: record.Partition,
			Key: loop.Bytes(record.Key), Value: loop.Bytes(record.Value),
		}
		for _, header := range record.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		sent = append(sent, made)
	}
	for _, result := range known.ProduceSync(context.Background(), sent...) {
		record := result.Record
		if result.Err != nil {
			failed(name, "produce", result.Err, record.Topic, record.Partition)
			continue
		}
		produced(name, known, record, start)
	}
	return map[string]int{"records": len(records)}, nil
}

func produced(name string, known *client, record *kgo.Record, start int64) {
	var offset any
	if known.acks != "0" {
		offset = record.Offset
	}
	var transaction any
	if known.transaction != "" {
		transaction = known.transaction
	}
	event := loop.Event{
		"topic": record.Topic, "partition": record.Partition, "offset": offset,
		"timestamp_ms": record.Timestamp.UnixMilli(), "codec": known.codec, "acks": known.acks,
		"transaction": transaction, "sent_ns": start, "acknowledged_ns": time.Now().UnixNano(),
	}
	loop.Describe(event, record.Key, record.Value, len(record.Headers))
	agent.Emit("produced", name, event)
}

func openConsumer(command loop.Command) (any, error) {
	opts := append(options(command), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	known := &client{}
	if group := command.Text("group", ""); group != "" {
		known.group = group
		opts = append(opts, kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
			kgo.Balancers(kgo.CooperativeStickyBalancer()))
		if instance := command.Setting("instance"); instance != "" {
			opts = append(opts, kgo.InstanceID(instance))
		}
	}
	if command["assign"] != nil {
		var places [][]any
		command.Into("assign", &places)
		wanted := map[string]map[int32]kgo.Offset{}
		for _, place := range places {
			topic := place[0].(string)
			if wanted[topic] == nil {
				wanted[topic] = map[int32]kgo.Offset{}
			}
			at := kgo.NewOffset().At(int64(place[2].(float64)))
			wanted[topic][int32(place[1].(float64))] = at
		}
		opts = append(opts, kgo.ConsumePartitions(wanted))
	} else {
		var topics []string
		command.Into("topics", &topics)
		opts = append(opts, kgo.ConsumeTopics(topics...))
	}
	made, err := kgo.NewClient(opts...)
	known.Client = made
	clients[command.Text("client", "")] = known
	return nil, err
}

func poll(command loop.Command) (any, error) {
	name := command.Text("client", "")
	known := clients[name]
	seconds := time.Duration(command.Number("seconds", 1) * float64(time.Second))
	until, cancel := context.WithTimeout(context.Background(), seconds)
	defer cancel()
	wanted, count := int(command.Number("records", 1<<31)), 0
	for until.Err() == nil && count < wanted {
		fetches := known.PollFetches(until)
		for _, failure := range fetches.Errors() {
			if !errors.Is(failure.Err, context.DeadlineExceeded) {
				failed(name, "poll", failure.Err, failure.Topic, failure.Partition)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			count++
			event := loop.Event{
				"group": known.group, "topic": record.Topic, "partition": record.Partition,
				"offset": record.Offset, "timestamp_ms": record.Timestamp.UnixMilli(),
			}
			loop.Describe(event, record.Key, record.Value, len(record.Headers))
			agent.Emit("consumed", name, event)
		})
	}
	return map[string]int{"records": count}, nil
}

func commit(command loop.Command) (any, error) {
	name := command.Text("client", "")
	known := clients[name]
	within, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := known.CommitUncommittedOffsets(within); err != nil {
		return nil, err
	}
	for topic, partitions := range known.CommittedOffsets() {
		for partition, committed := range partitions {
			agent.Emit("commits", name, loop.Event{
				"group": known.group, "topic": topic, "partition": partition,
				"offset": committed.Offset,
			})
		}
	}
	return nil, nil
}

func closeClient(command loop.Command) (any, error) {
	if known := clients[command.Text("client", "")]; known != nil {
		known.Close()
	}
	delete(clients, command.Text("client", ""))
	return nil, nil
}

func failed(name, operation string, failure error, topic string, partition int32) {
	var known *kerr.Error
	if errors.As(failure, &known) {
		agent.Failed(name, operation, known.Code, known.Message, topic, partition)
		return
	}
	agent.Failed(name, operation, 0, failure.Error(), topic, partition)
}
