package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
)

// tried is one operation on one resource, which a role may do or not.
type tried struct {
	kind      kmsg.ACLResourceType
	name      string // without the prefix
	operation kmsg.ACLOperation
}

func (x tried) String() string { return fmt.Sprintf("%v %v %s", x.operation, x.kind, x.name) }

// TestPermissionMatrix tries every operation on every topic, group and transactional id with the user of every role.
// Exactly the rights in kafka.Rights are granted.
func TestPermissionMatrix(t *testing.T) {
	if os.Getenv("KAFKA_SASL_SEEDS") == "" {
		t.Skip("SKIPPED: NO PERMISSION WAS TRIED, for KAFKA_SASL_SEEDS is not set: make test-kafka does")
	}
	s := systemOn(t, findBrokers(t))
	k := newKeys(s)
	topics := kafka.Topics(s.cfg)
	for _, topic := range topics { // something to read in each
		r := &kgo.Record{Topic: topic.Name, Key: []byte("k"), Value: []byte("v")}
		if err := s.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	allowed, refused := 0, 0
	for _, name := range kafka.Roles() {
		rights, err := kafka.Rights(s.cfg, name)
		if err != nil {
			t.Fatal(err)
		}
		s.grant(name, rights)
		k.setPassword(name, "first")
		as := s.cfg
		as.Kafka = k.byPassword(name)
		s.everyBrokerKnows(as)
		for what, err := range s.tryAll(as, topics[0].Name) {
			if errors.Is(err, errUndecided) {
				t.Errorf("%s: %v: neither granted nor refused: %v", name, what, err)
			} else if may := mayDo(rights, what, s.cfg.Prefix); may != (err == nil) {
				t.Errorf("%s: %v: %v, though the table says %t", name, what, err, may)
			}
			if err == nil {
				allowed++
			} else {
				refused++
			}
		}
	}
	if allowed < 80 || refused < 1000 {
		t.Errorf("%d operations were granted and %d refused: most were not tried", allowed, refused)
	}
	t.Logf("%d roles, %d topics: %d operations granted, %d refused", len(kafka.Roles()), len(topics), allowed, refused)
}

// everyBrokerKnows waits until each broker takes a user's password. Each learns of a new user by itself, and refuses the
// password until then.
func (s *system) everyBrokerKnows(as config.Config) {
	s.t.Helper()
	opts, err := kafka.ClientOpts(s.t.Context(), as)
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventually("every broker knows "+as.Kafka.SASL.User, func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		cl, err := kgo.NewClient(opts...) // a new one, whose connections are new
		if err != nil {
			s.t.Fatal(err)
		}
		defer cl.Close()
		all, err := kadm.NewClient(cl).ListBrokers(ctx)
		for _, b := range all {
			if err == nil {
				_, err = cl.Broker(int(b.NodeID)).Request(ctx, kmsg.NewPtrMetadataRequest())
			}
		}
		return err == nil
	})
}

// grant gives the user of a role its rights.
func (s *system) grant(name string, rights []kafka.Right) {
	s.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rights {
		for _, operation := range r.Operations {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType = r.Type, r.Name, r.Pattern
			c.Principal, c.Host = "User:"+s.user(name), "*"
			c.Operation, c.PermissionType = operation, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	resp, err := req.RequestWith(s.t.Context(), s.cl)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			s.t.Fatal(err)
		}
	}
}

// mayDo reports whether rights have an operation, or another one by which Kafka implies it.
func mayDo(rights []kafka.Right, what tried, prefix string) bool {
	by := map[kmsg.ACLOperation][]kmsg.ACLOperation{
		kmsg.ACLOperationDescribe: {
			kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDelete, kmsg.ACLOperationAlter,
		},
		kmsg.ACLOperationDescribeConfigs: {kmsg.ACLOperationAlterConfigs},
	}
	return slices.ContainsFunc(rights, func(r kafka.Right) bool {
		name := prefix + what.name
		fits := name == r.Name || r.Pattern == kmsg.ACLResourcePatternTypePrefixed && strings.HasPrefix(name, r.Name)
		if what.kind == kmsg.ACLResourceTypeCluster {
			fits = true // there is one
		}
		granted := slices.ContainsFunc(r.Operations, func(o kmsg.ACLOperation) bool {
			return o == what.operation || slices.Contains(by[what.operation], o)
		})
		return r.Type == what.kind && fits && granted
	})
}

// errUndecided is of an operation that failed for another reason than a missing permission.
var errUndecided = errors.New("not a matter of permissions")

// decided returns nil if the broker would have performed the request, and an error if it refused permission.
func decided(err error) error {
	switch {
	case err == nil, errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.CoordinatorNotAvailable):
		return nil
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed),
		errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return err
	}
	return fmt.Errorf("%w: %w", errUndecided, err)
}

