package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/passwd"
	"edgespan/platform/pki"
)

func TestWhoAsksConfigDB(t *testing.T) {
	g := newGate(t)
	id := uuid.MustParse("1b4e28ba-2fa1-4d7b-883f-0016d3cca427")
	nobody, node, agent, stranger := g.client(nil), g.node(id), g.agent("node-1.domain.tld"),
		newGate(t).agent("node-1.domain.tld")
	stranger.Transport.(*http.Transport).TLSClientConfig.RootCAs = nobody.Transport.(*http.Transport).TLSClientConfig.RootCAs
	forced := stranger.Transport.(*http.Transport).TLSClientConfig
	cert := forced.Certificates[0]
	forced.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	anna, known := "X-Auth-Token: "+g.keystone.Issue("anna", "services"), "a node's certificate"
	for _, c := range []struct {
		name   string
		client *http.Client
		header string // several joined by |
		want   string // or how it begins, if it ends with …
	}{
		{"a token of Keystone, the highest role", nobody, anna, "anna admin"},
		{"a role of old", nobody, "X-Auth-Token: " + g.keystone.Issue("mia", "services"), "mia operator"},
		{"a reader", nobody, "X-Auth-Token: " + g.keystone.Issue("rolf", "services"), "rolf viewer"},
		{"no role that counts", nobody, "X-Auth-Token: " + g.keystone.Issue("none", "services"),
			`403 X-Auth-Token: none of the roles of "none" in project "services" grants access here`},
		{"an admin of her own project", nobody, "X-Auth-Token: " + g.keystone.Issue("anna", "hers"),
			`403 X-Auth-Token: tokens of project "hers" are not accepted here`},
		{"a token of no project", nobody, "X-Auth-Token: " + g.keystone.Issue("anna", ""), "403 …"},
		{"a token that is none", nobody, "X-Auth-Token: nonsense", "401 X-Auth-Token: unknown: …"},
		{"an operator", nobody, "Authorization: Bearer " + g.operator, "olga operator"},
		{"an operator, by the header of old clients", nobody, "X-Auth-Token: " + g.operator, "olga operator"},
		{"an operator's token that is none", nobody, "X-Auth-Token: " + g.operator[:len(g.operator)-4] + "AAAA", "401 …"},
		{"a token of Keystone is no operator's", nobody, "Authorization: Bearer " + anna[len("X-Auth-Token: "):], "401 …"},
		{"Basic", nobody, "Basic: paul:right", "paul viewer"},
		{"a wrong password", nobody, "Basic: paul:wrong", "401 user or password: …"},
		{"no user", nobody, "Basic: nobody:right", "401 …"},
		{"no pair", nobody, "Authorization: Basic !!", "401 …"},
		{"another scheme", nobody, "Authorization: Digest x", `401 Authorization: unsupported scheme "Digest": …`},
		{"two words", nobody, anna + "|Basic: paul:right", "401 X-Auth-Token and Authorization: …"},
		{"twice one", nobody, anna + "|" + anna, "401 …"},
		{"an empty token is none", nobody, "X-Auth-Token: |Basic: paul:right", "paul viewer"},
		{"nothing", nobody, "", "401 no credentials: …"},
		{"a node", node, "", id.String() + " operator " + id.String()},
		{"an agent of Puppet", agent, "", "cert:node-1.domain.tld operator node-1.domain.tld"},
		{"a header counts before a certificate", node, "Basic: paul:right", "paul viewer"},
		{"and is not made good by it", node, "Basic: paul:wrong", "401 …"},
		{"a certificate of another CA", stranger, "", "401 client certificate rejected: …"},
		{"which harms no token", stranger, anna, "anna admin"},
	} {
		var headers []string
		if c.header != "" {
			headers = strings.Split(c.header, "|")
		}
		got := g.ask(c.client, headers...)
		if part, open := strings.CutSuffix(c.want, "…"); got != c.want && !(open && strings.HasPrefix(got, part)) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if strings.HasPrefix(got, "401") && !strings.HasSuffix(got, known) && !strings.HasSuffix(got, "mutually exclusive") {
			t.Errorf("%s: does not say what is allowed: %s", c.name, got)
		}
		g.s.access.limiter = rest.NewAuthLimiter()
	}
	want := fmt.Sprintf(`[Keystone uri=%q Basic realm="edgespan" Bearer realm="edgespan"]`, g.s.access.uri)
	if got := fmt.Sprint(g.s.factsAuth().Challenges()); got != want || !strings.HasSuffix(g.s.access.uri, "/v3") {
		t.Errorf("challenges %s, want %s", got, want)
	}
}

