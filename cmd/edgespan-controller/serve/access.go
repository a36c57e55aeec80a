package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/keystone"
	"edgespan/platform/passwd"
	"edgespan/platform/pki"
)

// access authenticates callers of ConfigDB by a token of an operator or of Keystone, a password, or a node's
// certificate. Credentials in a header take precedence over a certificate, and wrong credentials are final: no other
// credentials of the request replace them.
type access struct {
	tokens   func(ctx context.Context, hash string) (fleetapi.Caller, error)
	known    func(hash string) (fleetapi.Caller, bool)
	callers  *pki.Callers
	passwd   *passwd.File        // nil: no Basic authentication
	keystone *keystone.Validator // nil: no Keystone
	uri      string              // of Keystone, for callers without a token
	roles    map[string]configdbapi.Role
	projects []string
	limiter  *rest.AuthLimiter
}

// anyoneAuth is the authenticator of --auth none.
type anyoneAuth struct{}

func (anyoneAuth) Authenticate(*http.Request) (configdbapi.Caller, error) {
	return configdbapi.Caller{Name: "local", Role: configdbapi.Admin, Via: rest.ViaLoopback}, nil
}
func (anyoneAuth) Challenges() []string { return nil }

// factsAuth returns the authenticator of ConfigDB.
func (s *service) factsAuth() configdbapi.Authenticator {
	if s.o.Auth == AuthNone {
		return anyoneAuth{}
	}
	return s.access
}

// openAccess reads the files of credentials and roles. It sends no request to Keystone, which may be down.
func (s *service) openAccess() error {
	a := &access{tokens: func(ctx context.Context, hash string) (fleetapi.Caller, error) {
		return s.fleet.Authenticate(ctx, hash)
	}, known: func(hash string) (fleetapi.Caller, bool) { return s.fleet.Known(hash) }, limiter: rest.NewAuthLimiter()}
	s.access = a
	var faults []error
	failed := func(flag string, err error) {
		err = fmt.Errorf("--%s: %w", flag, err)
		if errors.Is(err, fs.ErrNotExist) {
			err = term.WithClass(term.ExitNotFound, err)
		}
		faults = append(faults, err)
	}
	reported := func(what string) func(error) {
		return func(err error) { s.log.Error(what+": reload failed: the previous ones stay in use", zap.Error(err)) }
	}
	var err error
	if a.callers, err = s.issuer.authority.Callers(pki.OtherCA{Cert: string(s.o.ClientCAFile),
		CRL: string(s.o.ClientCRLFile)}, reported("clients' CAs")); err != nil {
		failed("client-ca-file", err)
	} else if err := a.callers.Stale(); err != nil {
		s.log.Warn("--client-crl-file: expired: its certificates stay revoked, newer revocations of its CA are unknown",
			zap.Error(err))
	}
	if s.o.PasswdFile != "" {
		if a.passwd, err = passwd.Open(string(s.o.PasswdFile), roleWords(), reported("passwords")); err != nil {
			failed("passwd-file", err)
		}
	}
	if s.o.KeystoneURL != "" {
		if inClear(string(s.o.KeystoneURL)) {
			s.log.Warn("--keystone-url: http: the password of --keystone-user and all tokens are sent in clear text: must be "+
				"https", zap.Stringer("url", &s.o.KeystoneURL))
		}
		if err := a.openKeystone(s.o, s.log); err != nil {
			failed("keystone-url", err)
		}
	}
	return errors.Join(faults...)
}

// inClear reports whether a request to a URL crosses a network unencrypted.
func inClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback())
}

func roleWords() []string {
	var out []string
	for _, r := range factsRoles {
		out = append(out, string(r))
	}
	return out
}

func (a *access) openKeystone(o *Options, log *zap.Logger) error {
	secret := func() (string, error) {
		text, err := os.ReadFile(string(o.KeystonePasswordFile))
		return strings.TrimSpace(string(text)), err
	}
	if _, err := secret(); err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	transport, err := keystone.Transport(string(o.KeystoneCAFile))
	if err != nil {
		return err
	}
	base, err := keystone.Base(string(o.KeystoneURL))
	if err != nil {
		return err
	}
	if a.roles, err = o.keystoneRoles(); err != nil {
		return err
	}
	a.uri = base + "/v3"
	a.projects = o.KeystoneProjects
	if len(a.projects) == 0 {
		a.projects = []string{string(o.KeystoneProject)}
	}
	a.keystone, err = keystone.New(keystone.Options{
		URL: base, Secret: secret, Transport: transport, Window: time.Duration(o.KeystoneWindow) * time.Second,
		Own: keystone.Credentials{
			User: string(o.KeystoneUser), UserDomain: string(o.KeystoneUserDomain),
			Project: string(o.KeystoneProject), ProjectDomain: string(o.KeystoneProjectDomain),
		},
		Changed: func(err error) {
			if err != nil {
				log.Error("Keystone unreachable", zap.Error(err))
			} else {
				log.Info("Keystone reachable again")
			}
		},
	})
	return err
}

