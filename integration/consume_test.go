package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestConsumeFailsLoudly: the README's reader ends with an error if a right is missing or a schema is unknown. Before
// that it prints records of both forms.
func TestConsumeFailsLoudly(t *testing.T) {
	withoutBrokers(t)
	modules := outsidePython(t.Context(), t, "-c", "import confluent_kafka, fastavro")
	if out, err := modules.CombinedOutput(); err != nil {
		withoutModules(t, "THE README'S READER DID NOT RUN", strings.TrimSpace(string(out))+" "+err.Error())
	}
	const job, known, group = "weir.job-summary", "weir.schemas", "weir.reader-me"
	for name, tc := range map[string]struct {
		denied []string
		says   string
	}{
		"no right on the topic":   {[]string{job}, "Topic authorization failed"},
		"no right on the schemas": {[]string{known}, "Topic authorization failed"},
		"no right on the group":   {[]string{group}, "Group authorization failed"},
		"an unknown schema":       {nil, "unknown schema 0102030405060708: weir topics create"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It begins here: waiting for a turn takes no time of it.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			cluster := kafkatest.Broker(t, kfake.SeedTopics(1, job, known), kfake.EnableACLs(),
				kfake.User("PLAIN", "ANONYMOUS", "", rightsBut(tc.denied, job, known, group)...))
			if slices.Contains(tc.denied, known) {
				denyFetch(cluster, known)
			}
			cl := kafkatest.Client(t, cluster.ListenAddrs())
			for _, s := range schemas.OfTopic(schemas.TopicJobSummary) {
				produce(t, cl, &kgo.Record{Topic: known, Key: []byte(s.Key()), Value: []byte(s.Text)})
			}
			cmd := outsidePython(ctx, t, "examples/consume.py", cluster.ListenAddrs()[0])
			cmd.Dir = ".."
			out := new(kafkatest.Log)
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var err error
			for waiting := true; waiting; { // the reader begins at the end of the topic
				for _, r := range bothForms(t) {
					produce(t, cl, r)
				}
				select {
				case err = <-ended:
					waiting = false
				case <-time.After(time.Second):
				}
				if tc.denied == nil && printed(out, "inForm1", "inForm2") { // it may begin between
					produce(t, cl, &kgo.Record{Topic: job, Value: []byte("\xc3\x01\x01\x02\x03\x04\x05\x06\x07\x08")})
				}
			}
			if err == nil || !strings.Contains(out.String(), tc.says) {
				t.Errorf("it ends with %v: %s", err, out)
			}
			if tc.denied == nil && !printed(out, "inForm1", "inForm2") {
				t.Errorf("it has printed %s", out)
			}
		})
	}
}

func printed(out *kafkatest.Log, words ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return out.Count(word) == 0 })
}

// denyFetch answers fetches of a topic as a broker does that denies Read. The embedded one does not look at that.
func denyFetch(cluster *kfake.Cluster, topic string) {
	id := cluster.TopicInfo(topic).TopicID
	cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		request := r.(*kmsg.FetchRequest)
		response := request.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range request.Topics {
			if t.Topic != topic && t.TopicID != id {
				return nil, nil, false
			}
			of := kmsg.NewFetchResponseTopic()
			of.Topic, of.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewFetchResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				partition.RecordBatches, partition.HighWatermark = []byte{}, -1
				of.Partitions = append(of.Partitions, partition)
			}
			response.Topics = append(response.Topics, of)
		}
		return response, nil, len(request.Topics) > 0
	})
}

// rightsBut returns the rights of a reader, and of the test that writes, without the right to read the denied names.
func rightsBut(denied []string, names ...string) (rights []kfake.ACL) {
	for _, name := range names {
		kind := kmsg.ACLResourceTypeTopic
		if strings.HasPrefix(name, "weir.reader-") {
			kind = kmsg.ACLResourceTypeGroup
		}
		for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationRead} {
			if op == kmsg.ACLOperationRead && slices.Contains(denied, name) {
				continue
			}
			rights = append(rights, kfake.ACL{
				Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true,
			})
		}
	}
	return rights
}

// bothForms are a summary of job inForm1 in the single-object form, and one of inForm2 in the Confluent form.
func bothForms(t *testing.T) []*kgo.Record {
	t.Helper()
	var values [2][]byte
	for i := range values {
		var err error
		values[i], err = schemas.Marshal(&schemas.JobSummary{
			Cluster: "c", JobID: "inForm" + string(rune('1'+i)), IntervalMs: 1000, Method: schemas.MethodNode,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	confluent, _ := schemas.ToConfluent(values[1], 7)
	return []*kgo.Record{{Topic: "weir.job-summary", Value: values[0]}, {
		Topic: "weir.job-summary", Value: confluent,
		Headers: []kgo.RecordHeader{{Key: "weir-schema", Value: schemas.Fingerprint(values[1])}},
	}}
}

func produce(t *testing.T, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
