package keystone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/platform/pki"
)

const (
	requestTimeout = 5 * time.Second // of one request
	maxAtOnce      = 16              // connections
	largestBody    = 4 << 20         // bytes of an answer; a catalog of many regions has some 100 KB
)

// Refusals of Keystone.
var (
	// ErrToken reports that a token does not exist or has expired.
	ErrToken = errors.New("validate token: unknown to Keystone, or expired")
	// ErrRefused reports a wrong password, or a user without access to the project.
	ErrRefused = config.Permission.NewError("Keystone refused the user, the password or the project")
	// errOwn reports that Keystone refused the controller's own token.
	errOwn = errors.New("Keystone refused the controller's own token")
)

// Away reports that Keystone is unreachable.
type Away struct {
	Why  string
	Wait time.Duration // until the next attempt; 0: unknown
	err  error
}

func (a *Away) Error() string { return "ask Keystone: " + a.Why }
func (a *Away) Unwrap() error { return a.err }

// Is makes errors.Is(err, config.Unreachable) true.
func (a *Away) Is(target error) bool { return target == config.Unreachable }

// Identity is the user and the project of a token.
type Identity struct {
	User, UserID, UserDomain       string
	Project, ProjectID             string // "" for a token without a project
	ProjectDomain, ProjectDomainID string // name and ID
	Roles                          []string
	Expires                        time.Time
}

// AnyProject in a list of projects stands for all of them, and for tokens without a project.
const AnyProject = "*"

// In reports whether the token is for one of the projects. Each is an ID, DOMAIN/NAME, or a name in the domain of the
// controller's own project.
func (id Identity) In(projects []string, own Identity) bool {
	return slices.ContainsFunc(projects, func(p string) bool {
		domain, name, full := strings.Cut(p, "/")
		switch {
		case p == AnyProject:
			return true
		case id.ProjectID == "":
			return false
		case full:
			return name == id.Project && (domain == id.ProjectDomain || domain == id.ProjectDomainID)
		}
		return p == id.ProjectID || p == id.Project && id.ProjectDomainID == own.ProjectDomainID
	})
}

// The parts of Keystone's API v3 documents that this package uses.
type (
	tokenDoc struct {
		Token struct {
			Expires time.Time  `json:"expires_at"`
			User    namedDoc   `json:"user"`
			Project namedDoc   `json:"project"`
			Roles   []namedDoc `json:"roles"`
			Catalog []service  `json:"catalog"`
		} `json:"token"`
	}
	namedDoc struct {
		ID     string    `json:"id,omitempty"`
		Name   string    `json:"name,omitempty"`
		Domain *namedDoc `json:"domain,omitempty"`
	}
	service struct {
		Type      string     `json:"type"`
		Endpoints []endpoint `json:"endpoints"`
	}
	endpoint struct {
		Interface string `json:"interface"`
		Region    string `json:"region"`
		RegionID  string `json:"region_id"`
		URL       string `json:"url"`
	}
	loginDoc struct {
		Auth authDoc `json:"auth"`
	}
	authDoc struct {
		Identity identityDoc `json:"identity"`
		Scope    *scopeDoc   `json:"scope,omitempty"`
	}
	identityDoc struct {
		Methods  []string    `json:"methods"`
		Password passwordDoc `json:"password"`
	}
	passwordDoc struct {
		User userDoc `json:"user"`
	}
	userDoc struct {
		namedDoc
		Password string `json:"password"`
	}
	scopeDoc struct {
		Project namedDoc `json:"project"`
	}
)

// identity returns the identity in a token's document, or an error if it is invalid.
func (d *tokenDoc) identity() (Identity, error) {
	t := &d.Token
	if t.User.ID == "" || t.Expires.IsZero() {
		return Identity{}, errors.New("invalid answer: no user.id and expires_at")
	}
	id := Identity{
		User: t.User.Name, UserID: t.User.ID, UserDomain: t.User.domain().Name,
		Project: t.Project.Name, ProjectID: t.Project.ID, ProjectDomain: t.Project.domain().Name,
		ProjectDomainID: t.Project.domain().ID,
		Expires:         t.Expires,
	}
	for _, r := range t.Roles {
		id.Roles = append(id.Roles, r.Name)
	}
	return id, nil
}

func (d namedDoc) domain() namedDoc {
	if d.Domain == nil {
		return namedDoc{}
	}
	return *d.Domain
}

