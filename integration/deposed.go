package integration

import (
	"testing"
	"time"
)

const (
	cutFor = time.Minute
	// silentLimit is how long a partition may go without a commit. The peers elect another leader after 6 s, and every
	// client has to ask a broker that knows it.
	silentLimit = 30 * time.Second
)

// DeposedLeader cuts one broker of three from its peers for a minute, while clients still reach it. It goes on as
// the leader that it was, and gives old offsets. No service may end, and least of all a sink, which would name a good
// archive a wrong one. All partitions must go on, and at the end all must be as if nothing had happened.
func DeposedLeader(t *testing.T, c Cluster) {
	need(t, c, 3, Cut)
	m := newMachine(t)
	s := systemOn(t, brokersOf(t, c))
	config := s.configFile()
	services := m.addServices(config)
	for _, p := range services {
		p.start()
	}
	s.summarizes()
	s.makeReplays(m.replayed)

	id, leads := s.busiestBroker()
	began := time.Now()
	heal := c.Break(t, id, Cut)
	// A sink that starts now may know nobody but the broker that was cut.
	for time.Since(began) < cutFor {
		time.Sleep(10 * time.Second)
		services["sink-b"].kill()
		services["sink-b"].start()
	}
	heal()
	ended := time.Now()
	s.eventually("all replicas are in sync", s.inSync)
	s.eventually("the new leaders know their partitions' ends", s.endsKnown)
	s.injectFaults()
	s.meetAll()

	s.drain(services)
	s.replays.Store(m.listen().replayed)
	s.judge()
	s.judgeTicks()
	if r, status := m.audit(config); status != 0 {
		t.Errorf("audit ends with status %d: %+v", status, r)
	}
	gaps := s.commitGaps(began, ended)
	t.Logf("broker %d was cut for %.0f s, which led %s; the longest time without a commit %s", id,
		ended.Sub(began).Seconds(), leads, gaps)
	for partition, gap := range gaps {
		if gap > silentLimit {
			t.Errorf("%s had no commit for %v", partition, gap)
		}
	}
	t.Logf("%v", m.listen())
}
