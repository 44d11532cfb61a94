package kafkatest

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Depose cuts a broker from its peers for one topic, as clients see it. The broker's state is frozen: it knows no new
// leader, and returns the old offsets of the partitions that it leads. The partitions move to another broker. The
// returned function heals the cut.
func Depose(t testing.TB, cluster *kfake.Cluster, topic string, broker, successor int32) (heal func()) {
	t.Helper()
	addresses, info, before := cluster.ListenAddrs(), cluster.TopicInfo(topic), cluster.PartitionInfos(topic)
	var healed atomic.Bool
	cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.MetadataRequest)
		if !ok || healed.Load() || cluster.CurrentNode() != broker {
			return nil, nil, false
		}
		cluster.KeepControl()
		return oldMetadata(req, addresses, info, before), nil, true
	})
	cluster.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.ListOffsetsRequest)
		if !ok || healed.Load() || cluster.CurrentNode() != broker ||
			len(req.Topics) != 1 || req.Topics[0].Topic != topic {
			return nil, nil, false
		}
		cluster.KeepControl()
		return oldOffsets(req, broker, before), nil, true
	})
	for _, p := range before {
		if p.Leader != broker {
			continue
		}
		if err := cluster.MoveTopicPartition(topic, p.Partition, successor); err != nil {
			t.Fatal(err)
		}
	}
	return func() { healed.Store(true) }
}

func oldMetadata(
	req *kmsg.MetadataRequest, addresses []string, info *kfake.TopicInfo, before []*kfake.PartitionInfo,
) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse) //nolint:forcetypeassert // the kind of its request
	var all []int32
	for i, a := range addresses {
		host, port, _ := net.SplitHostPort(a)
		number, _ := strconv.Atoi(port)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = int32(i), host, int32(number)
		resp.Brokers, all = append(resp.Brokers, b), append(all, b.NodeID)
	}
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = &info.Topic, info.TopicID
	for _, p := range before {
		of := kmsg.NewMetadataResponseTopicPartition()
		of.Partition, of.Leader, of.LeaderEpoch, of.Replicas, of.ISR = p.Partition, p.Leader, p.Epoch, all, all
		t.Partitions = append(t.Partitions, of)
	}
	resp.Topics = append(resp.Topics, t)
	return resp
}

func oldOffsets(req *kmsg.ListOffsetsRequest, broker int32, before []*kfake.PartitionInfo) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse) //nolint:forcetypeassert // the kind of its request
	t := kmsg.NewListOffsetsResponseTopic()
	t.Topic = req.Topics[0].Topic
	for _, asked := range req.Topics[0].Partitions {
		of := kmsg.NewListOffsetsResponseTopicPartition()
		of.Partition = asked.Partition
		p := before[asked.Partition]
		switch {
		case p.Leader != broker:
			of.ErrorCode = kerr.NotLeaderForPartition.Code
		case asked.CurrentLeaderEpoch > p.Epoch:
			of.ErrorCode = kerr.UnknownLeaderEpoch.Code
		case asked.Timestamp == -2:
			of.Offset, of.LeaderEpoch = p.LogStartOffset, p.Epoch
		case req.IsolationLevel == 1:
			of.Offset, of.LeaderEpoch = p.LastStableOffset, p.Epoch
		default:
			of.Offset, of.LeaderEpoch = p.HighWatermark, p.Epoch
		}
		t.Partitions = append(t.Partitions, of)
	}
	resp.Topics = append(resp.Topics, t)
	return resp
}
