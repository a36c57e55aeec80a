package main

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/config/httpapi/configdbapi"
	"edgespan/platform/keystone"
)

// factsRoles are the words for what a caller of ConfigDB may do, in the order of it.
var factsRoles = []configdbapi.Role{configdbapi.Viewer, configdbapi.Operator, configdbapi.Admin}

// checkAccess refuses what can never say who a caller of ConfigDB is.
func (o *options) checkAccess(no func(format string, args ...any)) {
	if o.Auth == authNone {
		for _, f := range []struct{ name, value string }{
			{"passwd-file", string(o.PasswdFile)}, {"keystone-url", string(o.KeystoneURL)}, {"client-ca-file", string(o.ClientCAFile)},
		} {
			if f.value != "" {
				no("--%s: is set beside --auth none, which asks nobody who it is: --auth %s is allowed with it", f.name, authToken)
			}
		}
	}
	if o.ClientCRLFile != "" && o.ClientCAFile == "" {
		no("--client-crl-file: is set without --client-ca-file: both or the latter alone are allowed")
	}
	if o.KeystoneWindow < 1 || o.KeystoneWindow > 3600 {
		no("--keystone-window-s: is %d: 1 to 3600 are allowed", o.KeystoneWindow)
	}
	if _, err := o.keystoneRoles(); err != nil {
		no("--keystone-roles: %w", err)
	}
	o.checkKeystone(no)
}

// checkKeystone is for what belongs to one Keystone: all of it, or nothing.
func (o *options) checkKeystone(no func(format string, args ...any)) {
	needed := []struct{ name, value string }{
		{"keystone-user", string(o.KeystoneUser)}, {"keystone-password-file", string(o.KeystonePasswordFile)}, {"keystone-project", string(o.KeystoneProject)},
	}
	more := string(o.KeystoneUserDomain + o.KeystoneProjectDomain + o.KeystoneCAFile)
	for _, f := range needed {
		if o.KeystoneURL != "" && f.value == "" {
			no("--%s: is missing beside --keystone-url", f.name)
		}
		more += f.value
	}
	if o.KeystoneURL != "" {
		if _, err := keystone.Base(string(o.KeystoneURL)); err != nil {
			no("--keystone-url: is %w", err)
		}
	} else if more != "" || len(o.KeystoneProjects) > 0 {
		no("--keystone-url: is missing beside --keystone-…: http://HOST:PORT and https://HOST:PORT are allowed")
	}
}

// keystoneRoles are our roles by those of Keystone.
func (o *options) keystoneRoles() (map[string]configdbapi.Role, error) {
	out := map[string]configdbapi.Role{}
	for _, pair := range o.KeystoneRoles {
		name, word, found := strings.Cut(pair, "=")
		role := configdbapi.Role(word)
		if !found || name == "" || !slices.Contains(factsRoles, role) {
			return nil, fmt.Errorf("has %.80q: ROLE=viewer, ROLE=operator and ROLE=admin are allowed", pair)
		}
		if other, twice := out[name]; twice && other != role {
			return nil, fmt.Errorf("has %.40q as %s and as %s: one is allowed", name, other, role)
		}
		out[name] = role
	}
	return out, nil
}
