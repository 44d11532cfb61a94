package integration

import "testing"

func TestSpine(t *testing.T) {
	beside(t)
	Spine(t, findCluster(t))
}

func TestBrokers(t *testing.T)       { Outages(t, findCluster(t)) }
func TestDeposedLeader(t *testing.T) { DeposedLeader(t, findCluster(t)) }
