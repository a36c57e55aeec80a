package netns_test

import (
	"errors"
	"testing"

	"edgespan/netinst/probe"
)

// A firewall of another program that keeps the host's own packets back, with or without an answer, says nothing about
// an uplink, and a dead target does.
func TestAShotThatTheNodeDropsIsNotAsked(t *testing.T) {
	u := newUplinks(t)
	u.names(0, answerA(remoteTarget))
	u.listen(0, 443)
	all := map[probe.Method]string{probe.ICMP: remoteTarget, probe.DNS: remoteTarget, probe.TCP: remoteTarget + ":443",
		probe.HTTP: "https://" + remoteTarget}
	const chain = "add table ip other; add chain ip other out { type filter hook output priority 0; policy "
	for _, rules := range []string{
		chain + "drop; }",
		chain + "accept; }; add rule ip other out oifname wan0 reject",
		chain + "accept; }; add rule ip other out meta l4proto tcp reject with tcp reset; add rule ip other out drop",
		chain + "accept; }; add rule ip other out meta skuid 0 oifname wan0 drop",
		chain + "drop; }; add rule ip other out ct state established,related accept",
	} {
		u.node.Exec(t, "nft", rules)
		for m, target := range all {
			if _, err := u.shoot(m, target); !errors.Is(err, probe.ErrNotAsked) {
				t.Errorf("%s by %s: %v", m, rules, err)
			}
		}
		u.node.Exec(t, "nft", "delete table ip other")
	}
	// What others drop, as many firewalls do, is no packet of a probe.
	u.node.Exec(t, "nft", chain+"accept; }; add rule ip other out ct state invalid drop")
	delete(all, probe.HTTP) // no page is there
	for m, target := range all {
		if _, err := u.shoot(m, target); err != nil {
			t.Errorf("%s without a rule for it: %v", m, err)
		}
	}
	u.fails(probe.TCP, remoteTarget+":9", remoteTarget+":9 refused the connection")
	u.kill(0)
	for m, target := range all {
		if _, err := u.shoot(m, target); err == nil || errors.Is(err, probe.ErrNotAsked) {
			t.Errorf("%s of a dead uplink: %v", m, err)
		}
	}
}
