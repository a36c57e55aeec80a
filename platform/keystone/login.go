package keystone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Credentials are a user, by name or ID, with a password, and the project of the requested token. The default domain
// is Keystone's first one, whose ID is "default".
type Credentials struct {
	User, UserID, UserDomain, UserDomainID             string
	Password                                           string
	Project, ProjectID, ProjectDomain, ProjectDomainID string
}

func (c Credentials) document() loginDoc {
	var d loginDoc
	d.Auth.Identity.Methods = []string{"password"}
	d.Auth.Identity.Password.User = userDoc{named(c.UserID, c.User, c.UserDomainID, c.UserDomain), c.Password}
	if c.Project != "" || c.ProjectID != "" {
		d.Auth.Scope = &scopeDoc{named(c.ProjectID, c.Project, c.ProjectDomainID, c.ProjectDomain)}
	}
	return d
}

// named identifies a user or project by ID, or by name in a domain.
func named(id, name, domainID, domain string) namedDoc {
	switch {
	case id != "":
		return namedDoc{ID: id}
	case domainID != "":
		return namedDoc{Name: name, Domain: &namedDoc{ID: domainID}}
	case domain != "":
		return namedDoc{Name: name, Domain: &namedDoc{Name: domain}}
	}
	return namedDoc{Name: name, Domain: &namedDoc{ID: "default"}}
}

// who describes the credentials in messages.
func (c Credentials) who() string {
	return fmt.Sprintf("user %q in project %q", cmp.Or(c.User, c.UserID), cmp.Or(c.Project, c.ProjectID))
}

// Session is a token with its catalog.
type Session struct {
	Token string
	Identity
	catalog []service
}

// Endpoint returns the address of a service of a type at an interface, such as public. Without a region it must be
// unique.
func (s Session) Endpoint(kind, face, region string) (string, error) {
	var types, found, regions []string
	for _, svc := range s.catalog {
		types = append(types, svc.Type)
		for _, e := range svc.Endpoints {
			if svc.Type != kind || e.Interface != face || e.URL == "" {
				continue
			}
			regions = append(regions, cmp.Or(e.RegionID, e.Region))
			if region == "" || region == e.Region || region == e.RegionID {
				found = append(found, strings.TrimRight(e.URL, "/"))
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	where := fmt.Sprintf("find service %q in Keystone's catalog: ", kind)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("%s%d endpoints: set OS_REGION_NAME to one of %s", where, len(found),
			strings.Join(regions, ", "))
	case len(regions) > 0:
		return "", fmt.Errorf("%sunknown region %q: must be one of %s", where, region, strings.Join(regions, ", "))
	case slices.Contains(types, kind):
		return "", fmt.Errorf("%sit has no endpoint at interface %q", where, face)
	}
	return "", fmt.Errorf("%sthe catalog has %s", where, cmp.Or(strings.Join(types, ", "), "no services"))
}

// Env are the login settings of an environment (OpenStack's OS_… variables).
type Env struct {
	URL string
	Credentials
	Region    string
	Interface string // public, internal or admin
	CAFile    string
}

// FromEnv reads the variables. Its error names all that are missing or invalid.
func FromEnv(env func(string) string) (Env, error) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := env(n); v != "" {
				return v
			}
		}
		return ""
	}
	e := Env{
		URL: env("OS_AUTH_URL"), Region: env("OS_REGION_NAME"), CAFile: env("OS_CACERT"),
		Interface: strings.TrimSuffix(cmp.Or(first("OS_INTERFACE", "OS_ENDPOINT_TYPE"), "public"), "URL"),
		Credentials: Credentials{
			User: env("OS_USERNAME"), UserID: env("OS_USER_ID"), Password: env("OS_PASSWORD"),
			UserDomain: env("OS_USER_DOMAIN_NAME"), UserDomainID: env("OS_USER_DOMAIN_ID"),
			Project: first("OS_PROJECT_NAME", "OS_TENANT_NAME"), ProjectID: first("OS_PROJECT_ID", "OS_TENANT_ID"),
			ProjectDomain: env("OS_PROJECT_DOMAIN_NAME"), ProjectDomainID: env("OS_PROJECT_DOMAIN_ID"),
		},
	}
	var faults []error
	if _, err := Base(e.URL); err != nil {
		faults = append(faults, fmt.Errorf("OS_AUTH_URL: %w", err))
	}
	for _, n := range []struct{ value, name string }{
		{cmp.Or(e.User, e.UserID), "OS_USERNAME"},
		{e.Password, "OS_PASSWORD"},
		{cmp.Or(e.Project, e.ProjectID), "OS_PROJECT_NAME or OS_TENANT_NAME"},
	} {
		if n.value == "" {
			faults = append(faults, fmt.Errorf("%s: required with OS_AUTH_URL", n.name))
		}
	}
	if !slices.Contains([]string{"public", "internal", "admin"}, e.Interface) {
		faults = append(faults,
			fmt.Errorf("OS_INTERFACE: invalid value %.40q: must be public, internal or admin", e.Interface))
	}
	return e, errors.Join(faults...)
}

// Login logs in. Its errors are ErrRefused and *Away.
func (e Env) Login(ctx context.Context) (Session, error) {
	t, err := Transport(e.CAFile)
	if err != nil {
		return Session{}, fmt.Errorf("OS_CACERT: %w", err)
	}
	defer t.CloseIdleConnections()
	return login(ctx, e.URL, e.Credentials, t)
}

func login(ctx context.Context, url string, who Credentials, t http.RoundTripper) (Session, error) {
	c, err := newClient(url, t)
	if err != nil {
		return Session{}, err
	}
	return c.login(ctx, who, true)
}
