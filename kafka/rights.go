package kafka

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Right is a permission of a role on one resource: an entry of Kafka's access control list.
type Right struct {
	Type       kmsg.ACLResourceType        `json:"resource_type"`
	Name       string                      `json:"resource_name"`
	Pattern    kmsg.ACLResourcePatternType `json:"pattern_type"`
	Operations []kmsg.ACLOperation         `json:"operations"`
}

// OperationName returns the name of an operation in Kafka's tools, such as DescribeConfigs.
func OperationName(o kmsg.ACLOperation) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.ToLower(o.String()), "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// A role is a principal of Kafka. A process works with the rights of its role, and fails if one of them is missing.
type role struct {
	name         string
	write, read  []string // topics
	describe     []string // topics that are neither written nor read
	transactions string   // transactional ids; a star at the end stands for any suffix
	group        string   // consumer group of the role, likewise
	look         []string // groups that the role only describes
}

// roles is the table of all roles but topics. A topic that a role needs for an option is listed only if the
// configuration sets that option.
func roles(cfg config.Config) []role {
	table := append(services(cfg), readers()...)
	if cfg.Topics.Wire == config.WireConfluent { // writers of public topics look up the ids of the registry
		for i := range table {
			if writesPublic(table[i].write) {
				table[i].read = append(table[i].read, schemas.TopicSchemas)
			}
		}
	}
	return table
}

func services(cfg config.Config) []role {
	agent := role{
		name: "agent", write: []string{schemas.TopicCounters, schemas.TopicFacts}, read: []string{schemas.TopicRoutes},
	}
	balance := role{
		name:  "balance",
		write: []string{schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicJobs, schemas.TopicBalance},
		read:  []string{schemas.TopicRoutes, schemas.TopicJobs, schemas.TopicBalance, schemas.TopicProgress},
		group: "balance", transactions: "balance",
	}
	if cfg.Triggered() {
		agent.read = append(agent.read, schemas.TopicTriggers)
		balance.write = append(balance.write, schemas.TopicTriggers)
	}
	if cfg.Agent.Topology.Enabled {
		agent.read = append(agent.read, schemas.TopicOrders)
	}
	return []role{
		agent, balance,
		{
			name: "collect",
			write: []string{
				schemas.TopicPartials, schemas.TopicJobSummary, schemas.TopicRejects, schemas.TopicProgress,
			},
			read: []string{schemas.TopicCounters, schemas.TopicProgress}, group: "collect", transactions: "collect-*",
		},
		{
			name:  "merge",
			write: []string{schemas.TopicJobSummary, schemas.TopicRejects, schemas.TopicMergeProgress},
			read:  []string{schemas.TopicPartials, schemas.TopicMergeProgress}, group: "merge", transactions: "merge-*",
		},
		{
			name:  "find",
			write: []string{schemas.TopicFindings, schemas.TopicFindProgress, schemas.TopicFindState},
			read: []string{
				schemas.TopicJobSummary, schemas.TopicJobs, schemas.TopicProgress, schemas.TopicMergeProgress,
				schemas.TopicFindProgress, schemas.TopicFindState, schemas.TopicFacts,
			},
			group: "find", transactions: "find-*",
		},
		{
			name: "notify", write: []string{schemas.TopicNotices},
			read:  []string{schemas.TopicFindings, schemas.TopicJobs, schemas.TopicFacts, schemas.TopicNotices},
			group: "notices", transactions: "notices",
		},
		{name: "sink", read: []string{schemas.TopicJobSummary, schemas.TopicJobs, schemas.TopicFindings}},
	}
}

