package producers

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxTries is how often a record may fail for a reason of no known kind before it is given up.
const maxTries = 5

var (
	// errEncoding is returned when a record cannot be written as its schema says.
	errEncoding = errors.New("record cannot be encoded")
	// errNoPartition is returned when a route names a partition that the topic does not have.
	errNoPartition = errors.New("no such partition")
)

// fate is what becomes of a record that was handed over.
type fate int

const (
	delivered fate = iota // acknowledged
	kept                  // not now: back into the ring
	again                 // the same, for a reason that is not known: not for ever
	refused               // never: lost, and told in a Gap
)

// fateOf decides by the client's verdict. The client itself repeats what can be repeated, without end; what it gives
// back is final for this record, unless it says that we may not write (which an administrator can change), that the
// client's own identity is worn out (which it renews), or that the client is full or closing.
func fateOf(err error, tries int) fate {
	var broker *kerr.Error
	switch {
	case err == nil:
		return delivered
	case errors.Is(err, errEncoding), errors.Is(err, errNoPartition):
		return refused
	case errors.Is(err, kgo.ErrMaxBuffered), errors.Is(err, kgo.ErrClientClosed), errors.Is(err, kgo.ErrAborting),
		errors.Is(err, context.Canceled):
		return kept
	case !errors.As(err, &broker):
		if tries < maxTries {
			return again
		}
		return refused
	}
	switch broker {
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.IllegalSaslState,
		kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID,
		kerr.InvalidProducerIDMapping:
		return kept
	}
	if broker.Retriable {
		return kept
	}
	return refused
}

// reasonOf is how a Gap names why a record was refused.
func reasonOf(err error) string {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return broker.Message
	}
	return fmt.Sprintf("%.100s", err.Error())
}
