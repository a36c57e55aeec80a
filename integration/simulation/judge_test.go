package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/synctest"
	"time"

	"edgespan/netinst/netstate"
)

const (
	// patience is how long everything may take once the surroundings work: ops that hung until their deadlines, waits
	// between tries, the hold-downs of uplinks.
	patience = 15 * time.Minute
	// quiet is how long nothing may happen after a restart.
	quiet = 3 * time.Minute
	// watchdog is what the unit of systemd allows.
	watchdog = 10 * time.Second
	// deadOps is how long a killed process may go on: until the deadlines of what it waits for.
	deadOps = 2 * time.Minute
)

// look judges what must be true at all times.
func (w *town) look() {
	synctest.Wait()
	for _, c := range w.life.crashes.taken() {
		w.fault("an actor crashed: %s", c)
	}
	if w.life.dead() {
		return
	}
	if late := w.life.unfed(); late > watchdog {
		w.fault("the watchdog was not fed for %v", late)
	}
	select {
	case err := <-w.life.node.Done():
		w.fault("the daemon ended: %v", err)
	default:
	}
	for _, v := range w.host.Violations() {
		w.fault("an op is out of order: %s", v)
	}
	w.lateDrains()
}

// settle mends the surroundings, and judges whether the node has what its config says within the time.
func (w *town) settle() {
	w.revive()
	w.mend()
	if !w.known {
		if w.apply(w.want, false); !w.known {
			return
		}
	}
	var wrong []string
	for end := time.Now().Add(patience); len(w.faults) == 0; time.Sleep(5 * time.Second) {
		synctest.Wait()
		w.revive() // it may have been about to die
		if wrong = w.wrong(); len(wrong) == 0 {
			w.look()
			return
		}
		if time.Now().After(end) {
			w.fault("%v after everything works: %s\nwith %s", patience, strings.Join(wrong, "; "), w.want.document())
			return
		}
	}
}

// wrong returns what is not as the config says, by the API, on the host and in the journal.
func (w *town) wrong() (list []string) {
	for n := range w.want.networks {
		if w.want.active(n) {
			list = append(list, w.unready("ni", networkID(n))...)
		}
	}
	for a, x := range w.want.apps {
		if !x.off && w.want.active(x.network) {
			list = append(list, w.unready("app", appID(a))...)
		}
	}
	return append(append(list, w.wrongOnHost()...), w.wrongInJournal()...)
}

func (w *town) unready(kind, id string) []string {
	got, err := w.life.node.Ready(context.Background(), kind, id)
	if err != nil {
		return []string{err.Error()}
	}
	if !got.Ready {
		return []string{fmt.Sprintf("%s/%s: %s", kind, id, got.Why)}
	}
	return nil
}

// wrongOnHost compares the host with the config: each network that is to be there has one bridge, each app one link or
// port in that of its network, and nothing is left of others.
func (w *town) wrongOnHost() (list []string) {
	numbers := map[string]int{}
	owners, err := w.host.Owners(context.Background())
	if err != nil {
		return []string{err.Error()}
	}
	for _, o := range owners {
		numbers[o.Name] = o.Number
	}
	wanted := map[int]bool{}
	for n := range w.want.networks {
		if w.want.active(n) && numbers[networkID(n)] == 0 {
			list = append(list, fmt.Sprintf("network %d has no bridge", n))
		}
		wanted[numbers[networkID(n)]] = true
	}
	ports := map[string]int{} // the network's number, by the app's end
	for _, o := range owners {
		state := w.host.State(o.Number)
		if !wanted[o.Number] && !ofCluster(o.Name) {
			list = append(list, fmt.Sprintf("network %q (%d), which is none of the config, has %d objects", o.Name, o.Number, len(state)))
		}
		for _, x := range state {
			switch x := x.(type) {
			case netstate.Link:
				if x.Peer != nil {
					ports[x.Peer.Netns] = o.Number
				}
			case netstate.Port:
				if x.Foreign || strings.HasPrefix(x.Link, "tap") {
					ports[x.Link] = o.Number
				}
			}
		}
	}
	for a, x := range w.want.apps {
		end := fmt.Sprint([]string{"ns", "tap", "vm"}[x.attach], a)
		want := 0
		if !x.off && w.want.active(x.network) {
			want = numbers[networkID(x.network)]
		}
		if ports[end] != want {
			list = append(list, fmt.Sprintf("%s is in network %d, want %d", end, ports[end], want))
		}
		delete(ports, end)
	}
	for end, n := range ports {
		if strings.HasPrefix(end, "lan") || end == clusterLink {
			continue // the port of a switch, or of a cluster
		}
		list = append(list, fmt.Sprintf("%s of no app is in network %d", end, n))
	}
	return list
}