// tryAll tries everything with a configuration's user. It writes only to topics of this test.
func (s *system) tryAll(as config.Config, some string) map[tried]error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	opts, err := kafka.ClientOpts(ctx, as)
	if err != nil {
		s.t.Fatal(err)
	}
	client := func(more ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, more...)...)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(cl.Close)
		return cl
	}
	// Without idempotence: if no topic may be written, a producer's id is a permission of the cluster.
	cl := client(kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(cl)
	done := map[tried]error{}
	note := func(kind kmsg.ACLResourceType, name string, operation kmsg.ACLOperation, err error) {
		done[tried{kind, strings.TrimPrefix(name, as.Prefix), operation}] = decided(err)
	}
	var names []string
	for _, topic := range kafka.Topics(as) {
		names = append(names, topic.Name)
	}
	topic := func(name string, operation kmsg.ACLOperation, err error) {
		note(kmsg.ACLResourceTypeTopic, name, operation, err)
	}
	s.tryTopics(ctx, cl, adm, names, topic)
	reader := client(kgo.ConsumeTopics(names...), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	s.tryReads(ctx, reader, names, topic)
	for _, group := range []string{"balance", "collect", "merge", "find", "reader-x", "other"} {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID = as.Prefix+group, "nobody"
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		note(kmsg.ACLResourceTypeGroup, group, kmsg.ACLOperationRead, err)
	}
	for _, id := range []string{"balance", "collect-1", "merge-1", "find-1", "other"} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = new(as.Prefix+id), 1000
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		note(kmsg.ACLResourceTypeTransactionalId, id, kmsg.ACLOperationWrite, err)
	}
	list := kmsg.NewPtrDescribeACLsRequest()
	list.ResourceType, list.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	list.Operation, list.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	all, err := list.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(all.ErrorCode)
	}
	note(kmsg.ACLResourceTypeCluster, "cluster", kmsg.ACLOperationDescribe, err)
	remove, none := kmsg.NewPtrDeleteACLsRequest(), kmsg.NewDeleteACLsRequestFilter()
	none.ResourceType, none.ResourceName = kmsg.ACLResourceTypeTopic, new(some+"-none")
	none.ResourcePatternType, none.Operation = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationAny
	none.PermissionType = kmsg.ACLPermissionTypeAny
	remove.Filters = append(remove.Filters, none)
	removed, err := remove.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(removed.Results[0].ErrorCode)
	}
	note(kmsg.ACLResourceTypeCluster, "cluster", kmsg.ACLOperationAlter, err)
	return done
}

// tryTopics tries everything except reading, topic by topic: if kadm may not ask for one topic, it returns no answer
// for the others.
func (s *system) tryTopics(
	ctx context.Context, cl *kgo.Client, adm *kadm.Client, names []string,
	note func(name string, operation kmsg.ACLOperation, err error),
) {
	s.t.Helper()
	value := "1048588"
	larger := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &value}}
	for _, name := range names {
		listed, err := adm.ListTopics(ctx, name)
		if err == nil {
			err = listed[name].Err
		}
		note(name, kmsg.ACLOperationDescribe, err)
		if err == nil { // without metadata nothing is produced
			err = cl.ProduceSync(ctx, &kgo.Record{Topic: name, Key: []byte("k"), Value: []byte("v")}).FirstErr()
		}
		note(name, kmsg.ACLOperationWrite, err)

		described, err := adm.DescribeTopicConfigs(ctx, name)
		if err == nil {
			_, err = described.On(name, func(r *kadm.ResourceConfig) error { return r.Err })
		}
		note(name, kmsg.ACLOperationDescribeConfigs, err)
		altered, err := adm.ValidateAlterTopicConfigs(ctx, larger, name)
		if err == nil {
			_, err = altered.On(name, func(r *kadm.AlterConfigsResponse) error { return r.Err })
		}
		note(name, kmsg.ACLOperationAlterConfigs, err)
		created, err := adm.ValidateCreateTopics(ctx, 1, 1, nil, name)
		if err == nil {
			err = created[name].Err
		}
		if errors.Is(err, kerr.TopicAlreadyExists) { // who may create it learns that
			err = nil
		}
		note(name, kmsg.ACLOperationCreate, err)
		grown, err := adm.ValidateCreatePartitions(ctx, 1, name)
		if err == nil {
			err = grown[name].Err
		}
		note(name, kmsg.ACLOperationAlter, err)

		before := kadm.Offsets{}
		before.AddOffset(name, 0, 0, -1) // nothing is before the first
		deleted, err := adm.DeleteRecords(ctx, before)
		if err == nil {
			if d, ok := deleted.Lookup(name, 0); ok {
				err = d.Err
			}
		}
		note(name, kmsg.ACLOperationDelete, err)
	}
}

// tryReads reads until each topic has given a record or an error.
func (s *system) tryReads(
	ctx context.Context, cl *kgo.Client, names []string,
	note func(name string, operation kmsg.ACLOperation, err error),
) {
	s.t.Helper()
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	for len(left) > 0 && ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if left[e.Topic] {
				note(e.Topic, kmsg.ACLOperationRead, e.Err)
				delete(left, e.Topic)
			}
		}
		for r := range fetches.RecordsAll() {
			if left[r.Topic] {
				note(r.Topic, kmsg.ACLOperationRead, nil)
				delete(left, r.Topic)
			}
		}
	}
	for name := range left {
		note(name, kmsg.ACLOperationRead, errUndecided)
	}
}
