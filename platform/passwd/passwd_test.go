package passwd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

var roles = []string{"viewer", "operator", "admin"}

// hashed is a password's hash in htpasswd's spelling.
func hashed(t testing.TB, password string, cost int) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		t.Fatal(err)
	}
	return "$2y$" + string(h[4:])
}

// written replaces a file as an editor does.
func written(t testing.TB, path string, mode os.FileMode, lines ...string) {
	t.Helper()
	next := path + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(next, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// opened is a file with users, that may be asked as if the time between two looks were over.
func opened(t testing.TB, lines ...string) (f *File, path string, faults *[]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "passwd")
	written(t, path, 0o640, lines...)
	faults = new([]string)
	f, err := Open(path, roles, func(err error) { *faults = append(*faults, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	return f, path, faults
}

func (f *File) asked(name, password string) string {
	f.looked.Store(0)
	role, err := f.Check(context.Background(), name, password)
	if err != nil {
		return err.Error()
	}
	return role
}

func TestWhoHasAPasswordHasItsRole(t *testing.T) {
	f, _, _ := opened(
		t, "# people", "", "anna:"+hashed(t, "right", 4)+":operator", "bert:"+
			strings.Replace(hashed(t, "b", 5), "$2y$", "$2b$", 1)+":viewer",
		// htpasswd -nbB of apache2-utils 2.4 wrote the hash
		"ü:$2y$05$O2ez4gpJUN6tGQLdJGZeTurltZ15iHtrApsgvdPlDXAS.vcWFWeNm:admin",
	)
	denied := ErrDenied.Error()
	for _, c := range []struct{ name, password, want string }{
		{"anna", "right", "operator"},
		{"anna", "right", "operator"}, // known by now
		{"anna", "wrong", denied},
		{"anna", "", denied},
		{"anna", "right\x00", denied},
		{"bert", "b", "viewer"},
		{"bert", "right", denied},
		{"ü", "pass:word ü", "admin"},
		{"nobody", "right", denied},
		{"", "", denied},
		{"anna", strings.Repeat("x", longestPassword+1), denied},
	} {
		if got := f.asked(c.name, c.password); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.name, c.password, got, c.want)
		}
	}
}

func TestAFileFollowsItsChanges(t *testing.T) {
	f, path, faults := opened(t, "anna:"+hashed(t, "one", 4)+":operator", "bert:"+hashed(t, "b", 4)+":viewer")
	anna := hashed(t, "two", 4)
	check := func(state string, want ...string) {
		t.Helper()
		got := []string{f.asked("anna", "one"), f.asked("anna", "two"), f.asked("bert", "b")}
		for i, w := range want {
			if got[i] != w && !(w == "" && got[i] == ErrDenied.Error()) {
				t.Errorf("%s: %q, want %q", state, got, want)
			}
		}
	}
	check("at first", "operator", "", "viewer")
	written(t, path, 0o640, "anna:"+anna+":operator")
	check("another password, and one user less", "", "operator", "")
	written(t, path, 0o640, "anna:"+anna+":viewer")
	check("another role of the same hash", "", "viewer", "")
	if len(*faults) > 0 {
		t.Errorf("faults of good files: %q", *faults)
	}
	for i, bad := range []func(){
		func() { written(t, path, 0o640, "anna:x:viewer") },
		func() { written(t, path, 0o644, "bert:"+anna+":viewer") },
		func() { _ = os.Remove(path) },
		func() { _ = os.Mkdir(path, 0o700) },
	} {
		bad()
		check(fmt.Sprintf("after fault %d", i), "", "viewer", "")
		if len(*faults) != i+1 {
			t.Fatalf("fault %d: told %q", i, *faults)
		}
		if err := f.Reload(); err == nil { // SIGHUP says it again
			t.Errorf("fault %d: it is read", i)
		}
	}
	_ = os.Remove(path)
	written(t, path, 0o640, "bert:"+hashed(t, "b", 4)+":admin")
	check("mended", "", "", "admin")
}

func TestEveryFaultOfAFileIsNamed(t *testing.T) {
	good := hashed(t, "x", 4)
	_, err := parse("users", []byte(strings.Join([]string{
		"anna:" + good + ":admin", "anna:" + good + ":viewer", "bert:" + good, "c d:" + good + ":root",
		"dora:$apr1$abc$def:viewer",
		"emil:" + strings.Replace(good, "$04$", "$31$", 1) + ":viewer", "fred:" + good[:59] + "!:viewer",
		strings.Repeat("g", 65) + ":" + good + ":viewer",
	}, "\n")), roles)
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, want := range []string{
		`users:2: user "anna": duplicate of line 1: give each user once`,
		`users:3: has 2 fields: must be USER:BCRYPT-HASH:ROLE`,
		`users:4: user "c d": invalid name: must be 1 to 64`,
		`user "c d": invalid role "root": must be one of viewer, operator, admin`,
		`users:5: user "dora": hash: not bcrypt`,
		`users:6: user "emil": hash: invalid cost "31": must be 04 to 14`,
		`users:7: user "fred": hash: invalid characters`,
		`users:8: user "` + strings.Repeat("g", 64),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), good[7:]) || strings.Contains(err.Error(), good[7:59]) {
		t.Errorf("a hash is shown: %v", err)
	}
}

func TestAFileThatEverybodyReadsIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: false, 0o642: false, 0o641: false} {
		written(t, path, mode, "anna:"+hashed(t, "x", 4)+":admin")
		if _, err := Open(path, roles, nil); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "chmod 640") {
			t.Errorf("%04o: %v", mode, err)
		}
	}
}

