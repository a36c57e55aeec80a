package field

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/integration/soak/model"
)

// gitIn runs git in a folder, without the user's settings.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	at := "2026-02-01T00:00:00Z"
	if args[len(args)-1] == "old" {
		at = "2026-01-01T00:00:00Z"
	}
	all := append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)
	cmd := exec.Command("git", all...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_COMMITTER_DATE="+at)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// The last release is the newest of those that were recorded, whether its folder is named like its commit or its tag.
func TestTheNewestRecordedReleaseIsFound(t *testing.T) {
	top := t.TempDir()
	gitIn(t, top, "init", "-q")
	gitIn(t, top, "commit", "-q", "--allow-empty", "-m", "old")
	before := gitIn(t, top, "rev-parse", "HEAD")
	gitIn(t, top, "commit", "-q", "--allow-empty", "-m", "new")
	gitIn(t, top, "tag", "v0.2.0")
	newest := gitIn(t, top, "rev-parse", "HEAD")
	gitIn(t, top, "commit", "-q", "--allow-empty", "-m", "after it")
	record := func(name string) {
		if err := os.MkdirAll(filepath.Join(top, recorded, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	record("not a release")
	if got, err := lastRelease(t.Context(), top); err == nil {
		t.Errorf("without a release: %q", got)
	}
	record(before[:8])
	if got, err := lastRelease(t.Context(), top); got != before || err != nil {
		t.Errorf("%q, %v, want %q", got, err, before)
	}
	record("0.2.0")
	if got, err := lastRelease(t.Context(), top); got != newest || err != nil {
		t.Errorf("%q, %v, want %q", got, err, newest)
	}
}

// A packet that had to be answered and was not is lost, unless the wire outside did not pass on as many.
func TestWhatIsLostOfCountedPackets(t *testing.T) {
	f := model.Fleet{{Networks: map[int]model.Network{1: {Port: "uplink"}},
		Apps: map[int]model.App{1: {Network: 1, Rules: model.Open, Active: true},
			2: {Network: 1, Rules: model.Closed, Active: true}}}}
	for _, c := range []struct {
		name         string
		sent, echoed map[string]int
		dropped      int
		want         counted
	}{
		{"all answered", map[string]int{"0.0:7001": 5, "0.0:7002": 1}, map[string]int{"0.0:7001": 5, "0.0:7002": 1}, 0,
			counted{sent: 6}},
		{"two lost", map[string]int{"0.0:7001": 5, "0.0:7002": 1}, map[string]int{"0.0:7001": 3, "0.0:7002": 1}, 0,
			counted{6, []string{"app 1.1 to 0.0 at port 7001", "app 1.1 to 0.0 at port 7001"}}},
		{"the wire dropped them", map[string]int{"0.0:7001": 5, "0.0:7002": 2}, map[string]int{"0.0:7001": 3}, 3,
			counted{7, []string{"app 1.1 to 0.0 at port 7002"}}},
		{"none sent on a way", map[string]int{"0.0:7001": 5, "1.2:7001": 9}, map[string]int{"0.0:7001": 5}, 3,
			counted{5, []string{"app 1.1 to 0.0 at port 7002: nothing was sent"}}},
	} {
		r := &run{apps: map[model.Endpoint]*appLine{{Node: 1, App: 1}: {sent: c.sent, echoed: c.echoed},
			{Node: 1, App: 2}: {}}}
		got := r.lossOf(f, c.dropped)
		if got.sent != c.want.sent || strings.Join(got.lost, ";") != strings.Join(c.want.lost, ";") {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// While the packets of one node are counted, another waits for its apps to reach each other: those of the first go on as
// they were told.
func TestANodeAimsItsOwnApps(t *testing.T) {
	told := map[model.Endpoint]int{}
	r := &run{apps: map[model.Endpoint]*appLine{}}
	for node := 1; node <= 2; node++ {
		e := model.Endpoint{Node: node, App: 1}
		r.apps[e] = &appLine{endpoint: e, order: func(string) { told[e]++ }}
	}
	r.aim(2)
	if len(told) != 1 || told[model.Endpoint{Node: 2, App: 1}] != 1 {
		t.Errorf("%v", told)
	}
	r.aim(0)
	if len(told) != 2 || told[model.Endpoint{Node: 2, App: 1}] != 2 {
		t.Errorf("all: %v", told)
	}
}

// While the packets of one node are counted, another begins: what the first has told stays.
func TestCountingANodeLeavesTheOthers(t *testing.T) {
	one, two := model.Endpoint{Node: 1, App: 1}, model.Endpoint{Node: 2, App: 1}
	told := func() *appLine {
		return &appLine{sent: map[string]int{"0.0:7001": 5}, echoed: map[string]int{"0.0:7001": 4}}
	}
	r := &run{referee: testReferee(), apps: map[model.Endpoint]*appLine{one: told(), two: told()}}
	r.reset(model.Fleet{{}, {Apps: map[int]model.App{1: {}}}})
	if sent, echoed := r.told(one, model.Outside, 7001); sent != 5 || echoed != 4 {
		t.Errorf("of the other node: %d sent, %d answered", sent, echoed)
	}
	if sent, echoed := r.told(two, model.Outside, 7001); sent != 0 || echoed != 0 {
		t.Errorf("of the node: %d sent, %d answered", sent, echoed)
	}
}

func TestTheCommandThatRepeatsARunNamesItsFaults(t *testing.T) {
	o := Options{Length: 5 * time.Minute, Seed: 7, Nodes: 2, Release: NoRelease}
	const want = "make soak SOAK=5m0s SEED=7 SOAKFLAGS='-nodes 2 -release none"
	if got := o.repeat(); got != want+"'" {
		t.Errorf("%s, want %s'", got, want)
	}
	o.Faults = []model.Kind{model.Flush, model.PowerCut}
	if got := o.repeat(); got != want+` -faults "flush rules,cut the power"'` {
		t.Error(got)
	}
}