// readers are the roles that only read, and the role that orders measurements.
func readers() []role {
	return []role{
		{
			name:     "archive-totals",
			read:     []string{schemas.TopicProgress, schemas.TopicMergeProgress, schemas.TopicJobSummary},
			describe: []string{schemas.TopicCounters, schemas.TopicPartials},
		},
		{name: "samples", read: []string{schemas.TopicCounters}},
		{name: "nodes", read: []string{schemas.TopicCounters}},
		{
			name: "reader",
			read: []string{
				schemas.TopicJobSummary, schemas.TopicJobs, schemas.TopicFindings, schemas.TopicFacts,
				schemas.TopicSchemas,
			},
			group: "reader-*",
		},
		{
			name: "status",
			read: []string{
				schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicBalance, schemas.TopicJobs,
				schemas.TopicJobSummary, schemas.TopicRejects, schemas.TopicProgress, schemas.TopicMergeProgress,
				schemas.TopicFindProgress, schemas.TopicFacts,
			},
			describe: []string{schemas.TopicPartials}, look: []string{"collect", "merge", "find"},
		},
		{name: "replay", read: []string{schemas.TopicCounters, schemas.TopicJobs}},
		{
			name: "audit",
			read: []string{
				schemas.TopicCounters, schemas.TopicPartials, schemas.TopicJobSummary, schemas.TopicProgress,
				schemas.TopicMergeProgress, schemas.TopicRejects,
			},
		},
		{name: "topology", write: []string{schemas.TopicOrders}},
	}
}

// writesPublic reports whether the form of one of the topics depends on topics.wire.
func writesPublic(topics []string) bool {
	return slices.ContainsFunc(topics, func(topic string) bool {
		return topic == schemas.TopicJobSummary || topic == schemas.TopicFindings || topic == schemas.TopicJobs
	})
}

// rights returns the entries of a role, with the prefix of topics, groups and transactional ids.
func (r role) rights(prefix string) (all []Right) {
	add := func(kind kmsg.ACLResourceType, name string, operations ...kmsg.ACLOperation) {
		if name == "" {
			return
		}
		name, starred := strings.CutSuffix(name, "*")
		pattern := kmsg.ACLResourcePatternTypeLiteral
		if starred {
			pattern = kmsg.ACLResourcePatternTypePrefixed
		}
		all = append(all, Right{kind, prefix + name, pattern, operations})
	}
	for _, topic := range r.write {
		add(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationWrite)
	}
	for _, topic := range r.read {
		add(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead)
	}
	for _, topic := range r.describe {
		add(kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe)
	}
	add(kmsg.ACLResourceTypeTransactionalId, r.transactions, kmsg.ACLOperationWrite)
	add(kmsg.ACLResourceTypeGroup, r.group, kmsg.ACLOperationRead)
	for _, group := range r.look {
		add(kmsg.ACLResourceTypeGroup, group, kmsg.ACLOperationDescribe)
	}
	return all
}

// topicsRole makes and checks topics.
const topicsRole = "topics"

// clusterName is the name that Kafka gives the one resource of type cluster.
const clusterName = "kafka-cluster"

// topicsRights are literal: a prefix could be the beginning of another installation's.
func topicsRights(cfg config.Config) []Right {
	all := []Right{{
		kmsg.ACLResourceTypeCluster, clusterName, kmsg.ACLResourcePatternTypeLiteral,
		[]kmsg.ACLOperation{kmsg.ACLOperationDescribeConfigs},
	}}
	for _, t := range Topics(cfg) {
		operations := []kmsg.ACLOperation{
			kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe, kmsg.ACLOperationAlterConfigs,
		}
		if t.Name == cfg.Prefix+schemas.TopicSchemas {
			operations[1] = kmsg.ACLOperationWrite // implies Describe
			operations = append(operations, kmsg.ACLOperationRead)
		}
		all = append(all, Right{kmsg.ACLResourceTypeTopic, t.Name, kmsg.ACLResourcePatternTypeLiteral, operations})
	}
	return all
}

// Roles returns the roles that Rights knows, services first.
func Roles() []string {
	var names []string
	for _, r := range roles(config.Default()) {
		names = append(names, r.name)
	}
	return append(names, topicsRole)
}

// Rights returns the least permissions that a role needs under a configuration. Kafka implies Describe by Read and
// Write, and DescribeConfigs by AlterConfigs. Each right concerns another resource, except that a topic that a role
// both reads and writes occurs twice. An unknown role is an error.
func Rights(cfg config.Config, name string) ([]Right, error) {
	if name == topicsRole {
		return topicsRights(cfg), nil
	}
	table := roles(cfg)
	i := slices.IndexFunc(table, func(r role) bool { return r.name == name })
	if i < 0 {
		return nil, fmt.Errorf("role %.40q must be one of %s", name, strings.Join(Roles(), ", "))
	}
	return table[i].rights(cfg.Prefix), nil
}