// wrongUplinks returns the networks that have a choice of uplinks and do not use the cheapest one: all of them work.
func (w *town) wrongUplinks() (list []string) {
	owners, err := w.host.Owners(context.Background())
	if err != nil {
		return []string{err.Error()}
	}
	for _, o := range owners {
		for n, form := range w.want.networks {
			if o.Name != networkID(n) || !strings.HasPrefix(networkForms[form], "type: local, port: uplink") || !w.want.active(n) {
				continue
			}
			by := map[string]int{}
			for _, x := range w.host.State(o.Number) {
				if r, is := x.(netstate.Route); is {
					by[r.Dev]++
				}
			}
			if by["uplink0"] == 0 || by["uplink1"] > 0 {
				list = append(list, fmt.Sprintf("network %d has routes by %v, want uplink0", n, by))
			}
		}
	}
	return list
}

// wrongInJournal returns what the journal has of networks that are gone.
func (w *town) wrongInJournal() (list []string) {
	for _, topic := range []string{"network-instance-number", "network-instance-leases", "network-instance-stood",
		"uplink-choice"} {
		for _, key := range w.journal.Keys(topic) {
			known := ofCluster(key[strings.LastIndexByte(key, '/')+1:])
			for n := range w.want.networks {
				known = known || strings.HasSuffix(key, networkID(n))
			}
			if !known {
				list = append(list, fmt.Sprintf("the journal has %s of %s", topic, key))
			}
		}
	}
	return list
}

// happens lets one step happen.
func (w *town) happens(s step) []string {
	w.revive()
	w.now = s.String()
	verbs[s.verb](w, rand.New(rand.NewPCG(s.number, 3)))
	w.look()
	return w.faults
}

func (w *town) ends(well bool) []string {
	w.now = "the end"
	if well {
		w.end()
	} else {
		w.leave()
	}
	return w.faults
}

// end judges a whole life: a restart changes nothing, and an empty config leaves nothing.
func (w *town) end() {
	if w.settle(); len(w.faults) > 0 {
		w.leave()
		return
	}
	time.Sleep(patience) // until hold-downs are over
	if wrong := w.wrongUplinks(); len(wrong) > 0 {
		w.fault("%v after everything works: %s", patience, strings.Join(wrong, "; "))
	}
	w.restartInPeace(func() {})
	w.apply(scene{}, false)
	w.settle()
	time.Sleep(quiet)
	w.leavesNothing()
	w.look()
	w.leave()
}

// leavesNothing judges that nothing is left after an empty config.
func (w *town) leavesNothing() {
	for n := -1; n <= 2*maxNetworks; n++ {
		if s := w.host.State(n); len(s) > 0 {
			w.fault("an empty config leaves of owner %d:\n%s", n, s)
		}
	}
}

// leave ends all processes.
func (w *town) leave() {
	w.mend()
	w.look()
	w.kill()
	time.Sleep(deadOps)
	w.killed.Wait()
}

// actors returns the actors of the node, without the pollers of tunnels: a network keeps its own.
func (w *town) actors() (ids []string) {
	list, err := w.life.node.List(context.Background(), "actor")
	if err != nil {
		w.fault("list the actors: %v", err)
	}
	for _, r := range list {
		if !strings.HasSuffix(r.ID, "/tunnel") {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
