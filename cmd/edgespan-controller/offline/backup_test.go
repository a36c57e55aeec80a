package offline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/platform/datadir"
	"edgespan/platform/pki"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/bolt"
	"edgespan/platform/store/etcd"
	"edgespan/platform/store/etcd/etcdtest"
)

// filled makes a store of a fleet in a data folder, with so many objects of 1 KiB, and a
// backup of it.
func filled(t *testing.T, objects int) (dir, file string) {
	t.Helper()
	dir, file = t.TempDir(), filepath.Join(t.TempDir(), "fleet.backup")
	d, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(d.Path("store.db"), bolt.Options{UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	ca := anotherCA(t, dir)
	fleet := fmt.Sprintf(`{"caSha256":"%s","maskKey":"%s"}`, ca.Pin(), strings.Repeat("00", datadir.MaskKey))
	if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put(history.FleetKey(), []byte(fleet))}}); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < objects; {
		var txn kv.Txn
		for ; n < objects && len(txn.Then) < 100; n++ {
			txn.Then = append(txn.Then, kv.Put(kv.Key(fmt.Sprintf("objects/%06d", n)), bytes.Repeat([]byte{byte(n)}, 1024)))
		}
		if _, err := s.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _, said := program.Command(t, "backup", "--data-dir", dir, file); code != term.ExitOK ||
		!strings.Contains(said, fmt.Sprintf("%d keys as of revision", objects+1)) {
		t.Fatalf("back up: %d: %s", code, said)
	}
	return dir, file
}

