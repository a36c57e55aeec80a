package configdbcli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/platform/keystone"
)

// configService is the service type of ConfigDB in Keystone's catalog (reference fuel-configdb §5).
const configService = "config"

// doorFlags are the credentials of ConfigDB, in addition to those of all commands that ask a controller.
type doorFlags struct {
	user, passwordFile string
	insecure           bool
}

func (d *doorFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&d.user, "user", "", "authenticate as this user with a password (Basic) instead of a token")
	f.StringVar(&d.passwordFile, "password-file", "", "file with the password of --user (default: EDGESPAN_PASSWORD)")
	f.BoolVar(&d.insecure, "insecure", false,
		"do not verify ConfigDB's certificate: an attacker on the path can read and change everything")
}

// open returns a client of the ConfigDB that flags, the environment, Keystone's catalog or a context name.
func (c *factsCall) open(ctx context.Context) (*configdbapi.Client, error) {
	where, cloud, err := c.where(ctx)
	if err != nil {
		return nil, err
	}
	if c.door.insecure {
		if c.a.Fleet.CAFile != "" || c.a.Fleet.CASHA256 != "" {
			return nil, term.Exclusive("--insecure", "--ca-file or --ca-sha256")
		}
		where.CAFile, where.CASHA256 = "", ""
	}
	transport, err := where.Transport()
	if err != nil {
		return nil, err
	}
	if c.door.insecure { // a pin has its own check and has set InsecureSkipVerify already
		transport.TLSClientConfig.InsecureSkipVerify = true
	}
	o := configdbapi.Options{URL: where.Controller, Transport: transport}
	if o.Authorize, err = c.who(where.TokenFile); err != nil {
		return nil, err
	}
	if o.Authorize == nil && cloud != nil {
		if err := cloud.enter(ctx); err != nil {
			return nil, err
		}
		cloud.next, o.Transport = transport, cloud
	}
	client, err := configdbapi.NewClient(o)
	if err != nil {
		return nil, term.WithClass(term.ExitUsage, err)
	}
	return client, nil
}

// where returns the address of ConfigDB, what its certificate is checked against, and the Keystone user to ask as; nil
// is none.
func (c *factsCall) where(ctx context.Context) (term.Target, *visitor, error) {
	a := c.a
	if a.Env("OS_AUTH_URL") == "" {
		t, err := a.FleetTarget()
		return t, nil, err
	}
	v := &visitor{}
	v.env, v.fault = keystone.FromEnv(a.Env)
	if a.Setting(a.Fleet.Controller, "EDGESPAN_CONTROLLER", "")+a.Setting(a.Fleet.Named, "EDGESPAN_CONTEXT", "") != "" {
		t, err := a.FleetTarget()
		return t, v, err
	}
	if err := v.enter(ctx); err != nil {
		return term.Target{}, nil, err
	}
	endpoint, err := v.session.Endpoint(configService, v.env.Interface, v.env.Region)
	if err != nil {
		return term.Target{}, nil, term.WithClass(term.ExitUsage, err)
	}
	// The catalog's address acts like a flag: the credentials of a context belong to another controller.
	fleet := a.Fleet
	defer func() { a.Fleet = fleet }()
	a.Fleet.Controller = endpoint
	t, err := a.FleetTarget()
	if t.CAFile == "" && t.CASHA256 == "" {
		t.CAFile = v.env.CAFile
	}
	return t, v, err
}

// who returns the function that adds credentials to a request, or nil without credentials.
func (c *factsCall) who(tokenFile string) (func(*http.Request), error) {
	user := c.door.user
	switch {
	case user != "" && c.a.Fleet.TokenFile != "":
		return nil, term.Exclusive("--user", "--token-file")
	case user == "" && c.a.Fleet.TokenFile == "":
		user = c.a.Env("EDGESPAN_USER")
	}
	switch {
	case user != "":
		password, err := c.password()
		if err != nil {
			return nil, err
		}
		return configdbapi.WithPassword(user, password), nil
	case c.door.passwordFile != "":
		return nil, term.Requires("--password-file", "--user or EDGESPAN_USER")
	case tokenFile != "":
		token, err := term.ReadToken(tokenFile)
		if err != nil {
			return nil, err
		}
		return configdbapi.WithToken(token), nil
	}
	return nil, nil
}

// password returns the password of --user. Its errors never quote it.
func (c *factsCall) password() (string, error) {
	file := c.door.passwordFile
	if file == "" {
		if p := c.a.Env("EDGESPAN_PASSWORD"); p != "" {
			return p, nil
		}
		return "", term.Required("--password-file", "or set EDGESPAN_PASSWORD to the password of --user")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read password: %w", term.Unreadable(err))
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", term.Usagef("--password-file: %s: no password: must be one line", file)
	}
	return password, nil
}

// visitor sends requests with a Keystone token, and logs in again when the token is refused: it may have expired in a
// long watch.
type visitor struct {
	env   keystone.Env
	fault error // what the environment lacks for a login; only a login returns it
	next  *http.Transport

	mu      sync.Mutex
	session keystone.Session
}

// enter logs in unless there is a session.
func (v *visitor) enter(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.session.Token != "" {
		return nil
	}
	if v.fault != nil {
		return term.WithClass(term.ExitUsage, v.fault)
	}
	s, err := v.env.Login(ctx)
	if err == nil {
		v.session = s
	}
	return err
}

// again logs in again, unless another request has done so since tried was read.
func (v *visitor) again(ctx context.Context, tried string) (string, error) {
	v.mu.Lock()
	if v.session.Token == tried {
		v.session.Token = ""
	}
	v.mu.Unlock()
	err := v.enter(ctx)
	return v.token(), err
}

func (v *visitor) token() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.session.Token
}

// RoundTrip sends a request, and once more with a new token if the first is refused.
func (v *visitor) RoundTrip(r *http.Request) (*http.Response, error) {
	token := v.token()
	resp, err := v.with(r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	renewed, fault := v.again(r.Context(), token)
	if fault != nil {
		return resp, nil //nolint:nilerr // return the refusal, which has the reason
	}
	if r.GetBody != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // as above
		}
	}
	_ = resp.Body.Close() // only read
	return v.with(r, renewed)
}

// with sends a copy of the request with a token: a RoundTripper must not change its request.
func (v *visitor) with(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Auth-Token", token)
	return v.next.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of the transport.
func (v *visitor) CloseIdleConnections() { v.next.CloseIdleConnections() }
