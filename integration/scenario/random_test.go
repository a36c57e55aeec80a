package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/nodeconf"
)

var (
	randomSeed    = flag.Uint64("random-seed", 0, "seed of TestRandomConfigs; 0 for one of the clock")
	randomConfigs = flag.Int("random-configs", 120, "configs that TestRandomConfigs applies in a run")
	randomRuns    = flag.Int("random-runs", 1, "runs of TestRandomConfigs, each with the next seed")
)

// settleTime is how long a node may take for a burst of configs.
const settleTime = 30 * time.Second

func TestDrawnConfigsAreValidAndTheSameForASeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		var texts [2]string
		for i := range texts {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newRandomConfig(r)
			for range 100 {
				if w.draw(r); r.IntN(20) == 0 {
					w = randomConfig{}
				}
				text := w.scene(r.IntN(2) == 0).doc
				if _, _, err := nodeconf.Read([]byte(text)); err != nil {
					t.Fatalf("seed %d: %v:\n%s", seed, err, text)
				}
				texts[i] += text
			}
		}
		if texts[0] != texts[1] {
			t.Errorf("seed %d draws different configs", seed)
		}
	}
}

// Random configs follow each other, in bursts, and the daemon is killed in between. The host matches each config that
// the test waits for, no foreign object changes, no address is shared, and every error is a predicted one. The last
// config is empty.
func TestRandomConfigs(t *testing.T) {
	t.Parallel()
	first := cmp.Or(*randomSeed, uint64(time.Now().UnixNano())%1e9)
	for seed := first; seed < first+uint64(*randomRuns); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newRandom(t, seed).run() })
	}
}

// random is one run.
type random struct {
	*world
	*rand.Rand
	seed    uint64
	client  *nodeapi.Client
	desired randomConfig
	older   []randomConfig
	late    bool // whether the namespace lateNS exists
	foreign []string
	links   map[string]int // indices of the links that the daemon may enslave
	log     []string
	now     scene
}

func newRandom(t *testing.T, seed uint64) *random {
	t.Logf("again: -run TestRandomConfigs -random-seed %d", seed)
	r := &random{world: newWorld(t, drawnNS...), Rand: rand.New(rand.NewPCG(seed, 1)), seed: seed, late: true}
	r.client = nodeapi.NewClient(r.Socket())
	t.Cleanup(r.client.Close)
	r.seedForeign()
	r.foreign = r.others()
	r.links = r.borrowed()
	r.start("{}")
	return r
}

func (r *random) run() {
	r.desired = newRandomConfig(r.Rand)
	for applied := 0; applied < *randomConfigs; {
		applied += r.burst()
		if why := r.settle(); why != "" {
			r.fail("%s", why)
		}
		r.verify()
	}
	r.log = nil
	r.want(scene{doc: "{}"})
	if why := r.settle(); why != "" {
		r.fail("%s", why)
	}
	r.verify()
}

// fail ends the run and prints what led to the failure.
func (r *random) fail(format string, args ...any) {
	r.Helper()
	r.Logf("the adapters are\n%s\nthe links are\n%s\nthe run folder holds\n%s",
		r.cli("get", "adapter"), r.in("node", "ip", "-br", "link"), r.in("node", "find", r.RunDir(), "-ls"))
	r.Fatalf("seed %d: %s\nthe configs since all was well:\n%s", r.seed, fmt.Sprintf(format, args...),
		strings.Join(r.log, "\n---\n"))
}

// burst applies one or several configs, and may kill the daemon.
func (r *random) burst() int {
	r.log = nil
	n := 1
	if r.IntN(5) < 2 {
		n += 1 + r.IntN(4)
	}
	for range n {
		if r.IntN(8) == 0 {
			r.toggleLate()
		}
		switch k := r.IntN(12); {
		case k == 0:
			r.desired = randomConfig{}
		case k == 1 && len(r.older) > 0:
			r.desired = r.older[r.IntN(len(r.older))]
		default:
			for range 1 + r.IntN(6) {
				r.desired.draw(r.Rand)
			}
		}
		r.older = append(r.older, r.desired)
		r.want(r.desired.scene(r.late))
		time.Sleep(time.Duration(max(0, r.IntN(200)-100)) * time.Millisecond) // at any moment of an apply
	}
	if r.IntN(7) == 0 {
		r.log = append(r.log, "kill -9")
		if err := r.node.Kill(); err != nil {
			r.Fatal(err)
		}
		r.restart()
	}
	return n
}

func (r *random) toggleLate() {
	r.late = !r.late
	verb := "del"
	if r.late {
		verb = "add"
	}
	r.log = append(r.log, "ip netns "+verb+" "+lateNS)
	if out, err := exec.CommandContext(r.ctx, "ip", "netns", verb, r.NS(lateNS)).CombinedOutput(); err != nil {
		r.Fatalf("ip netns %s: %v: %s", verb, err, out)
	}
}

