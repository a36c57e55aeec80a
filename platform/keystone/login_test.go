package keystone

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/platform/keystone/keystonetest"
)

func TestLogInFromTheEnvironment(t *testing.T) {
	k := &keystonetest.Keystone{
		Users:   map[string]keystonetest.User{"anna": {Password: "a", Roles: map[string][]string{"admin": {"admin"}}}},
		Catalog: map[string]string{"config": "https://configdb.test:8443/api/v1/config/", "identity": "https://k.test/v3"},
	}
	s := httptest.NewUnstartedServer(k)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake without the CA
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, env, want string }{
		{"an openrc of today",
			"OS_AUTH_URL=@/v3 OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin OS_USER_DOMAIN_NAME=Default " +
				"OS_PROJECT_DOMAIN_NAME=Default OS_CACERT=" + ca + " OS_REGION_NAME=RegionOne", ""},
		{"one of Fuel's", "OS_AUTH_URL=@/v2.0/ OS_USERNAME=anna OS_PASSWORD=a OS_TENANT_NAME=admin " +
			"OS_ENDPOINT_TYPE=publicURL OS_CACERT=" + ca, ""},
		{"domains by id", "OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin OS_USER_DOMAIN_ID=default " +
			"OS_PROJECT_DOMAIN_ID=default OS_CACERT=" + ca, ""},
		{"a password that is wrong", "OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=b OS_PROJECT_NAME=admin OS_CACERT=" + ca,
			`log in as user "anna" in project "admin": Keystone refused the user, the password or the project`},
		{"another domain", "OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin OS_USER_DOMAIN_NAME=x " +
			"OS_CACERT=" + ca, "Keystone refused"},
		{"another region", "OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin OS_REGION_NAME=Two OS_CACERT=" + ca, `unknown region "Two": must be one of RegionOne`},
		{"another interface",
			"OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin OS_INTERFACE=admin OS_CACERT=" + ca,
			`it has no endpoint at interface "admin"`},
		{"no CA", "OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin", "certificate"},
		{"a CA that is not there", "OS_AUTH_URL=@ OS_USERNAME=anna OS_PASSWORD=a OS_PROJECT_NAME=admin OS_CACERT=/nowhere",
			"OS_CACERT: "},
	} {
		env := map[string]string{}
		for _, word := range strings.Fields(strings.ReplaceAll(c.env, "@", s.URL)) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
		e, err := FromEnv(func(name string) string { return env[name] })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := "", error(nil)
		session, err := e.Login(t.Context())
		if err == nil {
			got, err = session.Endpoint("config", e.Interface, e.Region)
		}
		switch {
		case c.want == "" && (err != nil ||
			got != "https://configdb.test:8443/api/v1/config" || session.Token == "" || session.User != "anna"):
			t.Errorf("%s: %q %v", c.name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestWhatAnEnvironmentLacks(t *testing.T) {
	_, err := FromEnv(func(name string) string {
		return map[string]string{"OS_AUTH_URL": "keystone:5000", "OS_INTERFACE": "private"}[name]
	})
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, want := range []string{`OS_AUTH_URL: invalid value "keystone:5000"`, "OS_USERNAME: ", "OS_PASSWORD: ",
		"OS_PROJECT_NAME or OS_TENANT_NAME: ", `OS_INTERFACE: invalid value "private": must be public, internal or admin`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func TestEndpointsOfACatalog(t *testing.T) {
	s := Session{catalog: []service{
		{"config", []endpoint{{"public", "one", "", "https://1"}, {"public", "", "two", "https://2/"},
			{"internal", "one", "", "https://3"}}},
		{"identity", []endpoint{{"public", "one", "", "https://4"}}},
	}}
	for _, c := range []struct{ kind, face, region, want string }{
		{"config", "public", "one", "https://1"},
		{"config", "public", "two", "https://2"},
		{"config", "internal", "", "https://3"},
		{"config", "public", "", "2 endpoints: set OS_REGION_NAME to one of one, two"},
		{"volume", "public", "", "the catalog has config, identity"},
	} {
		got, err := s.Endpoint(c.kind, c.face, c.region)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s %s %s: %s", c.kind, c.face, c.region, got)
		}
	}
}

func TestAddressesOfKeystone(t *testing.T) {
	for address, want := range map[string]string{
		"http://10.20.0.2:5000": "http://10.20.0.2:5000", "http://k:5000/v2.0/": "http://k:5000",
		"https://k/identity/v3":  "https://k/identity",
		"https://k/identity/v3/": "https://k/identity", "k:5000": "", "ftp://k": "", "https://a:b@k": "", "https://": "",
		"": "", "https://k?x": "",
	} {
		if got, err := Base(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", address, got, err)
		}
	}
}

// TestSecretsGoNowhereElse: a redirect would take a password or a token to whoever it names.
func TestSecretsGoNowhereElse(t *testing.T) {
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	e := Env{URL: s.URL, Credentials: Credentials{User: "anna", Password: "secret", Project: "p"}}
	a := new(Away)
	if _, err := e.Login(t.Context()); !errors.As(err, &a) || reached || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, reached: %v", err, reached)
	}
}