// anotherCA makes the CA of a fleet in a data folder.
func anotherCA(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	ca, err := pki.Open(pki.Options{Dir: dir, Names: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// content is all that a data folder's store has, and its id.
func content(t *testing.T, dir string) (map[kv.Key]string, string) {
	t.Helper()
	s, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return contentOf(t, s), s.ID()
}

func contentOf(t *testing.T, s backend.Store) map[kv.Key]string {
	t.Helper()
	p, err := s.List(t.Context(), "", kv.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[kv.Key]string{}
	for _, e := range p.Entries {
		out[e.Key] = string(e.Value)
	}
	return out
}

// TestABackupMovesAFleetBetweenBackends goes from a file to an etcd and back to a file.
func TestABackupMovesAFleetBetweenBackends(t *testing.T) {
	from, file := filled(t, 250)
	want, id := content(t, from)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	server, err := etcdtest.Serve(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	open := func() *etcd.Store {
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{server.Endpoint}, Fleet: "north"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	had := open().ID() // somebody had a fleet of that name
	flags := []string{"--etcd", server.Endpoint, "--fleet", "north", "--data-dir", t.TempDir()}
	if code, _, said := program.Command(t, append([]string{"restore", file}, flags...)...); code != term.ExitOK ||
		!strings.Contains(said, "restored 251 keys") || !strings.Contains(said, "copy its ca.pem to ") {
		t.Fatalf("restore: %d: %s", code, said)
	}
	s := open()
	if got := contentOf(t, s); !equalContent(want, got) {
		t.Errorf("%d keys are %d", len(want), len(got))
	}
	if s.ID() == had || s.ID() == id {
		t.Errorf("the etcd's fleet has the id that it had, %s: its generations would repeat", s.ID())
	}
	back := t.TempDir()
	code, out, said := program.Command(t, append([]string{"backup", "-"}, flags...)...)
	if code != term.ExitOK || !strings.Contains(said, "251 keys") {
		t.Fatalf("back up: %d: %s", code, said)
	}
	if code, _, said := program.Type(t.Context(), out, "restore", "-", "--data-dir", back); code != term.ExitOK {
		t.Fatalf("restore: %d: %s", code, said)
	}
	got, last := content(t, back)
	if !equalContent(want, got) || last == id {
		t.Errorf("%d keys are %d, in the store %s", len(want), len(got), last)
	}
}

func equalContent(a, b map[kv.Key]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// TestWhatBackupAndRestoreRefuse has the message of each, and that nothing was written.
func TestWhatBackupAndRestoreRefuse(t *testing.T) {
	dir, file := filled(t, 3)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	bad := t.TempDir()
	ctltest.Put(t, bad, "cut", strings.Join(lines[:2], ""))
	ctltest.Put(t, bad, "newer", strings.Replace(string(text), `"format":1`, `"format":7`, 1))
	ctltest.Put(t, bad, "twice", strings.Join(append(slices.Clone(lines[:3]), lines[2:]...), ""))
	otherCA := t.TempDir()
	anotherCA(t, otherCA)
	busy := program.Start(t, t.TempDir())
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		said []string
	}{
		{[]string{"restore", "--data-dir", empty, filepath.Join(bad, "cut")}, term.ExitRejected,
			[]string{"cut: ends after 1 of 4 keys", "cut off"}},
		{[]string{"restore", "--data-dir", empty, filepath.Join(bad, "newer")}, term.ExitRejected,
			[]string{`newer: "line 1": format is 7: must be 1 or less`}},
		{[]string{"restore", "--data-dir", empty, filepath.Join(bad, "twice")}, term.ExitRejected,
			[]string{"is in line 3, too", "was changed", "has 5 keys"}},
		{[]string{"restore", "--data-dir", empty, filepath.Join(bad, "none")}, term.ExitNotFound, []string{"no such file"}},
		{[]string{"restore", "--data-dir", empty}, term.ExitUsage, []string{"must be one FILE, or -"}},
		{[]string{"restore", "--data-dir", dir, file}, term.ExitConflict,
			[]string{"the store is not empty, it has the key fleet", "give another --data-dir"}},
		{[]string{"restore", "--data-dir", busy.Dir, file}, term.ExitConflict,
			[]string{"in use by another controller: stop it first"}},
		{[]string{"restore", "--data-dir", otherCA, file}, term.ExitConflict,
			[]string{"its CA is ", "replace it by the fleet's CA, or remove it"}},
		{[]string{"backup", "--data-dir", busy.Dir, filepath.Join(bad, "new")}, term.ExitConflict,
			[]string{"in use by another controller: stop it first", "edgespan backup FILE"}},
		{[]string{"export", "--data-dir", busy.Dir, "--cfg-dir", empty}, term.ExitConflict,
			[]string{"in use by another controller: stop it first"}},
		{[]string{"backup", "--data-dir", empty, filepath.Join(bad, "new")}, term.ExitNotFound,
			[]string{"the store of --data-dir", "no such file"}},
		{[]string{"backup", "--data-dir", dir, filepath.Join(bad, "no", "such", "folder")}, term.ExitError,
			[]string{"no such file"}},
	} {
		code, out, said := program.Command(t, c.args...)
		if code != c.code || out != "" {
			t.Errorf("%q: %d, not %d: %s", c.args, code, c.code, said)
		}
		for _, want := range c.said {
			if !strings.Contains(said, want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, said)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(empty, "store.db")); err == nil {
		t.Error("a refused backup left a store")
	}
	if _, err := os.Stat(filepath.Join(bad, "new")); err == nil {
		t.Error("a refused backup left a file")
	}
}

// TestALostCAIsReplaced restores without the CA: the controller does not start by itself, and
// makes another one where it was told to.
func TestALostCAIsReplaced(t *testing.T) {
	_, file := filled(t, 1)
	dir := t.TempDir()
	if code, _, said := program.Command(t, "restore", "--data-dir", dir, file); code != term.ExitOK {
		t.Fatalf("%d: %s", code, said)
	}
	c := program.Launch(t, dir, nil)
	<-c.Ended
	if c.Code != term.ExitConflict || !strings.Contains(c.Err.String(), "ca.pem not found") {
		t.Errorf("%d: %s", c.Code, c.Err)
	}
	anew := t.TempDir()
	if code, _, said := program.Command(t, "restore", "--new-ca", "--data-dir", anew, file); code != term.ExitOK {
		t.Fatalf("%d: %s", code, said)
	}
	n := program.Start(t, anew)
	if _, err := n.Client(n.Pin(), n.Token()).Nodes(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestARestoreThatIsKilled kills a restore with SIGKILL at random instants until one comes to
// its end: until then no controller starts and nothing is backed up, and each says why; at the
// end all is there.
func TestARestoreThatIsKilled(t *testing.T) {
	from, file := filled(t, 4000)
	want, _ := content(t, from)
	ca, err := os.ReadFile(filepath.Join(from, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	empty := func() string {
		dir := t.TempDir()
		ctltest.Put(t, dir, "ca.pem", string(ca))
		return dir
	}
	dir := empty()
	half, tries := 0, 0
	for kills := 0; kills < 200; kills++ {
		cmd, said := ctltest.Exec(t, "restore", "--data-dir", dir, file)
		if kills < 8 || half < 3 {
			time.Sleep(time.Duration(10+rand.IntN(40*(kills+1))) * time.Millisecond) // the random instant
			_ = cmd.Process.Kill()                                                   // it may have ended
		}
		if cmd.Wait() == nil {
			if half > 0 || tries == 50 {
				break
			}
			dir, kills, tries = empty(), -1, tries+1 // it was faster than each kill: once more
			continue
		}
		if said.Len() > 0 {
			t.Fatalf("after %d kills: %s", kills, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "store.db")); err != nil {
			continue
		}
		if have, _ := content(t, dir); have[history.RestoringKey()] == "" {
			if len(have) > 0 {
				t.Fatalf("after %d kills there are %d keys and no mark", kills, len(have))
			}
			continue
		}
		if half++; half > 2 {
			continue
		}
		c := program.Launch(t, dir, nil)
		<-c.Ended
		if c.Code != term.ExitConflict ||
			!strings.Contains(c.Err.String(), "a restore into this store was interrupted: run it again") {
			t.Errorf("a controller on half a fleet: %d: %s", c.Code, c.Err)
		}
		if code, _, said := program.Command(t, "backup", "--data-dir", dir,
			filepath.Join(dir, "x")); code != term.ExitConflict ||
			!strings.Contains(said, "run it again") {
			t.Errorf("a backup of half a fleet: %d: %s", code, said)
		}
	}
	got, _ := content(t, dir)
	if !equalContent(want, got) {
		t.Errorf("%d keys are %d", len(want), len(got))
	}
	if half == 0 {
		t.Error("no restore was killed half way")
	}
	t.Logf("%d restores were killed half way", half)
	program.Start(t, dir)
}

// TestABackupThatIsKilled kills a backup at random instants: the file before it is whole.
func TestABackupThatIsKilled(t *testing.T) {
	dir, file := filled(t, 4000)
	killed := 0
	for range 10 {
		cmd, _ := ctltest.Exec(t, "backup", "--data-dir", dir, file)
		time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond) // the random instant
		_ = cmd.Process.Kill()                                       // it may have ended
		if cmd.Wait() != nil {
			killed++
		}
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := backup.Read(in)
		if err != nil || c.Header.Keys != 4001 {
			t.Fatalf("the file is no whole backup: %v", err)
		}
		in.Close()
	}
	if killed == 0 {
		t.Error("none was killed")
	}
}
