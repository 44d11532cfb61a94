package kafka

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestSchemasOfANewTopic: a busy broker does not know for a while of a topic that was just made. The schemas are
// written once it does.
func TestSchemasOfANewTopic(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Broker(t)
	cfg := config.Default()
	cfg.Topics.Replication = 1
	var refused atomic.Int32
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.ProduceRequest)
		if refused.Add(1) > 6 { // the client gives up after five
			return nil, nil, false
		}
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.Topics {
			of := kmsg.NewProduceResponseTopic()
			of.Topic, of.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.UnknownTopicOrPartition.Code
				of.Partitions = append(of.Partitions, partition)
			}
			response.Topics = append(response.Topics, of)
		}
		return response, nil, true
	})
	cl := kafkatest.Client(t, cluster.ListenAddrs())
	if err := CreateTopics(t.Context(), cl, Topics(cfg), nil); err != nil {
		t.Fatal(err)
	}
	reader := kafkatest.Client(t, cluster.ListenAddrs(), kgo.ConsumeTopics(cfg.Prefix+schemas.TopicSchemas))
	for seen := map[string]bool{}; len(seen) < len(schemas.All()); {
		for r := range reader.PollFetches(t.Context()).RecordsAll() {
			seen[string(r.Key)] = true
		}
	}
	if refused.Load() <= 6 {
		t.Errorf("%d requests were refused", refused.Load())
	}
}
