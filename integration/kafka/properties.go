package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// node is one Kafka process, which is broker and controller at once.
type node struct {
	id         int // from 1
	broker     int // port for clients
	controller int // port for the other controllers
	dir        string
}

// properties is the file by which the node is started.
func (n node) properties() string { return filepath.Join(n.dir, "broker.properties") }

// newNodes gives each node its directory and two of the ports.
func newNodes(dir string, ports []int) []node {
	var nodes []node
	for i := range len(ports) / 2 {
		nodes = append(nodes, node{i + 1, ports[2*i], ports[2*i+1], filepath.Join(dir, fmt.Sprintf("broker%d", i+1))})
	}
	return nodes
}

// propertiesText is the configuration of one node of a cluster. With three nodes all data are on three, and a write
// needs two; one node does what it can.
func propertiesText(n node, cluster []node) string {
	var voters []string
	for _, v := range cluster {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", v.id, v.controller))
	}
	replicas, inSync := len(cluster), max(1, len(cluster)-1)
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.id),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.broker, n.controller),
		fmt.Sprintf("advertised.listeners=PLAINTEXT://127.0.0.1:%d", n.broker),
		"controller.listener.names=CONTROLLER",
		"inter.broker.listener.name=PLAINTEXT",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs=" + filepath.Join(n.dir, "data"),
		fmt.Sprintf("broker.rack=rack%d", n.id),
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
		fmt.Sprintf("offsets.topic.replication.factor=%d", replicas),
		"offsets.topic.num.partitions=4",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", replicas),
		fmt.Sprintf("transaction.state.log.min.isr=%d", inSync),
		"transaction.state.log.num.partitions=4",
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", replicas),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", inSync),
		"log.cleaner.dedupe.buffer.size=2097152",
		"group.initial.rebalance.delay.ms=0",
		"auto.create.topics.enable=false",
		"num.network.threads=1",
		"num.io.threads=2",
		"background.threads=2",
		"broker.session.timeout.ms=6000",
		// Kafka's default of 20 makes every transaction about ten times as slow.
		"add.partitions.to.txn.retry.backoff.ms=1",
	}
	return strings.Join(lines, "\n") + "\n"
}

// log4jText makes Kafka log to its standard output.
func log4jText() string {
	return `appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
`
}
