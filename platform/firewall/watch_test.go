package firewall

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
	"edgespan/platform/proc"
)

func TestWhoseAChangeIs(t *testing.T) {
	for text, want := range map[string]string{
		"ip filter ES1-FWD": "1", "ip filter ES-BASE": "0", "ip filter FORWARD": "0", "ip nat POSTROUTING": "0",
		"ip filter ":       "0",
		"ip nat ES12-POST": "12", "ip raw ES3-RAW": "3", "bridge es7 a1": "7", "inet edgespan from": "0",
		"inet edgespan ":         "0",
		"bridge edgespan ES1-1F": "1", "bridge edgespan frames": "0", "bridge edgespan ": "0", "bridge edgespan ES-X": "0",
		"bridge edgespan ES0-1F": "0", "inet edgespan ES1-FLOWS": "1",
		"ip filter KUBE-FORWARD": "", "ip filter DOCKER": "", "ip mangle FORWARD": "", "ip filter ES01-FWD": "",
		"bridge filter FORWARD": "", "bridge es07 a": "", "bridge edgespan1 a": "", "inet es1 a": "",
		"inet filter forward": "",
	} {
		var family, table, chain string
		_, _ = fmt.Sscan(text, &family, &table, &chain)
		f := map[string]netstate.Family{"ip": netstate.IPv4, "bridge": netstate.BridgeFamily,
			"inet": netstate.InetFamily}[family]
		got := ""
		if n, own := ownerOfChange(nft.Change{Table: nft.Table{Family: f, Name: table}, Chain: chain}); own {
			got = fmt.Sprint(n)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A program that changes what is ours a hundred times a second is told once a second, one
// that did so long ago at once; what we do ourselves is not told.
func TestChangesByOthersAreToldEverMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := New(proc.New(""), nil, func(int) string { return t.TempDir() })
		in := make(chan touches)
		var reported []time.Time
		var last Changed
		go func() {
			_ = f.gather(ctx, in, nil, func(c Changed) { reported, last = append(reported, time.Now()), c })
		}()
		touch := func(owners ...int) {
			var x touches
			for _, n := range owners {
				x.add(7, place{owner: n})
			}
			in <- x
		}
		begin := time.Now()
		touch(2, 0)
		touch(1)
		time.Sleep(watchWindows.First)
		synctest.Wait()
		if len(reported) != 1 || fmt.Sprint(last) != "{[0 1 2] false}" {
			t.Fatalf("told %d times, last %v", len(reported), last)
		}
		for time.Since(begin) < 60*time.Second {
			touch(1)
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(reported); n < 55 || n > 70 {
			t.Errorf("in a minute of changes told %d times", n)
		}
		time.Sleep(watchRest + watchWindows.Max)
		n := len(reported)
		touch(3)
		time.Sleep(watchWindows.First)
		if synctest.Wait(); len(reported) != n+1 {
			t.Error("after a rest a change is not told at once")
		}
		// What a look each second has found has waited for it already.
		for range 10 {
			n := len(reported)
			in <- touches{all: true, paced: true}
			time.Sleep(watchWindows.First)
			if synctest.Wait(); len(reported) != n+1 {
				t.Error("what the legacy tables tell is not told at once")
			}
			time.Sleep(legacyEvery)
		}
	})
}

// A chain of host in which networks have jumps is also theirs: flushed, it leaves a network's own chains as they were.
func TestAChangeOfAChainOfHostIsOneOfTheNetworksInIt(t *testing.T) {
	f := New(proc.New(""), nil, func(int) string { return t.TempDir() })
	for n, parent := range map[int]string{0: "POSTROUTING", 3: "ES-POST-10.1.0.0-20", 4: "ES-POST-10.2.0.0-20"} {
		c := netstate.Chain{Family: netstate.IPv4, Table: "nat", Name: fmt.Sprintf("ES%d-POST", n),
			Hooks: []netstate.Hook{{Parent: parent}}}
		if err := f.store(n).change(func(m map[netstate.ID]entry) { m[c.ID()] = written(c) }); err != nil {
			t.Fatal(err)
		}
	}
	for chain, want := range map[string]string{
		"ES-POST-10.1.0.0-20": "[0 3]", "ES-POST-10.2.0.0-20": "[0 4]", "POSTROUTING": "[0]", "": "[0]", "ES-BASE": "[0]",
	} {
		var x touches
		x.add(7, place{0, chain})
		if got := f.byOthers(x); fmt.Sprint(got.Owners) != want || got.All {
			t.Errorf("%q: %v, want %s", chain, got, want)
		}
	}
}
