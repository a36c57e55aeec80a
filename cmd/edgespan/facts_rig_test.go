package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	keeper "edgespan/actors/facts"
	"edgespan/config/httpapi/factsapi"
	"edgespan/platform/store/bolt"
)

// factsDoor knows a token of an admin and of a viewer, and olga's password; tokens, if it is there, knows more.
type factsDoor struct{ tokens func(string) bool }

func (d factsDoor) Authenticate(r *http.Request) (factsapi.Caller, error) {
	token := r.Header.Get("X-Auth-Token")
	user, password, _ := r.BasicAuth()
	switch {
	case token == "secret":
		return factsapi.Caller{Name: "ann", Role: factsapi.Admin}, nil
	case token == "looks":
		return factsapi.Caller{Name: "vera", Role: factsapi.Viewer}, nil
	case user == "olga" && password == "pass word":
		return factsapi.Caller{Name: "olga", Role: factsapi.Operator}, nil
	case d.tokens != nil && d.tokens(token):
		return factsapi.Caller{Name: "kay", Role: factsapi.Admin}, nil
	}
	return factsapi.Caller{}, &factsapi.Denied{Status: http.StatusUnauthorized, Text: "nobody is known by that"}
}

func (factsDoor) Challenges() []string { return []string{`Basic realm="edgespan"`} }

// factsHandler is the real ConfigDB on a store of its own.
func factsHandler(t *testing.T, door factsapi.Authenticator) http.Handler {
	t.Helper()
	store, err := bolt.Open(filepath.Join(t.TempDir(), "store"), bolt.Options{UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	k, err := keeper.Start(keeper.Options{Store: store, Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return factsapi.Handler(k, door)
}

// serveFacts serves it, and is the environment of one who asks it as an admin.
func serveFacts(t *testing.T) map[string]string {
	t.Helper()
	s := httptest.NewServer(factsHandler(t, factsDoor{}))
	t.Cleanup(s.Close)
	return map[string]string{"EDGESPAN_CONTROLLER": s.URL, "EDGESPAN_TOKEN_FILE": secretFile(t, "secret"), "HOME": t.TempDir()}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// typed is a command line, what it is given, and what it says.
type typed struct {
	line, stdin string
	code        int
	out, err    string // err: a part of it, "": nothing
}

// types types command lines, one after the other.
func types(t *testing.T, env map[string]string, all []typed) {
	t.Helper()
	for _, s := range all {
		got := cli(t, env, s.stdin, shellWords(s.line)...)
		if got.code != s.code || got.out != s.out || s.err == "" && got.err != "" || !strings.Contains(got.err, s.err) {
			t.Errorf("edgespan %s\nexit %d, out %q, err %q\nwant %d, %q, %q", s.line, got.code, got.out, got.err, s.code, s.out, s.err)
		}
	}
}

// anEnvironment is environment 1 of a component fuel with astute (1), globals (2) and override/node (3), whose only level
// is nodes.
var anEnvironment = []typed{
	{line: "comp create --name fuel", out: "{\n  \"id\": 1,\n  \"name\": \"fuel\",\n  \"resource_definitions\": []\n}\n"},
	{line: "def create -n astute -i fuel", out: "{\n  \"component_id\": 1,\n  \"content\": null,\n  \"id\": 1,\n  \"name\": \"astute\"\n}\n"},
	{line: "def create -n globals -i 1", out: "{\n  \"component_id\": 1,\n  \"content\": null,\n  \"id\": 2,\n  \"name\": \"globals\"\n}\n"},
	{line: "def create -n override/node -i 1", out: "{\n  \"component_id\": 1,\n  \"content\": null,\n  \"id\": 3,\n  \"name\": \"override/node\"\n}\n"},
	{line: "env create --id 1 -i fuel -l nodes", out: "{\n  \"components\": [\n    1\n  ],\n  \"hierarchy_levels\": [\n    \"nodes\"\n  ],\n  \"id\": 1\n}\n"},
}

// serveEnvironment serves that environment.
func serveEnvironment(t *testing.T) map[string]string {
	t.Helper()
	env := serveFacts(t)
	types(t, env, anEnvironment)
	return env
}
