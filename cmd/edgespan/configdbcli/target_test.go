package configdbcli

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/platform/keystone/keystonetest"
	"edgespan/platform/pki"
)

// cloud is a Keystone whose catalog has ConfigDB behind TLS, and the environment of its user.
type cloud struct {
	keystone *keystonetest.Keystone
	url      string // of ConfigDB
	ca       string
	env      map[string]string
	mu       sync.Mutex
	valid    map[string]bool // tokens that ConfigDB takes
	asked    []string        // with what it was asked
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{valid: map[string]bool{}}
	h := clitest.FactsHandler(t, clitest.FactsDoor{Tokens: func(token string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, token)
		return c.valid[token]
	}})
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes without the CA
	s.StartTLS()
	t.Cleanup(s.Close)
	c.url = s.URL
	c.ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(c.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	c.keystone = &keystonetest.Keystone{
		Users:   map[string]keystonetest.User{"kay": {Password: "k", Roles: map[string][]string{"services": {"admin"}}}},
		Catalog: map[string]string{"config": s.URL + "/api/config"},
	}
	k := httptest.NewServer(c.keystone)
	t.Cleanup(k.Close)
	c.env = map[string]string{
		"OS_AUTH_URL": k.URL + "/v3", "OS_USERNAME": "kay", "OS_PASSWORD": "k", "OS_TENANT_NAME": "services",
		"EDGESPAN_CA_FILE": c.ca, "HOME": t.TempDir(),
	}
	return c
}

// takes says which tokens count from now on.
func (c *cloud) takes(tokens ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.valid)
	for _, token := range tokens {
		c.valid[token] = true
	}
	c.asked = nil
}

func (c *cloud) tried() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.asked, " ")
}

// with is an environment with some variables changed.
func with(env map[string]string, pairs ...string) map[string]string {
	out := maps.Clone(env)
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		out[name] = value
	}
	return out
}

// The catalog's endpoint is asked with a token of Keystone; one that is refused is renewed once, and
// what was asked is asked again, body and all.
func TestKeystoneSaysWhereAndWho(t *testing.T) {
	c := newCloud(t)
	c.takes("gAAAAAB-kay-1")
	types(t, c.env, []typed{{line: "comp create -n fuel -f table", out: "ID  NAME  RESOURCE DEFINITIONS\n1   fuel  -\n"}})
	if n := c.keystone.Asked("POST"); n != 1 || c.tried() != "gAAAAAB-kay-1" {
		t.Errorf("%d logins, tried %s", n, c.tried())
	}
	c.takes("gAAAAAB-kay-3") // the next is refused
	types(t, c.env, []typed{{line: "comp create -n other -f table",
		out: "ID  NAME   RESOURCE DEFINITIONS\n2   other  -\n"}})
	if n := c.keystone.Asked("POST"); n != 3 || c.tried() != "gAAAAAB-kay-2 gAAAAAB-kay-3" {
		t.Errorf("%d logins, tried %s", n, c.tried())
	}
	c.takes()
	types(t, c.env, []typed{{line: "comp list", code: term.ExitPermission, err: "no caller is known by that"}})
	if n := c.keystone.Asked("POST"); n != 5 || c.tried() != "gAAAAAB-kay-4 gAAAAAB-kay-5" {
		t.Errorf("%d logins, tried %s", n, c.tried())
	}
}

