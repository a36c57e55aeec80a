package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/optimize"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// village is a topology of nodes v0, v1 … in a ring of wireless links, with two radios each.
func village(size int) string {
	var nodes, sites, links []string
	for i := range size {
		next := (i + 1) % size
		nodes = append(nodes,
			fmt.Sprintf(`{"name":"v%d","node_type":2,"mac_addr":"02:00:00:00:%02x:00","wlan_mac_addrs":["02:00:00:00:%02x:0a","02:00:00:00:%02x:0b"],"pop_node":%t,"site_name":"S%d"}`,
				i, i, i, i, i == 0, i))
		sites = append(sites,
			fmt.Sprintf(`{"name":"S%d","location":{"latitude":48.0%d,"longitude":10.0%d,"altitude":0.0}}`, i, i, i*i%7))
		a, z := fmt.Sprintf("v%d", i), fmt.Sprintf("v%d", next)
		macs := [2]string{fmt.Sprintf("02:00:00:00:%02x:0a", i), fmt.Sprintf("02:00:00:00:%02x:0b", next)}
		if a > z {
			a, z, macs = z, a, [2]string{macs[1], macs[0]}
		}
		links = append(links,
			fmt.Sprintf(`{"name":"link-%s-%s","a_node_name":%q,"a_node_mac":%q,"z_node_name":%q,"z_node_mac":%q,"link_type":1}`,
				a, z, a, macs[0], z, macs[1]))
	}
	return fmt.Sprintf(`{"name":"village","nodes":[%s],"links":[%s],"sites":[%s]}`, strings.Join(nodes, ","),
		strings.Join(links, ","), strings.Join(sites, ","))
}

// optimise sends an optimization to a replica.
func (r *rig) optimise(c *Controller, by string, kinds ...optimize.Kind) (fleetapi.Written, error) {
	w, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: fleetapi.Caller{Name: by, Role: fleetapi.Operator},
		Write: ops.Optimize{Kinds: kinds}, Message: "optimise"})
	synctest.Wait()
	return w, err
}

// auto returns the auto layer without what the topology defines.
func (r *rig) auto() string {
	r.Helper()
	state, err := history.Head(storage.NewReader(r.Context(), r.store))
	if err != nil {
		r.Fatal(err)
	}
	all, err := state.AllLayers()
	if err != nil {
		r.Fatal(err)
	}
	out := ""
	for _, v := range all {
		if v.Layer.Kind == history.Auto {
			doc := maps.Clone(v.Document)
			delete(doc, topologyFacts)
			out += v.Layer.String() + " " + string(config.AppendCanonical(nil, doc)) + "\n"
		}
	}
	return out
}

// by returns the revisions of an author.
func (r *rig) by(author string) (numbers []uint64) {
	r.Helper()
	state, err := history.Head(storage.NewReader(r.Context(), r.store))
	if err != nil {
		r.Fatal(err)
	}
	records, err := state.Log(0)
	if err != nil {
		r.Fatal(err)
	}
	for _, record := range records {
		if record.Author == author {
			numbers = append(numbers, record.Number)
		}
	}
	return numbers
}

// orderly fails the test if anything is left in an outbox.
func (r *rig) orderly() {
	r.Helper()
	page, err := r.store.List(r.Context(), history.InOutboxes, kv.ListOptions{})
	if err != nil || len(page.Entries) != 0 {
		r.Errorf("the mailboxes have %v, %v", page.Entries, err)
	}
}

// mortal is a replica's connection to the store, which dies after a number of commits.
type mortal struct {
	*severed
	left  atomic.Int64 // commits until it dies; negative: it doesn't
	takes atomic.Bool  // the last commit is done, and its answer is lost
	once  atomic.Bool  // it does not die: that one commit fails
	stall atomic.Int64 // delay of each revision of the layers on its way to the store
	heads atomic.Int64 // revisions of the layers written through it
}

