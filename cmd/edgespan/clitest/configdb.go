package clitest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	keeper "edgespan/actors/configdb"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/platform/store/bolt"
)

// FactsDoor knows a token of an admin, a token of a viewer, and the password of the user olga. Tokens, if set, accepts
// more tokens.
type FactsDoor struct{ Tokens func(string) bool }

func (d FactsDoor) Authenticate(r *http.Request) (configdbapi.Caller, error) {
	token := r.Header.Get("X-Auth-Token")
	user, password, _ := r.BasicAuth()
	switch {
	case token == "secret":
		return configdbapi.Caller{Name: "ann", Role: configdbapi.Admin}, nil
	case token == "looks":
		return configdbapi.Caller{Name: "vera", Role: configdbapi.Viewer}, nil
	case user == "olga" && password == "pass word":
		return configdbapi.Caller{Name: "olga", Role: configdbapi.Operator}, nil
	case d.Tokens != nil && d.Tokens(token):
		return configdbapi.Caller{Name: "kay", Role: configdbapi.Admin}, nil
	}
	return configdbapi.Caller{}, &configdbapi.Denied{Status: http.StatusUnauthorized, Text: "no caller is known by that"}
}

func (FactsDoor) Challenges() []string { return []string{`Basic realm="edgespan"`} }

// FactsHandler returns the real ConfigDB on a store of the test.
func FactsHandler(t *testing.T, door configdbapi.Authenticator) http.Handler {
	t.Helper()
	store, err := bolt.Open(filepath.Join(t.TempDir(), "store"), bolt.Options{UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	k, err := keeper.Start(keeper.Options{Store: store,
		Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }})
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
	return configdbapi.Handler(k, door)
}

// ServeFacts serves FactsHandler and returns the environment of a command that asks it as an admin.
func ServeFacts(t *testing.T) map[string]string {
	t.Helper()
	s := httptest.NewServer(FactsHandler(t, FactsDoor{}))
	t.Cleanup(s.Close)
	return map[string]string{"EDGESPAN_CONTROLLER": s.URL, "EDGESPAN_TOKEN_FILE": SecretFile(t, "secret"),
		"HOME": t.TempDir()}
}