// client is the client of one Keystone.
type client struct {
	tokens string // URL of its tokens
	http   *http.Client
}

// newClient accepts the address of an identity API with or without its version.
func newClient(address string, t http.RoundTripper) (client, error) {
	base, err := Base(address)
	if err != nil {
		return client{}, err
	}
	return client{base + "/v3/auth/tokens", &http.Client{
		Transport: t, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Base returns the address of an identity API without its version; old environments still contain v2.0.
func Base(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("invalid value %.200q: must be http://HOST:PORT or https://HOST:PORT, with or without a path",
			address)
	}
	base := strings.TrimRight(address, "/")
	for _, version := range []string{"/v2.0", "/v3"} {
		base = strings.TrimSuffix(base, version)
	}
	return strings.TrimRight(base, "/"), nil
}

// Transport returns a transport that trusts the CAs of a PEM file, by default those of the machine.
func Transport(caFile string) (*http.Transport, error) {
	settings, err := pki.ClientFiles{CA: caFile}.TLS()
	if err != nil {
		return nil, err
	}
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t = &http.Transport{}
	}
	t = t.Clone()
	t.TLSClientConfig, t.MaxConnsPerHost, t.MaxIdleConnsPerHost = settings, maxAtOnce, maxAtOnce
	return t, nil
}

// ask sends one request and decodes the body of the answer into out if the status is want. Any other status is an
// error with Keystone's message. The status is 0 if there was no answer.
func (c client) ask(r *http.Request, want int, out any) (status int, head http.Header, err error) {
	r.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, &Away{Why: "it does not answer: " + bare(err), err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestBody+1))
	switch {
	case err != nil:
		return 0, nil, &Away{Why: "truncated answer: " + bare(err), err: err}
	case resp.StatusCode != want:
		return resp.StatusCode, nil, &Away{Why: fmt.Sprintf("it answers %d%s", resp.StatusCode, reason(body))}
	case len(body) > largestBody:
		return 0, nil, &Away{Why: fmt.Sprintf("answer too long: must be at most %d bytes", largestBody)}
	}
	if err := json.Unmarshal(body, out); err != nil {
		return 0, nil, &Away{Why: "invalid answer for API v3: " + err.Error(), err: err}
	}
	return resp.StatusCode, resp.Header, nil
}

// bare returns an error of net/http without method and URL.
func bare(err error) string {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// reason returns the message in an error of Keystone, on one line for a log.
func reason(body []byte) string {
	var doc struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &doc) != nil || doc.Error.Message == "" {
		return ""
	}
	return fmt.Sprintf(": %.200q", doc.Error.Message)
}

// validate asks for the identity of a token, authenticated by the controller's own token.
func (c client) validate(ctx context.Context, own, token string) (Identity, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.tokens+"?nocatalog", nil)
	if err != nil {
		return Identity{}, err
	}
	r.Header.Set("X-Auth-Token", own)
	r.Header.Set("X-Subject-Token", token)
	var doc tokenDoc
	status, _, err := c.ask(r, http.StatusOK, &doc)
	switch {
	case status == http.StatusNotFound:
		return Identity{}, ErrToken
	case status == http.StatusUnauthorized:
		return Identity{}, errOwn
	case err != nil:
		return Identity{}, err
	}
	id, err := doc.identity()
	if err != nil {
		return Identity{}, &Away{Why: err.Error(), err: err}
	}
	return id, nil
}

// login gets a token for a password.
func (c client) login(ctx context.Context, who Credentials, catalog bool) (Session, error) {
	body, err := json.Marshal(who.document())
	if err != nil {
		return Session{}, err
	}
	address := c.tokens
	if !catalog {
		address += "?nocatalog"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return Session{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	var doc tokenDoc
	status, head, err := c.ask(r, http.StatusCreated, &doc)
	switch {
	case status == http.StatusUnauthorized:
		return Session{}, fmt.Errorf("log in as %s: %w", who.who(), ErrRefused)
	case err != nil:
		return Session{}, err
	}
	id, err := doc.identity()
	s := Session{Identity: id, Token: head.Get("X-Subject-Token"), catalog: doc.Token.Catalog}
	if err == nil && !plausible(s.Token) {
		err = errors.New("invalid answer: no token in X-Subject-Token")
	}
	if err != nil {
		return Session{}, &Away{Why: err.Error(), err: err}
	}
	return s, nil
}