// TestManyAtOnceComputeOnce: a fleet that comes with one password after a start must not
// wait for as many hashes as it has nodes.
func TestManyAtOnceComputeOnce(t *testing.T) {
	f, _, _ := opened(t, "fleet:"+hashed(t, "p", 10)+":operator")
	began := time.Now()
	if got := f.asked("fleet", "no"); got != ErrDenied.Error() {
		t.Fatal(got)
	}
	one := time.Since(began)
	began = time.Now()
	var wg sync.WaitGroup
	var bad atomic.Int64
	for range 500 {
		wg.Go(func() {
			if role, err := f.Check(t.Context(), "fleet", "p"); role != "operator" || err != nil {
				bad.Add(1)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); bad.Load() > 0 || took > 50*one {
		t.Errorf("%d of 500 were refused, all took %v where one hash takes %v", bad.Load(), took, one)
	}
}

func TestWhoHasNoTurnIsToldSo(t *testing.T) {
	f, _, _ := opened(t, "anna:"+hashed(t, "right", 4)+":operator")
	if got := f.asked("anna", "right"); got != "operator" {
		t.Fatal(got)
	}
	for range cap(f.turns) {
		f.turns <- struct{}{}
	}
	if got := f.asked("anna", "right"); got != "operator" {
		t.Errorf("a password that is known needs no turn: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Check(ctx, "anna", "wrong"); !errors.Is(err, context.Canceled) {
		t.Errorf("who went away: %v", err)
	}
}

// TestAUserWhoIsNotThereCostsAsMuch counts hashes by time: cost 10 takes some 50 ms, and a
// refusal without a hash a microsecond.
func TestAUserWhoIsNotThereCostsAsMuch(t *testing.T) {
	f, _, _ := opened(t, "anna:"+hashed(t, "right", 10)+":operator", "bert:"+hashed(t, "b", 4)+":viewer")
	took := func(name string) time.Duration {
		best := time.Hour
		for range 3 {
			began := time.Now()
			if got := f.asked(name, "wrong"); got != ErrDenied.Error() {
				t.Fatal(got)
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	if there, not := took("anna"), took("nobody"); not < there/3 || not > 3*there {
		t.Errorf("a wrong password takes %v, a wrong name %v", there, not)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("anna:$2y$04$Zx1234567890123456789uZx1234567890123456789012345678901:admin\n"))
	f.Add([]byte("#\n\n:::\na:b:c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, err := parse("users", text, roles)
		if err != nil {
			return
		}
		for name, u := range users {
			if name == "" || strings.ContainsAny(name, ": \n") || len(u.hash) != 60 {
				t.Errorf("%q with %d octets of hash", name, len(u.hash))
			}
			if cost, err := bcrypt.Cost(u.hash); err != nil || cost != u.cost {
				t.Errorf("%q: cost %d: %v", name, cost, err)
			}
		}
	})
}

// BenchmarkCheck is what a request with a known password costs.
func BenchmarkCheck(b *testing.B) {
	f, _, _ := opened(b, "anna:"+hashed(b, "right", 10)+":operator")
	for b.Loop() {
		if role, err := f.Check(b.Context(), "anna", "right"); role != "operator" {
			b.Fatal(err)
		}
	}
}
