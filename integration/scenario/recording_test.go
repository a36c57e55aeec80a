package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/examples"
	ring "edgespan/platform/tape"
)

// recording starts a daemon that records into a folder.
func (w *world) recording(dir, doc string) {
	w.Helper()
	if err := w.WriteConfig([]byte(doc)); err != nil {
		w.Fatal(err)
	}
	n, err := w.StartNode(w.NodeCmd("--record", dir, "--record-size", "8"))
	if err != nil {
		w.Fatal(err)
	}
	w.node = n
	if _, err := w.WaitControl(w.ctx, n); err != nil {
		w.Fatal(err)
	}
}

// As an operator I let a node record, and replay on any machine what it decided and why, over kills and restarts, also
// from a support archive, without a secret in it.
func TestARecordingOfANodeReplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.TempDir(), "record")
	begin := func() { w.recording(dir, string(examples.Demo)) }
	begin()
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.apply(strings.Replace(string(examples.Demo), "networkInstances:\n",
		"networkInstances:\n"+strings.Replace(tunnelled(9), "psk: x", "psk: do-not-tell", 1), 1))
	w.eventually("what was recorded of the tunnel", func() bool { return strings.Contains(recorded(t, dir), "IPsec") })
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	begin()
	w.wait("ready", "app/"+app(1))
	w.apply("{}")
	w.eventually("no networks", func() bool { return !strings.Contains(w.cli("get", "ni"), "es1") })
	archive := filepath.Join(w.TempDir(), "s.tar.gz")
	w.cli("support", "-o", archive)
	if err := w.node.Stop(w.ctx); err != nil {
		t.Error(err)
	}

	text := recorded(t, dir)
	if strings.Contains(text, "do-not-tell") {
		t.Error("a secret is in the recording")
	}
	all := w.cli("replay", dir)
	for _, want := range []string{"all decide as recorded", "steps of", "times as fast as it was"} {
		if !strings.Contains(all, want) {
			t.Errorf("want %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "could not be replayed") || strings.Contains(all, "were not recorded") {
		t.Errorf("something is missing:\n%s", all)
	}
	if out := w.cli("replay", archive); !strings.Contains(out, "all decide as recorded") {
		t.Errorf("of the archive:\n%s", out)
	}
	one := w.cli("replay", dir, "--until", "ConfigGone", "--core", "network")
	if !strings.Contains(one, "ConfigGone") || !strings.Contains(one, `"intent"`) || !strings.Contains(one, `"state": {`) {
		t.Errorf("--until shows\n%s", one)
	}
	steps := w.cli("replay", dir, "--core", "registry", "--show")
	if !strings.Contains(steps, "NetworkDesired -> ") || strings.Contains(steps, "  app/") {
		t.Errorf("--show shows\n%s", steps)
	}
	for args, want := range map[string]string{
		"--until nothing-like-this": "nothing in the recording fits", "--core bridge": "must begin with one of addressing",
		w.TempDir(): "has no recording",
	} {
		r, err := w.CLI(w.ctx, append([]string{"replay", dir}, strings.Fields(args)...)...)
		if err != nil || r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("replay %s: exit %d, %v, %s, want %q", args, r.Code, err, r.Err, want)
		}
	}
}

// The transcripts of docs/replay.md are what replays print.
func TestTheTranscriptsOfReplaysRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.TempDir(), "record")
	w.recording(dir, string(examples.Demo))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if err := w.node.Stop(w.ctx); err != nil {
		t.Error(err)
	}
	all := transcriptsIn(t, "replay.md")
	if len(all) < 3 {
		t.Fatalf("%d transcripts", len(all))
	}
	for _, x := range all {
		command := strings.Replace(x.command, "edgespan replay /var/lib/edgespan/record", binary+" replay "+dir, 1)
		out := w.in("node", "sh", "-c", command+` 2>&1; code=$?; test $code = 0 || echo exit $code`) + "\n"
		if !x.pattern().MatchString(out) {
			t.Errorf("%s:\n%s\nwant\n%s", x.at, out[:min(4000, len(out))], strings.Join(x.lines, "\n"))
		}
	}
}

// recorded is all that is in a recording.
func recorded(t *testing.T, dir string) string {
	t.Helper()
	names, err := ring.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			continue // it was the oldest one
		}
		if lines, err := ring.Read(file); err == nil {
			buffer := make([]byte, 64<<10)
			for {
				n, err := lines.Read(buffer)
				all.Write(buffer[:n])
				if err != nil {
					break
				}
			}
		}
		_ = file.Close()
	}
	return all.String()
}

// A folder that can't be written is no reason not to start.
func TestANodeRunsWithoutItsRecording(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteConfig(examples.Demo); err != nil {
		t.Fatal(err)
	}
	n, err := w.StartNode(w.NodeCmd("--record", file))
	if err != nil {
		t.Fatal(err)
	}
	w.node = n
	w.wait("ready", "app/"+app(1))
	if r, err := w.CLI(w.ctx, "replay", w.NodeLog()); err != nil || r.Code == 0 || !strings.Contains(r.Err, "no recording") {
		t.Errorf("the log replays: %+v, %v", r, err)
	}
	if words := w.LastWords(200); !strings.Contains(words, "nothing is recorded") {
		t.Errorf("the log says\n%s", words)
	}
	r, err := w.Exec(w.ctx, "node", binary, "node", "--record", filepath.Dir(file), "--record-size", "1")
	if err != nil || r.Code != 2 || !strings.Contains(r.Err, "must be a number of MiB from 4") {
		t.Errorf("exit %d, %v, %s", r.Code, err, r.Err)
	}
}