// want applies a scene.
func (r *random) want(s scene) {
	r.Helper()
	text, err := r.Config([]byte(s.doc))
	if err != nil {
		r.Fatal(err)
	}
	r.log = append(r.log, s.doc)
	if _, err := r.client.Apply(r.ctx, text, nodeapi.ApplyOptions{}); err != nil {
		r.fail("apply: %v", err)
	}
	r.now = s
	r.now.doc = string(text)
}

// settle waits until the node reports the desired state, and returns what is missing if it never does.
func (r *random) settle() string {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(settleTime); ; <-tick.C {
		why := r.unsettled()
		if why == "" || time.Now().After(end) {
			return why
		}
	}
}

// unsettled returns what is missing according to the node.
func (r *random) unsettled() string {
	for i := 1; i <= maxNets; i++ {
		_, ok := r.now.nets[i]
		if got, err := r.client.Ready(r.ctx, "ni", ni(i)); err != nil || got.Ready != ok || got.Absent == ok {
			return fmt.Sprintf("network %d: %+v, %v", i, got, err)
		}
	}
	all, err := r.adapters()
	if err != nil {
		return err.Error()
	}
	for i := 1; i <= maxApps; i++ {
		a, ok := r.now.apps[i]
		got, err := r.client.Ready(r.ctx, "app", app(i))
		if err != nil || !ok && !got.Absent {
			return fmt.Sprintf("app %d: %+v, %v", i, got, err)
		}
		up := true
		for j, c := range a.adapters {
			s, shown := all[fmt.Sprintf("%s/%d", app(i), j)]
			if !shown || !c.as(s) {
				return fmt.Sprintf("app %d adapter %d is %+v, foretold was %+v", i, j, s, *c)
			}
			up = up && s.Error == ""
		}
		if ok && got.Ready != up {
			return fmt.Sprintf("app %d: %+v, though all of its adapters are up: %v", i, got, up)
		}
	}
	return cmp.Or(r.refusals(all), r.planned(all))
}

// as reports whether an adapter's status is the predicted one.
func (c *sceneAdapter) as(s adapterStatus) bool {
	switch {
	case s.Error == "": // one whose app waits for another adapter may be unchanged
		was := s.Activated && (c.ip != "" && s.IP != c.ip || c.mac != "" && s.MAC != c.mac)
		return c.down == "" && s.Activated != c.off && !was
	case c.pooled && strings.Contains(s.Error, noFree):
		return true
	}
	return c.down != "" && strings.Contains(s.Error, c.down) && !s.Activated
}

const noFree = "no free IP addresses in DHCP range"

// refusals returns a network that refused more or fewer addresses than predicted.
func (r *random) refusals(all map[string]adapterStatus) string {
	refused := map[int]int{}
	for i, a := range r.now.apps {
		for j, c := range a.adapters {
			if s := all[fmt.Sprintf("%s/%d", app(i), j)]; strings.Contains(s.Error, noFree) {
				refused[c.net]++
			}
		}
	}
	for i, n := range r.now.nets {
		if want := max(0, n.hopeful-n.free); n.local && refused[i] != want {
			return fmt.Sprintf("network %d refused %d adapters an address: %d want one of %d", i, refused[i], n.hopeful, n.free)
		}
	}
	return ""
}

// planned returns what a plan of the current config would change, except the links of adapters whose namespace is
// missing.
func (r *random) planned(all map[string]adapterStatus) string {
	away := map[string]bool{}
	for i, a := range r.now.apps {
		for j, c := range a.adapters {
			if s := all[fmt.Sprintf("%s/%d", app(i), j)]; c.ns == lateNS && !s.Activated && s.HostIfName != "" {
				away[s.HostIfName] = true
			}
		}
	}
	preview, err := r.client.Preview(r.ctx, []byte(r.now.doc))
	if err != nil {
		return err.Error()
	}
	changes := slices.DeleteFunc(preview.Changes, func(c nodeapi.Change) bool {
		return c.Op == "add" && away[c.ID] && (c.Kind == "link" || c.Kind == "port")
	})
	if len(changes) == 0 {
		return ""
	}
	return fmt.Sprintf("a plan of the config that runs would change %+v", changes)
}

// adapterStatus is the status of an adapter in `get`.
type adapterStatus struct {
	Activated       bool
	Error           string
	HostIfName      string
	IfName          string
	IP, MAC         string
	NetworkInstance string
}

func (r *random) adapters() (map[string]adapterStatus, error) {
	items, err := r.client.List(r.ctx, "adapter")
	if err != nil {
		return nil, err
	}
	all := map[string]adapterStatus{}
	for _, it := range items {
		text, err := json.Marshal(it.Status)
		var s adapterStatus
		if err = errors.Join(err, json.Unmarshal(text, &s)); err != nil {
			return nil, err
		}
		all[it.ID] = s
	}
	return all, nil
}

// runFolders returns the folders of networks in the run folder, by number.
func (r *random) runFolders() []string {
	found, err := os.ReadDir(filepath.Join(r.RunDir(), "ni"))
	if err != nil && !os.IsNotExist(err) {
		r.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
	}
	return names
}
