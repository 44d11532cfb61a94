package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/find"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

// TestWire switches a running system to the Confluent form, with a registry that answers nobody meanwhile. The archive
// and find must not notice. Then tools that know the registry alone read every record of that form.
//
// REGISTRY_URL names a real registry in place of the one in this process.
func TestWire(t *testing.T) {
	withoutBrokers(t)
	s := newSystem(t)
	s.cfg.Balance.LMax = simulated // fewer shares, since merge is not tested here
	registry := registryFor(t, s)
	ids, err := kafka.RegisterSchemas(t.Context(), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := kafka.CreateTopics(t.Context(), s.cl, kafka.Topics(s.cfg), ids); err != nil {
		t.Fatal(err)
	}
	registry.stop()
	sinkPart, nodes := s.startSink(), s.startNodes()
	var writers []*part
	for i, wire := range []string{config.WireSingleObject, config.WireConfluent} {
		for _, p := range writers {
			p.stop()
		}
		w := *s
		w.cfg.Topics.Wire = wire
		if w.cfg, err = kafka.WithRegistryIDs(t.Context(), w.cfg); err != nil {
			t.Fatal(err)
		}
		writers = []*part{w.startCollect(), w.startMerge(), w.startFind(t), w.startBalancer()}
		s.eventually("records of each public topic in the form "+wire, func() bool {
			return s.inForm(schemas.TopicJobSummary, i) > 20 && s.inForm(schemas.TopicFindings, i) > 0 &&
				s.inForm(schemas.TopicJobs, i) > 0
		})
	}
	nodes.stop()
	s.awaitTicks(s.newest())
	for _, p := range slices.Backward(writers) {
		p.stop()
	}
	s.endSink(sinkPart)

	summaries, _ := s.summaries()
	if rows := s.judgeArchive(summaries); rows == 0 {
		t.Error("the archive has no rows")
	}
	if n := s.said.Count("record cannot be used"); n > 0 {
		t.Errorf("find passed over records %d times", n)
	}
	if n := registry.asked(); n > 0 {
		t.Errorf("the registry was asked %d times while services ran", n)
	}
	registry.start()
	t.Run("by sr.Serde", func(t *testing.T) { s.readBySerde(t) })
	t.Run("by AvroDeserializer", func(t *testing.T) { s.readByPython(t) })
}

// registryOf is a registry that can be stopped. It then counts the requests that it gets.
type registryOf struct {
	stop, start func()
	asked       func() int64
}

// registryFor starts a registry for a system. A registry of REGISTRY_URL is never stopped.
func registryFor(t *testing.T, s *system) registryOf {
	t.Helper()
	if url := os.Getenv("REGISTRY_URL"); url != "" {
		s.cfg.Registry.URL = url
		return registryOf{func() {}, func() {}, func() int64 { return 0 }}
	}
	r := srfake.New()
	t.Cleanup(r.Close)
	s.cfg.Registry.URL = r.URL()
	var asked atomic.Int64
	return registryOf{
		stop: func() {
			r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				asked.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
		},
		start: r.ClearInterceptors,
		asked: asked.Load,
	}
}

func (s *system) startFind(t *testing.T) *part {
	t.Helper()
	var known []rules.Known
	for _, m := range source.Catalogue(s.cfg.Agent) {
		known = append(known, rules.Known{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
	}
	set, err := rules.Compile(known, nil, rules.Source{Name: "chaos", Text: []byte(chaosRules)})
	if err != nil {
		t.Fatal(err)
	}
	return s.start("find", func(ctx context.Context) error {
		return find.Run(ctx, s.cfg, s.log, processors.NewMetrics(prometheus.NewRegistry()), set)
	})
}

// raw returns the committed records of a topic as they are, with no hook of weir's, in the order of read.
func (s *system) raw(topic string) (records []*kgo.Record) {
	s.t.Helper()
	bare := kafkatest.Client(s.t, s.cfg.Kafka.Brokers, kafka.ReaderOpts()...)
	defer bare.Close()
	bounds, err := kafka.TopicBounds(s.t.Context(), kadm.NewClient(bare), s.cfg.Prefix+topic)
	if err != nil {
		s.t.Fatal(err)
	}
	err = kafka.ReadRanges(s.t.Context(), bare, s.cfg.Prefix+topic, bounds, func(r *kgo.Record) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records
}

// inForm counts the records of a topic in a form: 0 for the single-object one, 1 for the Confluent one.
func (s *system) inForm(topic string, form int) (n int) {
	for _, r := range s.raw(topic) {
		if len(r.Value) > 0 && r.Value[0] == []byte{0xC3, 0}[form] {
			n++
		}
	}
	return n
}

// readBySerde reads all records of the Confluent form by the registry's ids, and compares them with weir's decoding.
func (s *system) readBySerde(t *testing.T) {
	t.Helper()
	cl, err := sr.NewClient(sr.URLs(s.cfg.Registry.URL))
	if err != nil {
		t.Fatal(err)
	}
	serde := sr.NewSerde()
	known := map[int]bool{}
	for _, topic := range schemas.PublicTopics() {
		read, confluent := s.read(topic), 0
		for i, r := range s.raw(topic) {
			if len(r.Value) == 0 || r.Value[0] != 0 {
				continue
			}
			confluent++
			id, _, err := serde.DecodeID(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !known[id] {
				known[id] = true
				serde.Register(id, (*any)(nil), sr.DecodeFn(decoderOf(t, cl, id)))
			}
			var record schemas.Record
			if err := serde.Decode(r.Value, &record); err != nil {
				t.Fatalf("%s at %d: %v", topic, r.Offset, err)
			}
			want, err := schemas.Unmarshal(read[i].Value)
			if err != nil || read[i].Offset != r.Offset || !reflect.DeepEqual(record, want) {
				t.Fatalf("%s at %d is %+v, to weir %+v at %d: %v", topic, r.Offset, record, want, read[i].Offset, err)
			}
		}
		if confluent == 0 {
			t.Errorf("%s has no record in the Confluent form", topic)
		}
		t.Logf("%s: %d records in the Confluent form of %d", topic, confluent, len(read))
	}
}

// decoderOf returns a decoder for bodies by the schema that the registry holds under an id. The header of the record is
// not used.
func decoderOf(t *testing.T, cl *sr.Client, id int) func(body []byte, into any) error {
	t.Helper()
	found, err := cl.SchemaByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	all := schemas.All()
	at := slices.IndexFunc(all, func(s schemas.Schema) bool { return s.Text == found.Schema })
	if at < 0 {
		t.Fatalf("the registry has another schema under id %d: %s", id, found.Schema)
	}
	fingerprint, err := hex.DecodeString(all[at].Key())
	if err != nil {
		t.Fatal(err)
	}
	return func(body []byte, into any) (err error) {
		*into.(*schemas.Record), err = schemas.Unmarshal(slices.Concat([]byte{0xC3, 1}, fingerprint, body))
		return err
	}
}

// readByPython lets Confluent's own client read all records of the Confluent form.
func (s *system) readByPython(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	module := outsidePython(ctx, t, "-c", "import confluent_kafka.schema_registry.avro")
	if out, err := module.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		withoutModules(t, "THE CONFLUENT FORM WAS NOT READ BY CONFLUENT'S CLIENT", lines[len(lines)-1])
	}
	args := []string{"outside/registry.py", strings.Join(s.cfg.Kafka.Brokers, ","), s.cfg.Registry.URL}
	for _, topic := range schemas.PublicTopics() {
		args = append(args, s.cfg.Prefix+topic)
	}
	cmd := outsidePython(ctx, t, args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	type line struct {
		Topic     string
		Partition int32
		Offset    int64
		Value     map[string]any
		Other     *int
	}
	got, other := map[string]map[string]any{}, map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Other != nil {
			other[l.Topic] = *l.Other
			continue
		}
		got[fmt.Sprint(l.Topic, l.Partition, l.Offset)] = l.Value
	}
	for _, topic := range schemas.PublicTopics() {
		read, singles := s.read(topic), 0
		for i, r := range s.raw(topic) {
			switch {
			case len(r.Value) == 0:
				continue
			case r.Value[0] != 0:
				singles++
				continue
			}
			key := fmt.Sprint(r.Topic, r.Partition, r.Offset)
			s.compareValue(t, key, got[key], read[i].Value)
			delete(got, key)
		}
		if other[s.cfg.Prefix+topic] != singles {
			t.Errorf("%s: %d records in another form, want %d", topic, other[s.cfg.Prefix+topic], singles)
		}
	}
	if len(got) > 0 {
		t.Errorf("%d records that are not there", len(got))
	}
}

// compareValue compares Python's decoding of a record with weir's.
func (s *system) compareValue(t *testing.T, at string, got map[string]any, value []byte) {
	t.Helper()
	_, text, err := second.JSON(value)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	names, deciles := []any{}, []any{}
	metrics, _ := want["metrics"].([]any)
	for _, m := range metrics {
		names, deciles = append(names, m.(map[string]any)["name"]), append(deciles, m.(map[string]any)["deciles"])
	}
	for name, v := range want {
		switch v.(type) {
		case []any, map[string]any:
			delete(want, name)
		}
	}
	want["metrics"], want["deciles"] = names, deciles
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: AvroDeserializer reads %v, want %v", at, got, want)
	}
}
