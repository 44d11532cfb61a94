package schemas

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// The Confluent form of a value is for tools that ask a schema registry. It is a zero byte, the registry's id of the
// schema in big-endian order, and the body. The body is the same as in the single-object form, so the forms differ in
// the head alone. Nothing in weir decodes the Confluent form: package kafka translates records as they enter and leave.

// FingerprintHeader is the Kafka header of a record in the Confluent form. It contains the fingerprint of the schema,
// in the byte order of the single-object form. With it weir reads such a record without a registry.
const FingerprintHeader = "weir-schema"

const (
	confluentBytes   = 5 // zero and id
	fingerprintBytes = headerBytes - 2
)

// Fingerprint returns the fingerprint bytes of a single-object value, which alias b. It is nil for any other value.
func Fingerprint(b []byte) []byte {
	if len(b) < headerBytes || b[0] != 0xC3 || b[1] != 0x01 {
		return nil
	}
	return b[2:headerBytes:headerBytes]
}

// ToConfluent returns a single-object value in the Confluent form. The result is a copy. It is not ok for any other
// value, and for an id that no registry gives.
func ToConfluent(b []byte, id uint32) (_ []byte, ok bool) {
	if Fingerprint(b) == nil || id == 0 {
		return nil, false
	}
	to := make([]byte, confluentBytes, confluentBytes+len(b)-headerBytes)
	binary.BigEndian.PutUint32(to[1:], id)
	return append(to, b[headerBytes:]...), true
}

// FromConfluent returns a value of the Confluent form in the single-object form, by the fingerprint of its record's
// header. The result is a copy. It is not ok for any other value or header. The id is ignored: it belongs to the
// registry, which may have been set up again.
func FromConfluent(b, fingerprint []byte) (_ []byte, ok bool) {
	if len(b) < confluentBytes || b[0] != 0 || binary.BigEndian.Uint32(b[1:]) == 0 ||
		len(fingerprint) != fingerprintBytes {
		return nil, false
	}
	to := make([]byte, 0, headerBytes+len(b)-confluentBytes)
	to = append(append(to, 0xC3, 0x01), fingerprint...)
	return append(to, b[confluentBytes:]...), true
}

// Key returns the key of the schema's record in topic schemas: the fingerprint in hex, in the byte order of the
// single-object form.
func (s Schema) Key() string {
	b, err := hex.DecodeString(s.Fingerprint)
	if err != nil {
		return s.Fingerprint // no schema of ours: All writes hex
	}
	slices.Reverse(b)
	return hex.EncodeToString(b)
}

// PublicTopics returns the topics that tools outside weir read, without the prefix. Their schemas are in the registry,
// and topics.wire sets their form.
func PublicTopics() []string { return []string{TopicJobSummary, TopicFindings, TopicJobs} }

// OfTopic returns every schema ever shipped for the records of a public topic. The oldest comes first, and the one that
// records are written with comes last.
func OfTopic(topic string) []Schema {
	name := map[string]string{
		TopicJobSummary: "weir.v1.JobSummary", TopicFindings: "weir.v1.Finding", TopicJobs: "weir.v1.Job",
	}[topic]
	var all []Schema
	length := map[string]int{} // of the canonical text, from which the fingerprint is computed: it lacks documentation
	for fingerprint, e := range table.byFingerprint {
		if e.name == name {
			s := Schema{e.name, fmt.Sprintf("%016x", fingerprint), e.text}
			all, length[s.Fingerprint] = append(all, s), len(e.schema().Canonical())
		}
	}
	slices.SortFunc(all, func(a, b Schema) int { // a newer one has more fields, since none is ever removed
		return cmp.Compare(length[a.Fingerprint], length[b.Fingerprint])
	})
	return all
}
