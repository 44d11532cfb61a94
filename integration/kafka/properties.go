package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// node is one Kafka process, which is broker and controller at once.
type node struct {
	id         int // from 1
	plaintext  int // port for clients and the other brokers
	sasl       int // port for clients with a password
	mtls       int // port for clients with a certificate
	controller int // port for the other controllers
	dir        string

	// For a node that can be cut off: its port for the others, and the bridge's ports in front of it.
	peers, peersFront, controllerFront int
}

// portsPerNode is the number of ports of a node.
const portsPerNode = 4

// scramLogin is the module by which a broker lets users in who show a password.
const scramLogin = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

// properties is the file by which the node is started.
func (n node) properties() string { return filepath.Join(n.dir, "broker.properties") }

// keystore is the file with the node's key and certificate.
func (n node) keystore() string { return filepath.Join(n.dir, "keystore.pem") }

// newNodes gives each node its directory and its share of the ports.
func newNodes(dir string, ports []int) []node {
	var nodes []node
	for i := range len(ports) / portsPerNode {
		p := ports[portsPerNode*i:]
		nodes = append(nodes, node{
			id: i + 1, plaintext: p[0], sasl: p[1], mtls: p[2], controller: p[3],
			dir: filepath.Join(dir, fmt.Sprintf("broker%d", i+1)),
		})
	}
	return nodes
}

// portsPerBridged is the number of further ports of a node that can be cut off.
const portsPerBridged = 3

// bridged gives each node a port for the other brokers, and the ports of the bridge before it.
func bridged(nodes []node, ports []int) {
	for i := range nodes {
		p := ports[portsPerBridged*i:]
		nodes[i].peers, nodes[i].peersFront, nodes[i].controllerFront = p[0], p[1], p[2]
	}
}

// propertiesText is the configuration of one node of a cluster. With three nodes all data are on three, and a write
// needs two; a single node keeps one copy. If a node can be cut off, the others reach it by a bridge.
func propertiesText(n node, cluster []node) string {
	var voters []string
	for _, v := range cluster {
		at := v.controller
		if v.peers != 0 {
			at = v.controllerFront
		}
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", v.id, at))
	}
	replicas, inSync := len(cluster), max(1, len(cluster)-1)
	const listeners = "PLAINTEXT://127.0.0.1:%d,SASL_SSL://127.0.0.1:%d,MTLS://127.0.0.1:%d"
	clients := fmt.Sprintf(listeners, n.plaintext, n.sasl, n.mtls)
	opened, advertised, peers := clients, clients, "PLAINTEXT"
	if n.peers != 0 {
		const more = "%s,PEERS://127.0.0.1:%d"
		opened, peers = fmt.Sprintf(more, clients, n.peers), "PEERS"
		advertised = fmt.Sprintf(more, clients, n.peersFront)
		advertised += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", n.controllerFront)
	}
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.id),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		fmt.Sprintf("listeners=%s,CONTROLLER://127.0.0.1:%d", opened, n.controller),
		"advertised.listeners=" + advertised,
		"controller.listener.names=CONTROLLER",
		"inter.broker.listener.name=" + peers,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,MTLS:SSL,CONTROLLER:PLAINTEXT," +
			"PEERS:PLAINTEXT",
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
	return strings.Join(append(lines, securityLines(n)...), "\n") + "\n"
}

// securityLines ask for a password or a certificate on the two listeners named after them. Clients of the plaintext
// listener, such as the brokers themselves, may do everything; clients of the others may do only as much as their
// rights allow.
func securityLines(n node) []string {
	return []string{
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + n.keystore(),
		"ssl.truststore.type=PEM",
		"ssl.truststore.location=" + filepath.Join(filepath.Dir(n.dir), tlsDir, caCert),
		"listener.name.mtls.ssl.client.auth=required",
		"ssl.principal.mapping.rules=RULE:^CN=([^,]+),O=weir$/$1/,DEFAULT",
		"sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=" + scramLogin,
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=" + scramLogin,
		// A client that stays connected must soon authenticate again, so that a test sees whether it uses a new
		// password.
		"connections.max.reauth.ms=10000",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS;User:admin",
	}
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
