package serve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/controller"
	"edgespan/cmd/term"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/kv"
	"edgespan/platform/datadir"
	"edgespan/platform/pki"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/bolt"
)

func folder(t *testing.T) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func emptyStore(t *testing.T) backend.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "store"), bolt.Options{UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func ownCA(d *datadir.Dir) pki.Options {
	return pki.Options{Dir: filepath.Dir(d.Path("x")), Names: []string{"localhost"}}
}

// TestReplicasOfAFleetShareItsCA puts two controllers with folders of their own on one store.
func TestReplicasOfAFleetShareItsCA(t *testing.T) {
	s, one, two := emptyStore(t), folder(t), folder(t)
	ca, mask, err := found(t.Context(), s, one, ownCA(one))
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := found(t.Context(), s, one, ownCA(one)); err != nil || !bytes.Equal(again, mask) {
		t.Errorf("the next start: %v", err)
	}

	_, _, err = found(t.Context(), s, two, ownCA(two))
	if !errors.As(err, new(*foreignFleetError)) || term.ExitCode(err) != term.ExitConflict ||
		!strings.Contains(err.Error(), ca.Pin().String()) {
		t.Errorf("a replica without the CA: %v", err)
	}
	if _, err := os.Stat(two.Path("ca.pem")); err == nil {
		t.Error("the replica made a CA that no node knows")
	}

	other := folder(t)
	if _, err := pki.Open(ownCA(other)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := found(t.Context(), s, other, ownCA(other)); !errors.As(err, new(*foreignFleetError)) {
		t.Errorf("a replica with another CA: %v", err)
	}

	text, err := os.ReadFile(one.Path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(two.Path("ca.pem"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, same, err := found(t.Context(), s, two, ownCA(two))
	if err != nil || got.Pin() != ca.Pin() || !bytes.Equal(same, mask) {
		t.Errorf("a replica with the fleet's CA: %v", err)
	}
}

// TestAnOutsideCAIsFollowed changes from one outside CA to the next, by a file that has both.
func TestAnOutsideCAIsFollowed(t *testing.T) {
	s, d := emptyStore(t), folder(t)
	ca := func() (file string) {
		dir := folder(t)
		if _, err := pki.Open(ownCA(dir)); err != nil {
			t.Fatal(err)
		}
		return dir.Path("ca.pem")
	}
	external := func(cert, key string) error {
		o := ownCA(d)
		o.External = pki.ExternalCA{Cert: cert, Key: key}
		_, _, err := found(t.Context(), s, d, o)
		return err
	}
	first, next := ca(), ca()
	if err := external(first, first); err != nil {
		t.Fatal(err)
	}
	if err := external(next, next); !errors.As(err, new(*foreignFleetError)) {
		t.Errorf("another CA at once: %v", err)
	}
	both := d.Path("both.pem")
	var text []byte
	for _, file := range []string{next, first} {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The certificate only: a bundle has one key at most.
		text = append(text, part[bytes.Index(part, []byte("-----BEGIN CERTIFICATE")):]...)
		if cut := bytes.Index(text, []byte("PRIVATE KEY")); cut >= 0 {
			text = text[:bytes.LastIndex(text[:cut], []byte("-----BEGIN"))]
		}
	}
	if err := os.WriteFile(both, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		cert string
		fits bool
	}{{both, true}, {next, true}, {first, false}} {
		key := next
		if step.cert == first {
			key = first
		}
		if err := external(step.cert, key); (err == nil) != step.fits {
			t.Errorf("%s: %v", filepath.Base(step.cert), err)
		}
	}
}

func TestIssuerSpendsATokenOnce(t *testing.T) {
	d := folder(t)
	ca, err := pki.Open(ownCA(d))
	if err != nil {
		t.Fatal(err)
	}
	i := issuer{authority: ca, revoked: &pki.Revocations{}}
	now := time.Now()
	text, hash, err := i.NewJoinToken("ulm-1", now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	kept := controller.Token{Token: history.Token{Name: "ulm-1", Hash: hash, Expires: now.Add(time.Hour)}}
	join := nodeproto.Join{Token: text, Name: "ulm-1", Node: uuid.NewString(), Key: "k1"}
	spent, err := i.Redeem(now, kept, join)
	if err != nil || spent.Used == nil || spent.Used.Node != join.Node || spent.Used.Key != "k1" {
		t.Fatalf("%+v, %v", spent, err)
	}
	if again, err := i.Redeem(now.Add(time.Minute), spent, join); err != nil || !again.Used.At.Equal(now) {
		t.Errorf("the same node after a lost answer: %+v, %v", again, err)
	}
	stranger := join
	stranger.Node = uuid.NewString()
	for what, err := range map[string]error{
		"another node": second(i.Redeem(now, spent, stranger)),
		"another name": second(i.Redeem(now, kept,
			nodeproto.Join{Token: text, Name: "ulm-2", Node: join.Node, Key: "k1"})),
		"after its end": second(i.Redeem(now.Add(2*time.Hour), kept, join)),
		"another token": second(i.Redeem(now, kept,
			nodeproto.Join{Token: "esj_x", Name: "ulm-1", Node: join.Node, Key: "k1"})),
		"an id that is none":   second(i.Redeem(now, kept, nodeproto.Join{Token: text, Name: "ulm-1", Node: "x", Key: "k1"})),
		"a role that is none":  third(i.NewOperatorToken("anna", "king", time.Time{})),
		"a list that is wrong": i.Revoke([]controller.Revocation{{Node: "x", At: now}}),
	} {
		if err == nil {
			t.Errorf("%s passed", what)
		}
	}
	if err := i.Revoke([]controller.Revocation{{Node: join.Node, At: now, Reason: "replaced"}}); err != nil {
		t.Fatal(err)
	}
	if err := i.revoked.Check(pki.Peer{Node: uuid.MustParse(join.Node)}); !errors.Is(err, pki.ErrRevoked) {
		t.Errorf("a revoked node: %v", err)
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

// TestAFirstStartMeetsARestore founds a fleet where a restore has begun since the look at it.
func TestAFirstStartMeetsARestore(t *testing.T) {
	old := emptyStore(t)
	if _, err := old.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("a", []byte("b"))}}); err != nil {
		t.Fatal(err)
	}
	source, err := backup.Open(backend.NewReader(t.Context(), old), backup.Header{Store: old.ID(), Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := source.Write(backend.NewReader(t.Context(), old), &file); err != nil {
		t.Fatal(err)
	}
	c, err := backup.Read(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Restore(backup.Mark{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s, d := emptyStore(t), folder(t)
	if o, err := s.Commit(context.Background(), r.Begin(kv.Entry{})); err != nil || !o.Succeeded {
		t.Fatal(o, err)
	}
	if _, _, err := found(t.Context(), s, d, ownCA(d)); term.ExitCode(err) != term.ExitConflict ||
		!strings.Contains(err.Error(), "run it again") {
		t.Error(err)
	}
}
