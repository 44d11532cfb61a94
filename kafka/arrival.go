package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// StampArrival makes an embedded broker give records its own time if their topic asks for LogAppendTime. Otherwise the
// broker, kfake, would keep the producer's time, and no clock could be checked against another.
func StampArrival(cluster *kfake.Cluster) {
	stamps := map[[16]byte]bool{} // by topic; one request is controlled at a time
	byArrival := func(t *kmsg.ProduceRequestTopic) bool {
		id := t.TopicID
		if t.Topic != "" { // a request of an older version
			info := cluster.TopicInfo(t.Topic)
			if info == nil {
				return false
			}
			id = info.TopicID
		}
		if known, ok := stamps[id]; ok {
			return known
		}
		info := cluster.TopicIDInfo(id)
		if info == nil {
			return false
		}
		kind := info.Configs["message.timestamp.type"]
		stamps[id] = kind != nil && *kind == "LogAppendTime"
		return stamps[id]
	}
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		for i := range req.Topics {
			if !byArrival(&req.Topics[i]) {
				continue
			}
			for _, p := range req.Topics[i].Partitions {
				stampBatch(p.Records, time.Now().UnixMilli())
			}
		}
		return nil, nil, false // kfake continues with the changed request
	})
}

// Positions of the fields in a record batch of the second format. The checksum covers everything behind it.
const (
	atMagic, atChecksum, atAttributes, atFirstTime, atMaxTime = 16, 17, 21, 27, 35
	batchHeader                                               = 61
)

// stampBatch moves the times of a batch so that its latest record bears the time of arrival. The distances between the
// records stay. It leaves a damaged batch as it is: the broker refuses it.
func stampBatch(batch []byte, nowMs int64) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	if len(batch) < batchHeader || batch[atMagic] != 2 ||
		binary.BigEndian.Uint32(batch[atChecksum:]) != crc32.Checksum(batch[atAttributes:], castagnoli) {
		return
	}
	field := func(at int) int64 { return int64(binary.BigEndian.Uint64(batch[at:])) }
	first, last := field(atFirstTime), field(atMaxTime)
	binary.BigEndian.PutUint64(batch[atFirstTime:], uint64(nowMs-(last-first)))
	binary.BigEndian.PutUint64(batch[atMaxTime:], uint64(nowMs))
	binary.BigEndian.PutUint32(batch[atChecksum:], crc32.Checksum(batch[atAttributes:], castagnoli))
}