func (m *mortal) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if m.left.Add(-1) == 0 {
		if m.takes.Load() {
			_, _ = m.severed.Commit(ctx, t)
		}
		if m.cut.Store(!m.once.Load()); m.once.Load() {
			return kv.TxnResult{}, errSevered
		}
	}
	if slices.ContainsFunc(t.Then, func(op kv.Op) bool { return op.Key == history.HeadKey() }) {
		time.Sleep(time.Duration(m.stall.Load()))
	}
	o, err := m.severed.Commit(ctx, t)
	for _, op := range t.Then {
		if op.Kind == kv.OpPut && op.Key == history.HeadKey() && o.Succeeded {
			m.heads.Add(1)
		}
	}
	return o, err
}

// mortals creates the replicas' connections to the store.
func (r *rig) mortals() map[string]*mortal {
	ways := map[string]*mortal{}
	r.change = func(o *Options) {
		m := &mortal{severed: &severed{memory: r.store}}
		m.left.Store(-1)
		o.Store, ways[o.Replica] = m, m
	}
	return ways
}

func TestAnOptimisationIsTheLeaders(t *testing.T) {
	onRig(t, func(r *rig) {
		ways := r.mortals()
		a := r.start("a")
		r.pass(time.Second)
		b := r.start("b")
		r.write(a, ops.SetTopology{Document: r.doc(village(4))})
		r.pass(time.Second)
		preview, err := b.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.Optimize{Kinds: optimize.All}, DryRun: true})
		if err != nil || !preview.DryRun || len(preview.Effects) == 0 || len(r.by("olga")) != 0 {
			t.Fatalf("%+v, %v", preview, err)
		}
		before := ways["b"].heads.Load()
		w, err := r.optimise(b, "olga", optimize.All...)
		if err != nil {
			t.Fatal(err)
		}
		if n := ways["b"].heads.Load(); n != before {
			t.Errorf("who was asked has written it")
		}
		if got := r.by("olga"); len(got) != 1 || w.Revision != got[0] || !w.Changed || w.Message != preview.Message ||
			!reflect.DeepEqual(w.Effects, preview.Effects) {
			t.Errorf("revisions %v, answered\n %+v, was to be\n %+v", got, w, preview)
		}
		if !strings.Contains(r.auto(), "polarity") || !strings.Contains(r.auto(), "channel") {
			t.Error(r.auto())
		}
		again, err := r.optimise(a, "olga", optimize.All...)
		if err != nil || again.Changed || again.Revision != w.Revision {
			t.Errorf("again: %+v, %v", again, err)
		}
		if _, err = r.optimise(b, "olga"); !errors.As(err, new(*ops.Refused)) ||
			!strings.Contains(err.Error(), "names no kind") {
			t.Errorf("no kind: %v", err)
		}
		r.pass(time.Second)
		r.orderly()
	})
}