func TestWhereConfigDBIsAndWhoAsks(t *testing.T) {
	c := newCloud(t)
	c.takes()
	plain := httptest.NewServer(clitest.FactsHandler(t, clitest.FactsDoor{}))
	t.Cleanup(plain.Close)
	secret, password := clitest.SecretFile(t, "secret"), clitest.SecretFile(t, "pass word")
	none := map[string]string{"HOME": t.TempDir()}
	at := with(none, "EDGESPAN_CONTROLLER="+plain.URL)
	tls := with(none, "EDGESPAN_CONTROLLER="+c.url)
	const list = "comp list -f table"
	const empty = "ID  NAME  RESOURCE DEFINITIONS\n"
	for _, s := range []struct {
		name string
		env  map[string]string
		typed
	}{
		{"nowhere", none, typed{line: list, code: term.ExitUsage, err: "--controller: required"}},
		{"nobody", at, typed{line: list, code: term.ExitPermission, err: "no caller is known"}},
		{"a token", at, typed{line: list + " --token-file " + secret, out: empty}},
		{"a prefix", none, typed{line: list + " --token-file " + secret + " --controller " + plain.URL + "/api/config/",
			out: empty}},
		{"another prefix", none, typed{line: list + " --token-file " + secret + " --controller " + plain.URL + "/api/v9",
			code: term.ExitNotFound, err: "no such route"}},
		{"a password", with(at, "EDGESPAN_PASSWORD=pass word"), typed{line: list + " --user olga", out: empty}},
		{"a password of a file", with(at, "EDGESPAN_USER=olga"),
			typed{line: list + " --password-file " + password, out: empty}},
		{"a wrong password", with(at, "EDGESPAN_PASSWORD=x"),
			typed{line: list + " --user olga", code: term.ExitPermission, err: "no caller is known"}},
		{"no password", at, typed{line: list + " --user olga", code: term.ExitUsage, err: "--password-file: required"}},
		{"no user", at, typed{line: list + " --password-file " + password, code: term.ExitUsage,
			err: "--password-file: requires --user"}},
		{"both", at, typed{line: list + " --user olga --token-file " + secret, code: term.ExitUsage,
			err: "--user and --token-file: mutually exclusive"}},
		{"a flag above the environment", with(at, "EDGESPAN_USER=olga"),
			typed{line: list + " --token-file " + secret, out: empty}},
		{"no CA", tls, typed{line: list + " --token-file " + secret, code: term.ExitUnreachable, err: "certificate"}},
		{"a CA", tls, typed{line: list + " --token-file " + secret + " --ca-file " + c.ca, out: empty}},
		{"any certificate", tls, typed{line: list + " --insecure --token-file " + secret, out: empty}},
		{"any certificate, above the environment", with(tls, "EDGESPAN_CA_FILE=/nowhere"),
			typed{line: list + " --insecure --token-file " + secret, out: empty}},
		{"any certificate and a CA", tls,
			typed{line: list + " --insecure --ca-file " + c.ca, code: term.ExitUsage, err: "--insecure and "}},
		{"nobody there", with(none, "EDGESPAN_CONTROLLER=http://127.0.0.1:1"),
			typed{line: list, code: term.ExitUnreachable, err: "not reachable"}},
		{"plain text on a network", with(none, "EDGESPAN_CONTROLLER=http://192.0.2.1"),
			typed{line: list, code: term.ExitUsage, err: "plain http"}},
		{"a token above Keystone's", c.env, typed{line: list + " --token-file " + secret, out: empty}},
		{"a controller above the catalog, with Keystone's token", with(c.env, "EDGESPAN_CONTROLLER="+plain.URL),
			typed{line: list, code: term.ExitPermission, err: "no caller is known"}},
		{"the CA of Keystone", with(c.env, "EDGESPAN_CA_FILE=", "OS_CACERT="+c.ca),
			typed{line: list + " --token-file " + secret, out: empty}},
		{"a wrong password at Keystone", with(c.env, "OS_PASSWORD=x"),
			typed{line: list, code: term.ExitPermission, err: "Keystone refused"}},
		{"half an openrc", with(c.env, "OS_PASSWORD="),
			typed{line: list, code: term.ExitUsage, err: "OS_PASSWORD: required"}},
		{"half an openrc that nobody needs", with(c.env, "OS_PASSWORD=", "EDGESPAN_CONTROLLER="+plain.URL),
			typed{line: list + " --token-file " + secret, out: empty}},
		{"half an openrc that is needed", with(c.env, "OS_PASSWORD=", "EDGESPAN_CONTROLLER="+plain.URL),
			typed{line: list, code: term.ExitUsage, err: "OS_PASSWORD: required"}},
		{"no Keystone", with(c.env, "OS_AUTH_URL=http://127.0.0.1:1"),
			typed{line: list, code: term.ExitUnreachable, err: "Keystone"}},
		{"a region without it", with(c.env, "OS_REGION_NAME=Two"), typed{line: list, code: term.ExitUsage, err: "RegionOne"}},
		{"before the command", with(none, "EDGESPAN_TOKEN_FILE="+secret),
			typed{line: "--controller " + plain.URL + " config comp list -f table", out: empty}},
		{"all that is missing", at, typed{line: "config get",
			code: term.ExitUsage, err: "--env: required: ID of the environment\n--resource: required"}},
	} {
		t.Run(s.name, func(t *testing.T) { types(t, s.env, []typed{s.typed}) })
	}
}

