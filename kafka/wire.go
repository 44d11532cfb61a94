package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// The two forms of values (topics.wire). The code of weir handles only the single-object form. Hooks of the client
// translate: one hook as records are fetched, the other as they are produced. So both forms may occur in one topic, and
// bytes can be compared.

// idHeader is the header of a record of topic schemas with the registry's id of the schema.
const idHeader = "registry-id"

// publicTopics returns the full names of the topics in which the Confluent form may be.
func publicTopics(prefix string) map[string]bool {
	public := map[string]bool{}
	for _, name := range schemas.PublicTopics() {
		public[prefix+name] = true
	}
	return public
}

// fromConfluent gives fetched values of public topics the single-object form. A value in neither form stays as it is,
// for its reader to refuse.
type fromConfluent struct{ public map[string]bool }

// OnFetchRecordBuffered implements kgo.HookFetchRecordBuffered.
func (h fromConfluent) OnFetchRecordBuffered(r *kgo.Record) {
	if len(r.Headers) == 0 || !h.public[r.Topic] {
		return
	}
	for _, header := range r.Headers {
		if header.Key != schemas.FingerprintHeader {
			continue
		}
		if value, ok := schemas.FromConfluent(r.Value, header.Value); ok {
			r.Value = value
		}
		return
	}
}

// toConfluent gives values of public topics the Confluent form as they are produced. It leaves the caller's bytes as
// they are, because the balancer keeps some to compare with.
type toConfluent struct {
	public map[string]bool
	ids    map[string]uint32 // by fingerprint
}

// newToConfluent returns an error if an id is missing, so that no record in another form is ever written.
func newToConfluent(cfg config.Config) (toConfluent, error) {
	h := toConfluent{publicTopics(cfg.Prefix), map[string]uint32{}}
	for _, topic := range schemas.PublicTopics() {
		all := schemas.OfTopic(topic)
		written := all[len(all)-1]
		id := cfg.Topics.RegistryIDs[written.Key()]
		if id == 0 {
			return h, fmt.Errorf("%w: topics.wire is %s, and topic %s has no registry's id of schema %s %s: "+
				"run `weir topics create` with registry.url", ErrTopics, config.WireConfluent,
				cfg.Prefix+schemas.TopicSchemas, written.Name, written.Key())
		}
		h.ids[written.Key()] = id
	}
	return h, nil
}

// OnProduceRecordBuffered implements kgo.HookProduceRecordBuffered.
func (h toConfluent) OnProduceRecordBuffered(r *kgo.Record) {
	if !h.public[r.Topic] {
		return
	}
	fingerprint := schemas.Fingerprint(r.Value)
	if value, ok := schemas.ToConfluent(r.Value, h.ids[hex.EncodeToString(fingerprint)]); ok {
		named := kgo.RecordHeader{Key: schemas.FingerprintHeader, Value: slices.Clone(fingerprint)}
		r.Headers, r.Value = append(r.Headers, named), value
	}
}

// WithRegistryIDs returns cfg with the registry's ids from topic schemas, if topics.wire needs them. Producers of the
// public topics need these. The registry itself may be down. Errors wrap ErrTopics if an id is missing.
func WithRegistryIDs(ctx context.Context, cfg config.Config) (config.Config, error) {
	if cfg.Topics.Wire != config.WireConfluent {
		return cfg, nil
	}
	ids, err := ReadRegistryIDs(ctx, cfg)
	if err != nil {
		return cfg, err
	}
	cfg.Topics.RegistryIDs = ids
	_, err = newToConfluent(cfg)
	return cfg, err
}

// ReadRegistryIDs returns the registry's ids from topic schemas, by the keys of its records. It returns none if the
// topic does not exist.
func ReadRegistryIDs(ctx context.Context, cfg config.Config) (map[string]uint32, error) {
	cl, err := NewReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ids, topic := map[string]uint32{}, cfg.Prefix+schemas.TopicSchemas
	start, end, err := Bounds(ctx, kadm.NewClient(cl), topic, 0)
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, ErrNoPartition) {
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	err = ReadRanges(ctx, cl, topic, map[int32]Range{0: {start, end}}, func(r *kgo.Record) error {
		delete(ids, string(r.Key)) // the last record of a key counts
		for _, h := range r.Headers {
			if h.Key != idHeader {
				continue
			}
			id, err := strconv.ParseUint(string(h.Value), 10, 31)
			if err != nil || id == 0 {
				return fmt.Errorf("header %s of key %.40q is %.40q, no registry's id: run `weir topics create`",
					idHeader, r.Key, h.Value)
			}
			ids[string(r.Key)] = uint32(id)
		}
		return nil
	})
	return ids, err
}
