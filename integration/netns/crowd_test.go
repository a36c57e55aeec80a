package netns_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// Networks that write their chains at the same time write and read them together: four times as many networks need
// hardly more commands.
func TestNetworksThatStartTogetherShareCommands(t *testing.T) {
	few, many := crowd(t, 8, false), crowd(t, 32, false)
	t.Logf("%d commands for 8 networks, %d for 32", few, many)
	if many > 2*few {
		t.Errorf("%d commands for 8 networks and %d for 32: they grow with the networks", few, many)
	}
}

// If iptables refuses a chain of one network, only that network fails.
func TestOneNetworkOfACrowdDoesNotFailForAnother(t *testing.T) { crowd(t, 12, true) }

// crowd has networks write their chains concurrently, plus, with spoilt, one whose chain iptables refuses. It checks
// the chains and returns how many commands that took.
func crowd(t *testing.T, count int, spoilt bool) int {
	t.Helper()
	l := newLab(t)
	var ns []netinst.HostNetwork
	want := make([]netstate.State, count+2) // by number
	for n := 1; n <= count+1; n++ {
		ns = append(ns, netinst.HostNetwork{Number: n, Subnet: subnetOf(n)})
		cfg := netinst.NetworkInstanceConfig{Type: netinst.Local,
			IPv4: netinst.IPv4Config{Subnet: subnetOf(n), Gateway: subnetOf(n).Addr().Next()}}
		want[n] = netstate.State{}
		for id, o := range netinst.DesiredState(netinst.Input{Owner: owner(n), Config: cfg, RunDir: l.dir}).State {
			if id.Kind == netstate.KindChain {
				want[n][id] = o
			}
		}
	}
	l.must(hostOwner, netinst.HostState(ns))
	refused := netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: fmt.Sprintf("ES%d-FWD", count+1),
		Rules: []string{"-j NOSUCHTARGET"}}
	want[count+1].Add(refused)
	for n := range want[1:] {
		l.observe(owner(n+1), true) // like an applier, so that the store knows the state
	}

	ran := countCommands(t, l)
	errs := make([]error, count+2)
	var all sync.WaitGroup
	for n := 1; n <= count+1; n++ {
		if n > count && !spoilt {
			break
		}
		ops := netstate.Diff(netstate.State{}, want[n])
		all.Go(func() {
			for _, op := range ops {
				if err := l.do(t.Context(), owner(n), op); err != nil {
					errs[n] = err
				}
			}
		})
	}
	all.Wait()
	for n := 1; n <= count; n++ {
		if errs[n] != nil {
			t.Errorf("network %d: %v", n, errs[n])
		}
		if d := cmp.Diff(want[n].String(), l.observe(owner(n), false).String()); d != "" {
			t.Errorf("network %d after it was written (-want +got):\n%s", n, d)
		}
	}
	commands := ran()
	if spoilt && (errs[count+1] == nil || !strings.Contains(errs[count+1].Error(), "NOSUCHTARGET")) {
		t.Errorf("a chain that iptables refuses: %v, want its words", errs[count+1])
	}
	for n := 1; n <= count; n++ {
		if d := cmp.Diff(want[n].String(), l.observe(owner(n), true).String()); d != "" {
			t.Errorf("network %d looked at in full (-want +got):\n%s", n, d)
		}
	}
	return commands
}

// countCommands counts the runs of iptables from now on.
func countCommands(t *testing.T, l *lab) (count func() int) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf("#!/bin/sh\necho %s >>%s\nexec %s \"$@\"\n", name, log, real)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir+":"+path)
	return func() int {
		l.t.Helper()
		t.Setenv("PATH", path)
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // no command has run
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
}

// The chains of a network with many adapters, in which trees lead to each of them, are observed as desired with both
// backends, and so are those of few adapters after them.
func TestChainsOfManyAdaptersAreObservedAsDesired(t *testing.T) {
	for _, backend := range []string{"nft", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			if backend == "legacy" {
				legacyTools(t)
			}
			l := newLab(t)
			l.must(hostOwner, root())
			chains := func(adapters int) netstate.State {
				in := netinst.Input{Owner: owner(1), RunDir: l.dir, Config: netinst.NetworkInstanceConfig{Type: netinst.Local,
					IPv4: netinst.IPv4Config{Subnet: subnetOf(1), Gateway: subnetOf(1).Addr().Next()}}}
				addr := subnetOf(1).Addr().Next()
				for k := 1; k <= adapters; k++ {
					addr = addr.Next()
					in.Adapters = append(in.Adapters, netinst.Adapter{
						Config: netinst.AppAdapterConfig{AppUUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(k)}), Activate: true},
						Lease:  netinst.Lease{Number: k, MAC: fmt.Sprintf("02:16:3e:00:00:%02x", k), IP: addr},
					})
				}
				s := netstate.State{}
				for id, o := range netinst.DesiredState(in).State {
					if id.Kind == netstate.KindChain {
						s[id] = o
					}
				}
				return s
			}
			many := chains(45)
			if many[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-EGR4"}] == nil ||
				many[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-ING-10.1.0.32-28"}] == nil {
				t.Fatal("no branches")
			}
			l.must(owner(1), many)
			l.must(owner(1), chains(2))
		})
	}
}
