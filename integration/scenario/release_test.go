package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/lab"
	"edgespan/platform/nft"
)

// The daemon takes over what each earlier release left on a host: it recreates no link, no dnsmasq and no chain, and
// loses no packet. Rules may differ: a chain whose rules are replaced keeps its handle, and a recreated one does not.
// A network's own table of frames goes once its chains of the shared table filter them, and that spares no link then.
func TestAnUpgradeRecreatesNothing(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(releaseDir)
	if err != nil {
		t.Fatal(err)
	}
	releases := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		releases++
		t.Run("from "+e.Name(), func(t *testing.T) {
			t.Parallel()
			backends(t, func(t *testing.T, env []string) {
				t.Parallel()
				upgrade(t, filepath.Join(releaseDir, e.Name()), env)
			})
		})
	}
	if releases == 0 {
		t.Error("no release is recorded")
	}
}

func upgrade(t *testing.T, from string, env []string) {
	w := newWorldOf(t, lab.Options{Apps: releaseApps})
	restore, chainHandles := "iptables-restore", w.chainHandles
	if env != nil { // the legacy backend replaces a table as a whole
		restore, chainHandles = "iptables-legacy-restore", func() map[string]string { return nil }
	}
	w.recreate(from, restore)
	between, err := w.PingLoop("web", netip.MustParseAddr("10.1.0.129"), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.PingLoop("web", netip.MustParseAddr(lab.WebAddr), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	flow(t, w, between, out)
	links, helpers, chains := w.linkNumbers(), w.dnsmasq(), chainHandles()
	if links == "" || helpers == "" || env == nil && len(chains) < 10 {
		t.Fatalf("the release left links %q, dnsmasq %q and %d chains", links, helpers, len(chains))
	}
	doc, err := os.ReadFile(filepath.Join(releaseDir, releaseDoc))
	if err != nil {
		t.Fatal(err)
	}
	w.startAtFixedPlace(string(doc), env...)
	w.releaseReady()
	if now := w.linkNumbers(); now != links {
		t.Errorf("links: %s", changed(links, now))
	}
	if now := w.dnsmasq(); now != helpers {
		t.Errorf("dnsmasq was %q and is %q", helpers, now)
	}
	after := chainHandles()
	for name, handle := range chains {
		if now, stands := after[name]; stands && now != handle {
			t.Errorf("chain %s was made anew: its handle was %s and is %s", name, handle, now)
		}
	}
	w.eventually("one table of frames, which spares no network", func() bool {
		ruleset := w.in("node", "nft", "list", "ruleset", "bridge")
		return strings.Count(ruleset, "table ") == 1 && strings.Contains(ruleset, "table bridge edgespan {") &&
			!strings.Contains(ruleset, `*" accept`) && strings.Contains(ruleset, `"es1a1" : jump ES1-1F`)
	})
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	for what, loop := range map[string]*lab.Loop{"between the apps": between, "to the world": out} {
		if err := loop.WaitGood(ctx, 50); err != nil {
			t.Errorf("pings %s: %v", what, err)
		}
		n := loop.Stop()
		t.Logf("pings %s: %v", what, n)
		if n.Lost+n.Wrong > 0 {
			t.Errorf("pings %s: %v, want none lost", what, n)
		}
	}
}

// recreate makes the host as a release left it.
func (w *world) recreate(from, restore string) {
	w.Helper()
	for _, dir := range []string{"run", "state"} {
		if err := os.CopyFS(filepath.Join(w.Dir, dir), os.DirFS(filepath.Join(from, dir))); err != nil {
			w.Fatal(err)
		}
	}
	env := append(os.Environ(), "LAB="+w.Dir, "NODE="+w.NS("node"))
	for _, a := range releaseApps {
		env = append(env, "APP_"+a+"="+w.NS(a))
	}
	steps := [][]string{
		{"sh", filepath.Join(from, releaseHost)},
		{"ip", "netns", "exec", w.NS("node"), restore, filepath.Join(from, "iptables.save")},
	}
	if tables := filepath.Join(from, releaseTables); exists(tables) {
		steps = append(steps, []string{"ip", "netns", "exec", w.NS("node"), "nft", "-f", tables})
	} else {
		w.recreateTables(from)
	}
	for _, argv := range steps {
		cmd := exec.CommandContext(w.ctx, argv[0], argv[1:]...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	err := filepath.WalkDir(w.RunDir(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "process.json" {
			w.runAgain(path)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// recreateTables makes the tables of nftables from the records of the chains, as the daemon made them: nft can't read
// all that it lists, and makes sets that differ.
func (w *world) recreateTables(from string) {
	w.Helper()
	c, err := nft.Open("/run/netns/" + w.NS("node"))
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	files, err := filepath.Glob(filepath.Join(from, "run", "*", "*", "chains.json"))
	if err != nil {
		w.Fatal(err)
	}
	made := 0
	for _, file := range append([]string{filepath.Join(from, "run", "host", "chains.json")}, files...) {
		var chains []netstate.Chain
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &chains)
		}
		for _, ch := range chains {
			switch {
			case err != nil || !ch.Family.Native():
				continue
			case ch.IsTable():
				err = c.Replace(nft.Table{Family: ch.Family, Name: ch.Name}, ch.Rules)
			default:
				u := nft.Update{Table: nft.Table{Family: ch.Family, Name: ch.Table},
					Lines: append(append([]string{"chain " + ch.Name + " {"}, ch.Rules...), "}")}
				for _, h := range ch.Hooks {
					u.Set = append(u.Set, nft.Element{Map: h.Parent, Key: h.Match, Value: "jump " + ch.Name})
				}
				err = c.Update(u)
			}
			made++
		}
		if err != nil {
			w.Fatalf("%s: %v", file, err)
		}
	}
	if made < 10 {
		w.Fatalf("%d chains and tables are recorded", made)
	}
}

// runAgain starts the process of a record and writes it, and the link that it serves, into the record.
func (w *world) runAgain(path string) {
	w.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	record := map[string]any{}
	if err := json.Unmarshal(text, &record); err != nil {
		w.Fatal(err)
	}
	var argv []string
	for _, word := range record["argv"].([]any) {
		argv = append(argv, word.(string))
	}
	cmd := w.atFixedPlace(argv...)
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w.Cleanup(func() { // before the lab is removed
		_ = cmd.Process.Kill()
		<-ended
	})
	pid := cmd.Process.Pid
	w.eventually("dnsmasq", func() bool {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return strings.TrimSpace(string(comm)) == filepath.Base(argv[0])
	})
	w.eventually("an answer", func() bool {
		r, err := w.Exec(w.ctx, "node", "dig", "+short", "+time=1", "+tries=1", "@10.1.0.1", "gateway.n1.edge")
		return err == nil && strings.TrimSpace(r.Out) == "10.1.0.1"
	})
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		w.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	record["pid"], record["start"] = pid, start
	number := filepath.Base(filepath.Dir(filepath.Dir(path)))
	for _, l := range w.ipLinks("node") {
		if l.IfName == "es"+number {
			record["bridge"] = l.Index
		}
	}
	if text, err = json.Marshal(record); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// linkNumbers returns the indices, addresses and names of the links of the daemon and of the apps.
func (w *world) linkNumbers() string {
	w.Helper()
	var lines []string
	for _, ns := range append([]string{"node"}, releaseApps...) {
		for _, l := range w.ipLinks(ns) {
			lines = append(lines,
				fmt.Sprint(ns, " ", l.IfName, " ", l.Index, " ", l.Address, " ", l.MTU, " ", l.Master, " ", l.Flags))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var chainLine = regexp.MustCompile(`^\s*chain (\S+) \{ # handle (\d+)`)

// chainHandles returns the handles of the iptables chains, by table and name; the kernel never reuses one.
func (w *world) chainHandles() map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, table := range []string{"raw", "nat", "filter"} {
		for line := range strings.Lines(w.in("node", "nft", "-a", "list", "table", "ip", table)) {
			if m := chainLine.FindStringSubmatch(line); m != nil {
				found[table+" "+m[1]] = m[2]
			}
		}
	}
	return found
}
