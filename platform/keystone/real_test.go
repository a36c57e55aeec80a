package keystone

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/platform/keystone/keystonetest"
)

// realKeystone starts Debian's Keystone: the machine's, or the one unpacked below
// EDGESPAN_KEYSTONE_ROOT (`dpkg -x` of python3-keystone and what it needs).
func realKeystone(t *testing.T) (url string) {
	t.Helper()
	root := os.Getenv("EDGESPAN_KEYSTONE_ROOT")
	manage := filepath.Join(root, "/usr/bin/keystone-manage")
	if _, err := os.Stat(manage); err != nil || testing.Short() {
		t.Skip("a long test that needs Debian's python3-keystone, or EDGESPAN_KEYSTONE_ROOT")
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/serve.py", t.TempDir(), manage)
	cmd.Env = append(os.Environ(), "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1")
	if root != "" {
		cmd.Env = append(cmd.Env, "PYTHONPATH="+root+"/usr/lib/python3/dist-packages", "LD_LIBRARY_PATH="+root+
			"/usr/lib/x86_64-linux-gnu")
	}
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it did not start: %v\n%s", err, said.String())
	}
	return "http://127.0.0.1:" + strings.TrimSpace(line)
}

// admin asks a real Keystone for something that only tests need.
func admin(t *testing.T, s Session, method, url, body string, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", s.Token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, url, resp.StatusCode, text)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWithARealKeystone runs what the other tests do with the one in memory, and holds the
// documents of both beside each other.
func TestWithARealKeystone(t *testing.T) {
	url := realKeystone(t)
	env := map[string]string{"OS_AUTH_URL": url + "/v3", "OS_USERNAME": "admin", "OS_PASSWORD": "secret",
		"OS_TENANT_NAME": "admin"}
	e, err := FromEnv(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Login(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Service struct{ ID string } }
	admin(t, s, "POST", url+"/v3/services", `{"service":{"type":"config","name":"configdb"}}`, &made)
	admin(t, s, "POST", url+"/v3/endpoints", fmt.Sprintf(
		`{"endpoint":{"service_id":%q,"interface":"public","region_id":"RegionOne","url":"https://configdb.test/api/v1/config"}}`, made.Service.ID), nil)
	if s, err = e.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Endpoint("config", "public", "RegionOne"); got != "https://configdb.test/api/v1/config" {
		t.Errorf("endpoint: %q %v", got, err)
	}
	wrong := e
	wrong.Password = "other"
	if _, err := wrong.Login(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
	transport, err := Transport("")
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(Options{URL: url, Own: e.Credentials, Secret: func() (string, error) { return "secret", nil }, Window: 1,
		Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	id, err := v.Validate(t.Context(), s.Token)
	if err != nil || id.User != "admin" || id.Project != "admin" || id.ProjectDomainID != "default" ||
		!slices.Contains(id.Roles, "reader") ||
		!id.Expires.Equal(s.Expires) || !id.In([]string{"admin"}, v.Own()) || id.In([]string{"services"}, v.Own()) {
		t.Errorf("%+v %v", id, err)
	}
	unscoped := e.Credentials
	unscoped.Project = ""
	c, _ := newClient(url, transport)
	u, err := c.login(t.Context(), unscoped, false)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := v.Validate(t.Context(), u.Token); err != nil || id.ProjectID != "" || len(id.Roles) != 0 {
		t.Errorf("a token of no project: %+v %v", id, err)
	}
	if _, err := c.validate(t.Context(), "nonsense", s.Token); !errors.Is(err, errOwn) {
		t.Errorf("a token of our own that is none: %v", err)
	}
	if _, err := v.Validate(t.Context(), "gAAAAAnonsense"); !errors.Is(err, ErrToken) {
		t.Errorf("a token that is none: %v", err)
	}
	sameShape(t, url, s, u)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, c.tokens, nil)
	r.Header.Set("X-Auth-Token", s.Token)
	r.Header.Set("X-Subject-Token", s.Token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE: %d", resp.StatusCode)
	}
	if _, err := v.Validate(t.Context(), s.Token); !errors.Is(err, ErrToken) {
		t.Errorf("a revoked token: %v", err)
	}
}

// sameShape asks a real Keystone and that of keystonetest the same, and compares status,
// headers and the keys of the documents.
func sameShape(t *testing.T, url string, scoped, unscoped Session) {
	t.Helper()
	k := &keystonetest.Keystone{
		Users: map[string]keystonetest.User{"admin": {Password: "secret",
			Roles: map[string][]string{"admin": {"admin", "member", "reader"}}}},
		Catalog: map[string]string{"identity": "x", "config": "y"}, URL: url,
	}
	model := httptest.NewServer(k)
	defer model.Close()
	s, u := k.Issue("admin", "admin"), k.Issue("admin", "")
	for name, c := range map[string]struct{ own, subject, ownThere, subjectThere string }{
		"a token":            {scoped.Token, scoped.Token, s, s},
		"of no project":      {scoped.Token, unscoped.Token, s, u},
		"an unknown one":     {scoped.Token, "gAAAAA", s, "gAAAAA"},
		"none of our own":    {"gAAAAA", scoped.Token, "gAAAAA", s},
		"neither of the two": {"gAAAAA", "gAAAAA", "gAAAAA", "gAAAAA"},
	} {
		real, there := shape(t, url, c.own, c.subject), shape(t, model.URL, c.ownThere, c.subjectThere)
		if real != there {
			t.Errorf("%s: Keystone\n%s\nthe model\n%s", name, real, there)
		}
	}
}

// shape is the status, the headers that count and the paths of a document.
func shape(t *testing.T, url, own, subject string) string {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v3/auth/tokens", nil)
	r.Header.Set("X-Auth-Token", own)
	r.Header.Set("X-Subject-Token", subject)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, e := range v {
				walk(at+"."+key, e)
			}
		case []any:
			for _, e := range v {
				walk(at+"[]", e)
			}
		default:
			paths[fmt.Sprintf("%s %T", at, v)] = true
		}
	}
	walk("", doc)
	out := []string{fmt.Sprint(resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("WWW-Authenticate"),
		resp.Header.Get("X-Subject-Token") == subject)}
	for p := range paths {
		out = append(out, p)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