func TestWhoIsNoLongerAllowed(t *testing.T) {
	g := newGate(t)
	id := uuid.MustParse("1b4e28ba-2fa1-4d7b-883f-0016d3cca427")
	node, nobody := g.node(id), g.client(nil)
	if got := g.ask(node); !strings.HasPrefix(got, id.String()) {
		t.Fatal(got)
	}
	if err := g.revoked.Replace([]pki.Revocation{{Node: id.String(), At: time.Now(), Reason: "stolen"}}); err != nil {
		t.Fatal(err)
	}
	if got := g.ask(node); !strings.HasPrefix(got, "401 ") || !strings.Contains(got, "stolen") {
		t.Errorf("a revoked node on its open connection: %s", got)
	}
	if got := g.ask(nobody, "Basic: paul:right"); got != "paul viewer" {
		t.Fatal(got)
	}
	g.write(g.passwords, "# nobody\n")
	if err := g.s.access.reload(); err != nil { // SIGHUP
		t.Fatal(err)
	}
	if got := g.ask(nobody, "Basic: paul:right"); !strings.HasPrefix(got, "401") {
		t.Errorf("a user who was removed: %s", got)
	}
	g.write(g.passwords, "paul\n")
	if err := g.s.access.reload(); err == nil || !strings.Contains(err.Error(), g.passwords+":1: has 1 fields") {
		t.Errorf("a file with a fault: %v", err)
	}
}

func TestWhatCanNotBeKnownNow(t *testing.T) {
	g := newGate(t)
	g.keystone.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	nobody := g.client(nil)
	if got := g.ask(nobody, "X-Auth-Token: "+g.keystone.Issue("anna", "services")); !strings.HasPrefix(got,
		"503 X-Auth-Token: Keystone unreachable") {
		t.Errorf("Keystone is away: %s", got)
	}
	g.fleet.err = errors.New("no leader at 10.1.2.3")
	if got := g.ask(nobody, "X-Auth-Token: "+g.operator); !strings.HasPrefix(got, "503 token: ") ||
		strings.Contains(got, "10.1.2.3") {
		t.Errorf("the store is away: %s", got)
	}
	if got := g.ask(nobody, "Basic: paul:right"); got != "paul viewer" {
		t.Errorf("others go on: %s", got)
	}
}

// Who guesses keeps nobody out who is right, known before or not, at the same address; and what it is
// told does not depend on whether there is a user of a name.
func TestWhoGuessesKeepsNobodyOut(t *testing.T) {
	t.Parallel() // it waits for a second
	g := newGate(t)
	nobody, node := g.client(nil), g.node(uuid.New())
	for range 2 * rest.AuthBurst { // who says nothing does not guess
		if got := g.ask(nobody); !strings.HasPrefix(got, "401") {
			t.Fatal(got)
		}
	}
	words := []string{"X-Auth-Token: nonsense", "Authorization: Bearer x", "X-Auth-Token: " +
		g.operator[:len(g.operator)-4] + "AAAA"}
	reported := map[string]bool{g.ask(nobody, "Basic: mallory:wrong"): true, g.ask(nobody, "Basic: paul:wrong"): true}
	for i := range 2 * rest.AuthBurst {
		if got := g.ask(nobody, words[i%len(words)]); !strings.HasPrefix(got, "401") {
			t.Fatalf("guess %d: %s", i, got)
		}
	}
	if reported[g.ask(nobody, "Basic: paul:wrong")] = true; len(reported) != 1 {
		t.Errorf("what is told of wrong passwords differs: %v", reported)
	}
	for said, want := range map[string]string{
		"X-Auth-Token: " + g.keystone.Issue("anna", "services"): "anna admin", "Authorization: Bearer " +
			g.operator: "olga operator", "Basic: paul:right": "paul viewer",
	} {
		for range 2 { // not known before, and known
			if got := g.ask(nobody, said); got != want {
				t.Errorf("%.20s beside those who guess: %s, want %s", said, got, want)
			}
		}
	}
	if got := g.ask(node); strings.HasPrefix(got, "4") && !strings.Contains(got, "operator") {
		t.Errorf("a node beside the one who guesses: %s", got)
	}
}

