package serve

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
func (o *Options) checkAccess(no func(format string, args ...any)) {
	if o.Auth == AuthNone {
		for _, f := range []struct{ name, value string }{
			{"passwd-file", string(o.PasswdFile)}, {"keystone-url", string(o.KeystoneURL)},
			{"client-ca-file", string(o.ClientCAFile)},
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
func (o *Options) checkKeystone(no func(format string, args ...any)) {
	needed := []struct{ name, value string }{
		{"keystone-user", string(o.KeystoneUser)}, {"keystone-password-file", string(o.KeystonePasswordFile)},
		{"keystone-project", string(o.KeystoneProject)},
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
func (o *Options) keystoneRoles() (map[string]configdbapi.Role, error) {
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

// loginSettings are who may log in at ConfigDB, beside the tokens of operators.
func (o *Options) loginSettings() []setting {
	return []setting{
		{"passwd-file", &o.PasswdFile,
			"file of users for Basic authentication at ConfigDB: a line USER:BCRYPT-HASH:ROLE each, as htpasswd -nB makes the " +
				"hash", serving},
		{"keystone-url", &o.KeystoneURL, "address of the Keystone (API v3) whose tokens count at ConfigDB", serving},
		{"keystone-user", &o.KeystoneUser, "user by whom the controller asks Keystone: one that may validate tokens",
			serving},
		{"keystone-user-domain", &o.KeystoneUserDomain, "name of that user's domain (default the domain whose id is default)",
			serving},
		{"keystone-password-file", &o.KeystonePasswordFile, "file of that user's password, read at each login", serving},
		{"keystone-project", &o.KeystoneProject, "project that this user logs in to", serving},
		{"keystone-project-domain", &o.KeystoneProjectDomain,
			"name of that project's domain (default the domain whose id is default)", serving},
		{"keystone-projects", &o.KeystoneProjects,
			"projects whose tokens count: NAME in that domain, DOMAIN/NAME, an id, or * for all (default that of " +
				"--keystone-project)", serving},
		{"keystone-roles", &o.KeystoneRoles,
			"what Keystone's roles are here: ROLE=viewer, ROLE=operator or ROLE=admin each; a caller has the highest of its own",
			serving},
		{"keystone-ca-file", &o.KeystoneCAFile, "PEM file of the CAs of Keystone; without, those of this machine", serving},
		{"keystone-window-s", &o.KeystoneWindow,
			"seconds for which an answer of Keystone counts: how long a revoked token is still taken at most", serving},
	}
}

// seedSettings are those that the seed's controller had, under their names.
func (o *Options) seedSettings() []setting {
	return []setting{
		{"unknown-hw-queries-enabled", &o.UnknownHW, "ask nodes of unknown hardware for their base config", serving},
		{"config-staged-rollout-enabled", &o.StagedRollout, "roll changes out in batches", serving},
		{"consecutive-reconfig-delay-s", &o.ReconfigDelay, "least seconds between two pushes to one node", serving},
		{"unknown-hw-config-req-delay-s", &o.BoardDelay, "least seconds between two questions to nodes of one unknown board",
			serving},
		{"config-actions-req-timeout-s", &o.ActionsTime, "seconds for which the answers to a preview of actions are kept",
			serving},
		{"config-confirm-timeout-s", &o.ConfirmTime, "seconds within which a pushed config must be confirmed", serving},
		{"firmware-parameter-update-delay", &o.FirmwareDelay, "taken for the seed's start scripts; nothing here reads it",
			serving},
		{"status-reports-interval", &o.StatusInterval,
			"taken for the seed's start scripts; nothing here reads it: each report is compared as it comes", serving},
		{"topology-info-sync-interval", &o.TopologyGap,
			"taken for the seed's start scripts; nothing here reads it: the facts are written when the topology changes",
			serving},
	}
}