func TestAnOptimisationIsBoundToWhatItsCallerHasSeen(t *testing.T) {
	onRig(t, func(r *rig) {
		a := r.start("a")
		b := r.start("b")
		r.write(a, ops.SetTopology{Document: r.doc(village(4))})
		r.pass(time.Second)
		seen := r.by("alice")[0]
		if _, err := r.optimise(a, "bob", optimize.Channel); err != nil {
			t.Fatal(err)
		}
		for name, c := range r.replicas {
			_, err := c.Write(r.Context(), fleetapi.WriteRequest{
				Caller: alice, Write: ops.Optimize{Kinds: []optimize.Kind{optimize.Polarity}},
				IfMatch: map[history.Layer]uint64{{Kind: history.Auto, Name: "v1"}: seen},
			})
			var conflicts history.Conflicts
			if !errors.As(err, &conflicts) || len(conflicts) != 1 || conflicts[0].By.Author != "bob" ||
				conflicts[0].By.Time.IsZero() || !strings.Contains(err.Error(), "bob") {
				t.Errorf("at %s: %v", name, err)
			}
		}
		_, err := b.Write(r.Context(), fleetapi.WriteRequest{
			Caller: alice, Write: ops.Optimize{Kinds: []optimize.Kind{optimize.Polarity}},
			IfMatch: map[history.Layer]uint64{{Kind: history.Auto, Name: "v1"}: r.by("bob")[0]},
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestTheLeaderDiesInTheMiddleOfAnOptimisation kills the leader before and after each of its transactions: the
// optimization is done once or not at all, and the caller's answer says which.
func TestTheLeaderDiesInTheMiddleOfAnOptimisation(t *testing.T) {
	died := 0
	for _, takes := range []bool{false, true} {
		for _, once := range []bool{false, true} {
			for k := range 7 {
				onRig(t, func(r *rig) {
					ways := r.mortals()
					a := r.start("a")
					r.pass(time.Second)
					b := r.start("b")
					r.write(a, ops.SetTopology{Document: r.doc(village(12))})
					r.pass(time.Second)
					ways["a"].takes.Store(takes)
					ways["a"].once.Store(once)
					ways["a"].left.Store(int64(k + 1))
					began := time.Now()
					w, err := r.optimise(b, "olga", optimize.Polarity)
					if took := time.Since(began); err != nil || once && took > time.Second || took > 2*storage.LeaderTTL {
						t.Errorf("after %v: %v", took, err)
					}
					if ways["a"].cut.Load() {
						died++
					}
					r.told(w, err)
				})
			}
		}
	}
	if died < 8 {
		t.Errorf("%d leaders died in the middle", died)
	}
}

// TestAnOptimisationThatComesTooLateIsNotDone delays the leader's transaction for longer than any caller waits. The
// caller was answered that nothing was done, and that is true.
func TestAnOptimisationThatComesTooLateIsNotDone(t *testing.T) {
	onRig(t, func(r *rig) {
		ways := r.mortals()
		a := r.start("a")
		r.pass(time.Second)
		b := r.start("b")
		r.write(a, ops.SetTopology{Document: r.doc(village(4))})
		r.pass(time.Second)
		ways["a"].stall.Store(int64(storage.WriteTimeout + 5*time.Second))
		w, err := r.optimise(b, "olga", optimize.Polarity)
		if err == nil {
			t.Error("it is done")
		}
		ways["a"].stall.Store(0)
		r.told(w, err)
	})
}

// TestAnAnswerThatDidNotComeIsLookedFor: the leader has done the optimization, but the replica that was asked does not
// receive the answer. The store decides.
func TestAnAnswerThatDidNotComeIsLookedFor(t *testing.T) {
	onRig(t, func(r *rig) {
		late := &slow{memory: r.store}
		r.change = func(o *Options) {
			if o.Replica == "b" {
				o.Store = late
			}
		}
		a := r.start("a")
		r.pass(time.Second)
		b := r.start("b")
		r.write(a, ops.SetTopology{Document: r.doc(village(4))})
		r.pass(time.Second)
		late.held.Store(true)
		w, err := r.optimise(b, "olga", optimize.Polarity)
		late.held.Store(false)
		if err != nil {
			t.Error(err)
		}
		r.told(w, err)
	})
}

// told checks an answer against the history.
func (r *rig) told(w fleetapi.Written, err error) {
	r.Helper()
	for range 2 { // now and later
		got := r.by("olga")
		switch {
		case err == nil && (len(got) != 1 || w.Revision != got[0] || !w.Changed):
			r.Errorf("answered %d, revisions %v", w.Revision, got)
		case err != nil && (len(got) != 0 || !errors.Is(err, fleetapi.ErrBusy) ||
			!strings.Contains(err.Error(), "nothing changed: try again")):
			r.Errorf("answered %v, revisions %v", err, got)
		}
		r.pass(time.Minute)
	}
	r.orderly()
}

// TestNobodyLeads: without a leader the command waits, and then answers that nothing was done.
func TestNobodyLeads(t *testing.T) {
	for _, c := range []struct {
		name, want string
		after      time.Duration
		hold       func(*rig)
	}{
		{"another program has the key", "the leader is too busy", storage.WriteTimeout, func(r *rig) {
			if _, err := r.store.Commit(r.Context(),
				kv.Txn{Then: []kv.Op{kv.Put(history.ElectionKey(storage.LeaderKeyName), []byte("x"))}}); err != nil {
				r.Fatal(err)
			}
		}},
		{"none can win", "no leader", storage.NoLeaderTimeout, func(r *rig) {
			r.store.Refuse(func(t kv.Txn) error { // no candidate wins an election
				if len(t.Compares) == 1 && t.Compares[0].Key == history.ElectionKey(storage.LeaderKeyName) && !t.Compares[0].Exists &&
					t.Compares[0].Kind == kv.CompareExists {
					return errSevered
				}
				return nil
			})
			if _, err := r.store.Commit(r.Context(),
				kv.Txn{Then: []kv.Op{kv.Delete(history.ElectionKey(storage.LeaderKeyName))}}); err != nil {
				r.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				b := r.start("b")
				r.write(b, ops.SetTopology{Document: r.doc(village(4))})
				r.pass(time.Second)
				c.hold(r)
				began := time.Now()
				w, err := r.optimise(b, "olga", optimize.Polarity)
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(began) != c.after {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				r.told(w, err)
			})
		})
	}
}

// TestTwoOptimisationsAtOnce runs two optimizations, by two operators on two replicas, with others' writes in between:
// the auto layer is the result of one after the other.
func TestTwoOptimisationsAtOnce(t *testing.T) {
	serial := func(kinds ...optimize.Kind) (out string) {
		onRig(t, func(r *rig) {
			c := r.start("a")
			r.write(c, ops.SetTopology{Document: r.doc(village(6))})
			r.pass(time.Second)
			for _, k := range kinds {
				if _, err := r.optimise(c, "olga", k); err != nil {
					t.Fatal(err)
				}
			}
			out = r.auto()
		})
		return out
	}
	for _, kinds := range [][2]optimize.Kind{{optimize.Polarity, optimize.Channel}, {optimize.Polarity, optimize.Golay},
		{optimize.Golay, optimize.Superframe}, {optimize.Channel, optimize.Channel}} {
		allowed := map[string]bool{serial(kinds[0], kinds[1]): true, serial(kinds[1], kinds[0]): true}
		onRig(t, func(r *rig) {
			a, b := r.start("a"), r.start("b")
			r.write(a, ops.SetTopology{Document: r.doc(village(6))})
			r.pass(time.Second)
			var all sync.WaitGroup
			answers := make([]fleetapi.Written, 2)
			for i, c := range []*Controller{a, b} {
				all.Add(2)
				go func() {
					defer all.Done()
					var err error
					by := fleetapi.Caller{Name: []string{"olga", "otto"}[i], Role: fleetapi.Operator}
					answers[i], err = c.Write(r.Context(),
						fleetapi.WriteRequest{Caller: by, Write: ops.Optimize{Kinds: kinds[i : i+1]}})
					if err != nil {
						t.Error(err)
					}
				}()
				go func() {
					defer all.Done()
					if _, err := c.Write(r.Context(),
						fleetapi.WriteRequest{Caller: alice,
							Write: ops.SetNetwork{Overrides: config.Object{"envParams": config.Object{"A": fmt.Sprint(i)}}}}); err != nil {
						t.Error(err)
					}
				}()
			}
			all.Wait()
			if got := r.auto(); !allowed[got] {
				t.Errorf("%v at once: the auto layer is what no order gives:\n%s", kinds, got)
			}
			for i, author := range []string{"olga", "otto"} {
				got := r.by(author)
				if answers[i].Changed != (len(got) == 1) || len(got) == 1 && got[0] != answers[i].Revision {
					t.Errorf("%v: %s was answered %+v, has made %v", kinds, author, answers[i], got)
				}
			}
			r.pass(time.Second)
			r.orderly()
		})
	}
}