// The pin of a controller's CA is enough; --insecure alone takes another's certificate.
func TestThePinOfConfigDB(t *testing.T) {
	authority, err := pki.Open(pki.Options{Dir: t.TempDir(), Names: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	line := "comp list --controller https://" + clitest.ServeTLS(t,
		authority, clitest.FactsHandler(t, clitest.FactsDoor{})) + " --token-file " + clitest.SecretFile(t, "secret")
	env := map[string]string{"HOME": t.TempDir()}
	pin := authority.Pin().String()
	types(t, env, []typed{
		{line: line + " --ca-sha256 " + pin, out: "[]\n"},
		{line: line + " --ca-sha256 " + strings.Repeat("00", 32), code: term.ExitUnreachable,
			err: "does not match --ca-sha256"},
		{line: line + " --insecure --ca-sha256 " + pin, code: term.ExitUsage, err: "--insecure and "},
		{line: line, code: term.ExitUnreachable, err: "certificate"},
		{line: line + " --insecure", out: "[]\n"},
	})
}

// A context in use is another controller than the one of the catalog, which gets neither its token
// nor its CA; a context that is named goes before the catalog.
func TestContextsBesideKeystone(t *testing.T) {
	c := newCloud(t)
	c.takes("gAAAAAB-kay-1")
	plain := httptest.NewServer(clitest.FactsHandler(t, clitest.FactsDoor{}))
	t.Cleanup(plain.Close)
	env := with(c.env, "EDGESPAN_CONTEXTS="+filepath.Join(t.TempDir(), "contexts.yaml"))
	types(t, env, []typed{
		{line: "context add lab --controller " + plain.URL + " --token-file " + clitest.SecretFile(t, "secret"),
			err: "current context: lab"},
		{line: "comp create -n of-the-cloud -f table", out: "ID  NAME          RESOURCE DEFINITIONS\n1   of-the-cloud  -\n"},
		{line: "--context lab comp list", out: "[]\n"},
	})
	delete(env, "OS_AUTH_URL")
	types(t, env, []typed{{line: "comp list", out: "[]\n"}})
}

// A watch shows what happens, one line a revision, until it is interrupted.
func TestWatchFacts(t *testing.T) {
	env := serveEnvironment(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lines{want: 2, done: cancel}
	s := term.Streams{In: strings.NewReader(""), Out: out, Err: io.Discard, Env: func(k string) string { return env[k] }}
	code := make(chan int, 1)
	types(t, env, []typed{{line: "config set -e 1 -l nodes=1 -r astute -k a -v 1",
		out: "ResourceValue for key a was set\n"}})
	go func() {
		code <- clitest.RunStreams(ctx, program, s,
			clitest.ShellWords("config watch -e 1 -l node=1 -r astute --since 5 -f json")...)
	}()
	types(t, env, []typed{
		{line: "config set -e 1 -l nodes=2 -r astute -k a -v 1", out: "ResourceValue for key a was set\n"}, // of another node
		{line: "config override -e 1 -l nodes=1 -r astute -k a -v 2 -m why", out: "ResourceOverride for key a was set\n"},
	})
	if got := <-code; got != term.ExitOK {
		t.Errorf("exit %d", got)
	}
	all := strings.SplitAfter(out.String(), "\n")
	if len(all) != 3 || !strings.Contains(all[0], `"what":"values"`) || !strings.Contains(all[1], `"message":"why"`) ||
		strings.Contains(out.String(), `"value":"2"`) {
		t.Errorf("%s", out.String())
	}
	types(t, env, []typed{
		{line: "config watch -e 9", code: term.ExitNotFound, err: "9"},
		{line: "config watch -r astute", code: term.ExitUsage, err: "--resource: requires --env"},
		{line: "config watch --controller http://127.0.0.1:1", code: term.ExitUnreachable, err: "not reachable"},
	})
}

// lines ends something once some lines were written.
type lines struct {
	bytes.Buffer

	want int
	done func()
}

func (l *lines) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p)
	if bytes.Count(l.Bytes(), []byte("\n")) >= l.want {
		l.done()
	}
	return n, err
}

func TestCompletionsOfFacts(t *testing.T) {
	env := serveEnvironment(t)
	away := with(env, "EDGESPAN_CONTROLLER=http://127.0.0.1:1")
	for line, want := range map[string]string{
		"config get --env ''": "1\n:4\n", "config get -e 1 --level ''": "nodes=\n:6\n",
		"config get -e 1 -r ''":  "astute\nglobals\noverride/node\n:4\n",
		"config get --format ''": "json\nyaml\nplain\nvalue\n:4\n", "config set --format ''": "json\nyaml\n:4\n",
		"config set --type ''": "null\nint\nstr\njson\nyaml\nbool\n:4\n",
		"env show ''":          "1\n:4\n", "comp delete ''": "fuel\n:4\n",
		"config def show ''": "astute\nglobals\noverride/node\n:4\n", "lvl show -e 1 ''": "nodes\n:4\n",
		"env show 1 ''": ":4\n",
	} {
		if got := cli(t, env, "", append([]string{"__complete"}, completing(line)...)...); got.Out != want {
			t.Errorf("%s: %q, want %q", line, got.Out, want)
		}
		if got := cli(t, away, "", append([]string{"__complete"}, completing(line)...)...); strings.Contains(got.Err,
			"reachable") || got.Code != term.ExitOK {
			t.Errorf("%s without ConfigDB: %d %s", line, got.Code, got.Err)
		}
	}
}

// completing are the words of a line, the last of which is empty.
func completing(line string) []string {
	return append(strings.Fields(strings.TrimSuffix(line, "''")), "")
}

// Help names the groups once, and both words do the same.
func TestGroupsOfFactsAreShownOnce(t *testing.T) {
	got := cli(t, nil, "", "--help")
	if !strings.Contains(got.Out, "\n  config ") || strings.Contains(got.Out, "\n  env ") ||
		strings.Contains(got.Out, "\n  lvl ") {
		t.Errorf("%s", got.Out)
	}
	for _, group := range []string{"env", "comp", "def", "lvl"} {
		beside, below := cli(t, nil, "", group, "--help"), cli(t, nil, "", "config", group, "--help")
		if beside.Code != term.ExitOK || strings.ReplaceAll(below.Out, "edgespan config", "edgespan") != beside.Out {
			t.Errorf("%s: %s\nbelow config: %s", group, beside.Out, below.Out)
		}
	}
}