// reload rereads all files and returns the errors of those that can't be read.
func (a *access) reload() error {
	err := a.callers.Reload()
	if a.passwd != nil {
		err = errors.Join(err, a.passwd.Reload())
	}
	return err
}

// Challenges returns the values of WWW-Authenticate.
func (a *access) Challenges() []string {
	var out []string
	if a.keystone != nil {
		out = append(out, fmt.Sprintf("Keystone uri=%q", a.uri))
	}
	if a.passwd != nil {
		out = append(out, `Basic realm="edgespan"`)
	}
	return append(out, `Bearer realm="edgespan"`)
}

// errGuess marks wrong credentials that count as a guess.
var errGuess = errors.New("unknown")

// Authenticate returns the caller of a request. A request without credentials is not a guess: many clients first
// request the challenges.
func (a *access) Authenticate(r *http.Request) (configdbapi.Caller, error) {
	token, word, secret, err := credentials(r)
	if err != nil {
		return configdbapi.Caller{}, err
	}
	if token == "" && word == "" {
		return a.certificate(r)
	}
	if caller, known := a.atOnce(r, token, word, secret); known {
		return caller, nil // known callers don't wait for guesses from their address
	}
	look, kind := func() (configdbapi.Caller, error) { return a.token(r.Context(), token) }, rest.TryToken
	switch {
	case token != "":
	case strings.EqualFold(word, "Bearer"):
		look = func() (configdbapi.Caller, error) { return a.operator(r.Context(), secret) }
	case strings.EqualFold(word, "Basic") && a.passwd != nil:
		look, kind = func() (configdbapi.Caller, error) { return a.password(r) }, rest.TryPassword
	default:
		return configdbapi.Caller{}, a.unknown("Authorization: unsupported scheme %.40q", word)
	}
	var caller configdbapi.Caller
	wait := a.limiter.Check(r.Context(), r.RemoteAddr, kind, func() (wrong bool) {
		caller, err = look()
		return errors.Is(err, errGuess)
	})
	if wait > 0 {
		return configdbapi.Caller{}, &configdbapi.Denied{Status: http.StatusTooManyRequests,
			Text: "too many failed logins from this address", Wait: wait}
	}
	if errors.Is(err, errGuess) {
		return configdbapi.Caller{}, a.unknown("%s", err)
	}
	return caller, err
}

// atOnce returns a caller whose token or password is known without a query.
func (a *access) atOnce(r *http.Request, token, word, secret string) (configdbapi.Caller, bool) {
	if name, password, ok := r.BasicAuth(); ok && a.passwd != nil {
		role, known := a.passwd.Known(name, password)
		return configdbapi.Caller{Name: name, Role: configdbapi.Role(role), Via: rest.ViaBasic}, known
	}
	if token == "" && strings.EqualFold(word, "Bearer") {
		token = secret
	}
	if hash, err := pki.OperatorTokenHash(token); err == nil {
		who, known := a.known(hash)
		return configdbapi.Caller{Name: who.Name, Role: who.Role, Via: rest.ViaToken}, known
	}
	if a.keystone == nil || word != "" {
		return configdbapi.Caller{}, false
	}
	id, known := a.keystone.Known(token)
	if !known {
		return configdbapi.Caller{}, false
	}
	caller, err := a.keystoneCaller(id)
	return caller, err == nil
}

// credentials returns the credentials of the headers: the token of X-Auth-Token, or the two words of Authorization.
func credentials(r *http.Request) (token, word, secret string, err error) {
	all := slices.Concat(r.Header.Values("X-Auth-Token"), r.Header.Values("Authorization"))
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	if len(all) > 1 {
		return "", "", "", &configdbapi.Denied{Status: http.StatusUnauthorized,
			Text: "X-Auth-Token and Authorization: mutually exclusive"}
	}
	word, secret, _ = strings.Cut(r.Header.Get("Authorization"), " ")
	return r.Header.Get("X-Auth-Token"), word, strings.TrimSpace(secret), nil
}

// unknown returns a 401 that lists the accepted credentials.
func (a *access) unknown(format string, args ...any) error {
	allowed := []string{"X-Auth-Token or Authorization: Bearer with the token of an operator", "a node's certificate"}
	if a.passwd != nil {
		allowed = slices.Insert(allowed, 0, "Authorization: Basic")
	}
	if a.keystone != nil {
		allowed = slices.Insert(allowed, 0, "X-Auth-Token with a token of Keystone")
	}
	return &configdbapi.Denied{
		Status: http.StatusUnauthorized,
		Text:   fmt.Sprintf(format, args...) + ": must be " + config.OrList(allowed),
	}
}