func TestWithoutMoreOnlyTokensAndNodesAreKnown(t *testing.T) {
	g := newGate(t, "--auth", "token")
	nobody := g.client(nil)
	for header, want := range map[string]string{
		"X-Auth-Token: " + g.operator: "olga operator", "Basic: paul:right": `401 Authorization: unsupported scheme "Basic"`,
		"X-Auth-Token: abc": "401 token: unknown",
	} {
		if got := g.ask(nobody, header); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", header, got)
		}
	}
	if got := g.ask(g.agent("node-1")); !strings.HasPrefix(got, "401") {
		t.Errorf("an agent: %s", got)
	}
	if got := fmt.Sprint(g.s.factsAuth().Challenges()); got != `[Bearer realm="edgespan"]` {
		t.Error(got)
	}
	g.s.o.Auth = AuthNone
	if c, err := g.s.factsAuth().Authenticate(httptest.NewRequest(http.MethodGet, "/", nil)); err != nil ||
		c != (configdbapi.Caller{Name: "local", Role: configdbapi.Admin, Via: rest.ViaLoopback}) {
		t.Errorf("--auth none: %+v %v", c, err)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	g := newGate(t)
	node := g.node(uuid.New())
	anna := "X-Auth-Token: " + g.keystone.Issue("anna", "services")
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			client, header, want := g.client(nil), []string{anna}, "anna admin"
			switch i % 3 {
			case 1:
				header, want = []string{"Basic: paul:right"}, "paul viewer"
			case 2:
				client, header, want = node, nil, "operator"
			}
			for range 5 {
				if got := g.ask(client, header...); !strings.Contains(got, want) {
					t.Errorf("%d: %s", i, got)
				}
			}
		})
	}
	wg.Wait()
	if n := g.keystone.Asked(http.MethodGet); n != 1 {
		t.Errorf("Keystone was asked %d times for one token", n)
	}
}

// BenchmarkAuthenticate is what finding out who asks costs a request whose answer is cached.
func BenchmarkAuthenticate(b *testing.B) {
	f := &tokenHolders{byHash: map[string]fleetapi.Caller{}}
	text, kept, err := pki.NewOperatorToken("olga", "operator", time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	f.byHash[kept.Hash] = fleetapi.Caller{Name: "olga", Role: fleetapi.Operator}
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "passwd")
	if err := os.WriteFile(path, []byte("paul:"+string(hash)+":viewer\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	file, err := passwd.Open(path, roleWords(), nil)
	if err != nil {
		b.Fatal(err)
	}
	a := &access{tokens: f.Authenticate, known: f.Known, passwd: file, limiter: rest.NewAuthLimiter()}
	for name, set := range map[string]func(r *http.Request){
		"token": func(r *http.Request) { r.Header.Set("X-Auth-Token", text) },
		"basic": func(r *http.Request) { r.SetBasicAuth("paul", "right") },
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		set(r)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if c, err := a.Authenticate(r); err != nil || c.Name == "" {
					b.Fatal(err)
				}
			}
		})
	}
}
