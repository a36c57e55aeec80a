package netns_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

// A change that another program makes as soon as the watch says that it listens is told.
func TestAWatchOfNfTablesHearsWhatComesOnceItListens(t *testing.T) {
	t.Parallel()
	ns := netns.New(t)
	c := openNft(t, ns)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		var told atomic.Bool
		done := make(chan error, 1)
		change := func() {
			ns.Exec(t, "nft", "add table bridge edgespan; add chain bridge edgespan c; delete table bridge edgespan")
		}
		go func() {
			done <- c.Watch(ctx, change, func(list []nft.Change, _ bool) {
				if slices.ContainsFunc(list, func(ch nft.Change) bool { return ch.Gone && !c.Own(ch) }) {
					told.Store(true)
				}
			})
		}()
		until(t, "the change is told", told.Load)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// What others do to the table of frames is told to the network whose chain it is about, to host, or, if all of it is
// gone, to all.
func TestWhatOthersDoToTheTableOfFramesIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	e, done := &events{}, make(chan error, 1)
	go func() {
		done <- l.host.Watch(ctx, func(ev netstate.HostEvent) { e.mu.Lock(); e.list = append(e.list, ev); e.mu.Unlock() })
	}()
	until(t, "first event", func() bool { return e.any(func(ev netstate.HostEvent) bool { return ev.Resync }) })
	file := filepath.Join(t.TempDir(), "table") // nobody's, as on a kernel without owned tables
	text := "table bridge edgespan {\n" + strings.Join(hostWords(framesTable), "\n")
	for n := 1; n <= 6; n++ {
		text += fmt.Sprintf("\nchain ES%d-1F {\naccept\n}", n)
	}
	text += "\n}\nadd element bridge edgespan ports { \"es5a1\" : jump ES5-1F }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.ns.Exec(t, "nft", "-f", file)
	ofHost := func(ev netstate.HostEvent) bool { return ev.Host }
	until(t, "the table itself", func() bool { return e.any(ofHost) && e.any(touches(1)) && e.any(touches(6)) })
	// Events of one period are told together, so each command is about another network.
	for _, c := range []struct {
		cmd  string
		what func(netstate.HostEvent) bool
	}{
		{"add rule bridge edgespan ES2-1F drop", touches(2)},
		{"flush chain bridge edgespan ES3-1F", touches(3)},
		{`add element bridge edgespan ports { "es4a1" : jump ES4-1F }`, touches(4)},
		{`delete element bridge edgespan ports { "es5a1" }`, touches(5)},
		{"delete chain bridge edgespan ES6-1F", touches(6)},
		{"add chain bridge edgespan ES7-1F", touches(7)},
		{`add element bridge edgespan ports { "eth0" : accept }`, ofHost},
		{"add rule bridge edgespan frames accept", ofHost},
		{"add chain bridge edgespan more", ofHost},
		{"delete table bridge edgespan", func(ev netstate.HostEvent) bool { return ev.Filter }},
	} {
		e.clear()
		l.ns.Exec(t, append([]string{"nft"}, strings.Fields(c.cmd)...)...)
		until(t, c.cmd, func() bool { return e.any(c.what) })
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch: %v", err)
	}
}

// A network hears of it when others flush, or take its jump from, a chain of host that leads to it.
func TestANetworkHearsOfItsJumpsInChainsOfHost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	ctx, cancel := context.WithCancel(t.Context())
	e, done := &events{}, make(chan error, 1)
	go func() {
		done <- l.host.Watch(ctx, func(ev netstate.HostEvent) { e.mu.Lock(); e.list = append(e.list, ev); e.mu.Unlock() })
	}()
	until(t, "first event", func() bool { return e.any(func(ev netstate.HostEvent) bool { return ev.Resync }) })
	for _, cmd := range []string{"-t filter -D ES-NETS-FROM-1 -i es1 -j ES1-FWD", "-t nat -F ES-POST-10.1.0.0-20"} {
		e.clear()
		l.ns.Exec(t, append([]string{"iptables"}, strings.Fields(cmd)...)...)
		until(t, cmd, func() bool { return e.any(touches(1)) && e.any(func(ev netstate.HostEvent) bool { return ev.Host }) })
		if e.any(touches(2)) {
			t.Errorf("%s: network 2 is told of it", cmd)
		}
		l.must(owner(1), l.network(1))
		l.equal(owner(1), l.network(1))
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch: %v", err)
	}
}