func (a *access) certificate(r *http.Request) (configdbapi.Caller, error) {
	shown, err := a.callers.Identify(r.TLS)
	switch {
	case err != nil:
		return configdbapi.Caller{}, a.unknown("client certificate rejected: %s", err)
	case shown == pki.Shown{}:
		return configdbapi.Caller{}, a.unknown("no credentials")
	}
	name := shown.Node
	if name == "" {
		name = "cert:" + shown.Certname // prefixed: another CA may sign any name, even an operator's
	}
	return configdbapi.Caller{Name: name, Role: configdbapi.Operator, Via: rest.ViaCertificate, Node: shown.Node,
		Certname: shown.Certname}, nil
}

// token authenticates the token of X-Auth-Token, the only header that the original's clients send. The header accepts
// operators' tokens too; their format differs from Keystone's.
func (a *access) token(ctx context.Context, text string) (configdbapi.Caller, error) {
	if _, err := pki.OperatorTokenHash(text); err == nil || a.keystone == nil {
		return a.operator(ctx, text)
	}
	id, err := a.keystone.Validate(ctx, text)
	away := new(keystone.Away)
	switch {
	case errors.Is(err, keystone.ErrToken):
		return configdbapi.Caller{}, fmt.Errorf("X-Auth-Token: %w", errGuess)
	case errors.As(err, &away):
		return configdbapi.Caller{}, &configdbapi.Denied{Status: http.StatusServiceUnavailable,
			Text: "X-Auth-Token: Keystone unreachable: see the controller's log", Wait: away.Wait}
	case err != nil:
		return configdbapi.Caller{}, err
	}
	return a.keystoneCaller(id)
}

// keystoneCaller returns the caller for a Keystone user, with the highest of its roles. The user's project must be
// permitted.
func (a *access) keystoneCaller(id keystone.Identity) (configdbapi.Caller, error) {
	own := a.keystone.Own()
	c := configdbapi.Caller{Name: id.User, Via: rest.ViaKeystone}
	if id.UserDomain != own.UserDomain {
		c.Name += "@" + id.UserDomain
	}
	if c.Name == "" || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		c.Name = id.UserID
	}
	if !id.In(a.projects, own) {
		return configdbapi.Caller{}, &configdbapi.Denied{Status: http.StatusForbidden,
			Text: fmt.Sprintf("X-Auth-Token: tokens of project %.80q are not accepted here", id.Project)}
	}
	for _, name := range id.Roles {
		if role := a.roles[name]; slices.Index(factsRoles, role) > slices.Index(factsRoles, c.Role) {
			c.Role = role
		}
	}
	if c.Role == "" {
		return configdbapi.Caller{},
			&configdbapi.Denied{Status: http.StatusForbidden,
				Text: fmt.Sprintf("X-Auth-Token: none of the roles of %.80q in project %.80q grants access here", c.Name,
					id.Project)}
	}
	return c, nil
}

func (a *access) operator(ctx context.Context, text string) (configdbapi.Caller, error) {
	hash, err := pki.OperatorTokenHash(text)
	if err != nil {
		return configdbapi.Caller{}, fmt.Errorf("token: %w", errGuess)
	}
	who, err := a.tokens(ctx, hash)
	switch {
	case errors.Is(err, fleetapi.ErrNoToken):
		return configdbapi.Caller{}, fmt.Errorf("token: %w", errGuess)
	case err != nil:
		return configdbapi.Caller{}, &configdbapi.Denied{Status: http.StatusServiceUnavailable,
			Text: "token: cannot be checked now: store unavailable"}
	}
	return configdbapi.Caller{Name: who.Name, Role: who.Role, Via: rest.ViaToken}, nil
}

func (a *access) password(r *http.Request) (configdbapi.Caller, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		// The name of a header.
		return configdbapi.Caller{}, fmt.Errorf("Authorization: Basic: %w", errGuess) //nolint:staticcheck
	}
	role, err := a.passwd.Check(r.Context(), name, password)
	switch {
	case errors.Is(err, passwd.ErrDenied):
		return configdbapi.Caller{}, fmt.Errorf("user or password: %w", errGuess)
	case err != nil:
		return configdbapi.Caller{}, &configdbapi.Denied{Status: http.StatusServiceUnavailable,
			Text: "password: cannot be checked now: too many checks in progress", Wait: time.Second}
	}
	return configdbapi.Caller{Name: name, Role: configdbapi.Role(role), Via: rest.ViaBasic}, nil
}
