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

// configService is the type of ConfigDB in Keystone's catalog (reference fuel-configdb §5).
const configService = "config"

// doorFlags say who asks, beside what all commands have that ask a controller.
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

// open is a client of the ConfigDB that flags, environment, Keystone's catalog or a context name.
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
	if c.door.insecure { // a pin checks in a way of its own, and has set it
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

// where says where ConfigDB is and what its certificate is checked by, and with which user of Keystone
// it may be asked; nil: there is none.
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
	// The catalog stands in the place of a flag: what a context has is of another controller.
	fleet := a.Fleet
	defer func() { a.Fleet = fleet }()
	a.Fleet.Controller = endpoint
	t, err := a.FleetTarget()
	if t.CAFile == "" && t.CASHA256 == "" {
		t.CAFile = v.env.CAFile
	}
	return t, v, err
}

// who is what says who asks; nil if nobody has said it.
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
		return nil, term.Needs("--password-file", "--user or EDGESPAN_USER")
	case tokenFile != "":
		token, err := term.ReadToken(tokenFile)
		if err != nil {
			return nil, err
		}
		return configdbapi.WithToken(token), nil
	}
	return nil, nil
}

// password is that of --user. What is wrong with it never quotes it.
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

// visitor asks with a token of Keystone, and logs in once more when the token is refused: it may have
// expired in a long watch.
type visitor struct {
	env   keystone.Env
	fault error // what the environment lacks to log in; it matters to who must
	next  *http.Transport

	mu      sync.Mutex
	session keystone.Session
}

// enter logs in, if that is not done yet.
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

// again logs in once more, unless somebody has done so since a token was tried.
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

// RoundTrip asks, and once more with a new token where the first is refused.
func (v *visitor) RoundTrip(r *http.Request) (*http.Response, error) {
	token := v.token()
	resp, err := v.with(r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	renewed, fault := v.again(r.Context(), token)
	if fault != nil {
		return resp, nil //nolint:nilerr // the refusal is the answer, with its reason
	}
	if r.GetBody != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // as above
		}
	}
	_ = resp.Body.Close() // only read from
	return v.with(r, renewed)
}

// with sends a request with a token: a RoundTripper changes no request that it was given.
func (v *visitor) with(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Auth-Token", token)
	return v.next.RoundTrip(r)
}

// CloseIdleConnections drops those of the transport.
func (v *visitor) CloseIdleConnections() { v.next.CloseIdleConnections() }
