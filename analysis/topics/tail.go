package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

// TailRecord is any record of any topic, readable.
type TailRecord struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Timestamp int64           `json:"timestamp"` // milliseconds
	Key       *string         `json:"key"`
	Schema    *string         `json:"schema"` // full name; null if the value is no record
	Value     json.RawMessage `json:"value"`
	Error     string          `json:"error,omitempty"` // why the value cannot be shown

	record []byte // as it came, for Text
}

// Tail calls each with the committed records of a topic, as they come, until each returns false, ctx ends or the
// brokers are gone. The topic may be named with or without the prefix.
func Tail(
	ctx context.Context, cfg config.Config, topic string, fromStart bool, each func(r TailRecord) bool,
) (err error) {
	defer func() { err = kafka.Explain(cfg.Kafka, err) }()
	topic = topicName(cfg.Prefix, topic)
	from := kgo.NewOffset().AtEnd()
	if fromStart {
		from = kgo.NewOffset().AtStart()
	}
	brokers := kafka.NewBrokers(slog.New(slog.DiscardHandler))
	cl, err := Connect(ctx, cfg, kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(from), kgo.ConsumeResetOffset(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.WithHooks(brokers))
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer cl.Close()
	details, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("listing %s: %w", topic, err)
	}
	if err := absent(cfg, topic, details[topic]); err != nil {
		return err
	}
	for {
		poll, cancel := context.WithTimeout(ctx, pingTimeout)
		fetches := cl.PollRecords(poll, 1000)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return fmt.Errorf("reading %s: %w", topic, e.Err)
			}
		}
		if fetches.NumRecords() == 0 && brokers.Away() { // the client would retry for ever, without an error
			return fmt.Errorf("reading %s: %w any more at %v", topic, errUnreachable, cfg.Kafka.Brokers)
		}
		for r := range fetches.RecordsAll() {
			if !each(recordOf(r)) {
				return nil
			}
		}
	}
}

// topicName is the full name of a topic that is given with or without the prefix. The name itself may begin like the
// prefix: job-summary does, with the prefix job-.
func topicName(prefix, given string) string {
	if strings.HasPrefix(given, prefix) && !slices.Contains(topicNames(), given) {
		return given
	}
	return prefix + given
}

// recordOf shows any record, even one that weir cannot decode: administrators use tail to find faults.
func recordOf(r *kgo.Record) TailRecord {
	t := TailRecord{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	if r.Key != nil {
		key := string(r.Key)
		t.Key = &key
	}
	if r.Value == nil {
		return t
	}
	name, value, err := second.JSON(r.Value)
	switch {
	case err == nil:
		t.Schema, t.Value, t.record = &name, value, r.Value
	case errors.Is(err, schemas.ErrNotSingleObject) && json.Valid(r.Value): // the topic of schemas holds their text
		var line bytes.Buffer
		if err := json.Compact(&line, r.Value); err == nil {
			t.Value = line.Bytes()
		}
	default:
		t.Error = err.Error()
	}
	return t
}

// shownHead is the number of bytes that Text shows of a Reject's head.
const shownHead = 24

// Text returns the value on one printable line: a summary, a finding or a job in words, any other record as JSON. A
// Reject's head is cut to its first bytes, in hex.
func (t *TailRecord) Text() string {
	if record, err := schemas.Unmarshal(t.record); err == nil {
		if text, ok := readable(record); ok {
			return schemas.Printable(text)
		}
	}
	switch {
	case t.Error != "":
		return schemas.Printable("(" + t.Error + ")")
	case t.Schema == nil || *t.Schema != "weir.v1.Reject":
		return schemas.Printable(string(t.Value))
	}
	var fields map[string]json.RawMessage
	var head []byte
	if json.Unmarshal(t.Value, &fields) != nil || json.Unmarshal(fields["head"], &head) != nil {
		return schemas.Printable(string(t.Value))
	}
	short := fmt.Sprintf("%x", head)
	if len(head) > shownHead {
		short = fmt.Sprintf("%x... of %d bytes", head[:shownHead], len(head))
	}
	fields["head"], _ = json.Marshal(short) // a string is always JSON
	text, _ := json.Marshal(fields)         // they are JSON
	return schemas.Printable(string(text))
}
