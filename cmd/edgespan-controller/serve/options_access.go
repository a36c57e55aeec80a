package serve

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/platform/keystone"
)

// factsRoles are the roles of ConfigDB's callers, in ascending order.
var factsRoles = []configdbapi.Role{configdbapi.Viewer, configdbapi.Operator, configdbapi.Admin}

// checkAccess refuses settings that can't authenticate callers of ConfigDB.
func (o *Options) checkAccess(no func(error)) {
	if o.Auth == AuthNone {
		for _, f := range []struct{ name, value string }{
			{"passwd-file", string(o.PasswdFile)}, {"keystone-url", string(o.KeystoneURL)},
			{"client-ca-file", string(o.ClientCAFile)},
		} {
			if f.value != "" {
				no(term.Requires("--"+f.name, "--auth "+authToken))
			}
		}
	}
	if o.ClientCRLFile != "" && o.ClientCAFile == "" {
		no(term.Requires("--client-crl-file", "--client-ca-file"))
	}
	if o.KeystoneWindow < 1 || o.KeystoneWindow > 3600 {
		no(term.Invalid("--keystone-window-s", int(o.KeystoneWindow), "1 to 3600"))
	}
	if _, err := o.keystoneRoles(); err != nil {
		no(term.Usagef("--keystone-roles: %w", err))
	}
	o.checkKeystone(no)
}

// checkKeystone checks that the flags of Keystone are given together.
func (o *Options) checkKeystone(no func(error)) {
	needed := []struct{ name, value string }{
		{"keystone-user", string(o.KeystoneUser)}, {"keystone-password-file", string(o.KeystonePasswordFile)},
		{"keystone-project", string(o.KeystoneProject)},
	}
	more := string(o.KeystoneUserDomain + o.KeystoneProjectDomain + o.KeystoneCAFile)
	for _, f := range needed {
		if o.KeystoneURL != "" && f.value == "" {
			no(term.Required("--"+f.name, "--keystone-url needs it"))
		}
		more += f.value
	}
	if o.KeystoneURL != "" {
		if _, err := keystone.Base(string(o.KeystoneURL)); err != nil {
			no(term.Usagef("--keystone-url: %w", err))
		}
	} else if more != "" || len(o.KeystoneProjects) > 0 {
		no(term.Required("--keystone-url", "the other --keystone-… flags need https://HOST:PORT or http://HOST:PORT"))
	}
}

// keystoneRoles parses --keystone-roles: ConfigDB's role for each role of Keystone.
func (o *Options) keystoneRoles() (map[string]configdbapi.Role, error) {
	out := map[string]configdbapi.Role{}
	for _, pair := range o.KeystoneRoles {
		name, word, found := strings.Cut(pair, "=")
		role := configdbapi.Role(word)
		if !found || name == "" || !slices.Contains(factsRoles, role) {
			return nil, fmt.Errorf("invalid value %.80q: must be ROLE=viewer, ROLE=operator or ROLE=admin", pair)
		}
		if other, twice := out[name]; twice && other != role {
			return nil, fmt.Errorf("role %.40q: given both as %s and as %s: choose one", name, other, role)
		}
		out[name] = role
	}
	return out, nil
}

// loginSettings returns the flags for logins at ConfigDB, in addition to operators' tokens.
func (o *Options) loginSettings() []setting {
	return []setting{
		{"passwd-file", &o.PasswdFile,
			"file of users for Basic authentication at ConfigDB: a line USER:BCRYPT-HASH:ROLE each, as htpasswd -nB makes the " +
				"hash", serving},
		{"keystone-url", &o.KeystoneURL, "address of the Keystone (API v3) whose tokens ConfigDB accepts", serving},
		{"keystone-user", &o.KeystoneUser, "user of the controller at Keystone, with the right to validate tokens",
			serving},
		{"keystone-user-domain", &o.KeystoneUserDomain, "name of that user's domain (default the domain whose id is default)",
			serving},
		{"keystone-password-file", &o.KeystonePasswordFile, "file with that user's password, read at each login", serving},
		{"keystone-project", &o.KeystoneProject, "project of that user", serving},
		{"keystone-project-domain", &o.KeystoneProjectDomain,
			"name of that project's domain (default the domain whose id is default)", serving},
		{"keystone-projects", &o.KeystoneProjects,
			"projects whose tokens are accepted: NAME in that domain, DOMAIN/NAME, an ID, or * for all (default: that of " +
				"--keystone-project)", serving},
		{"keystone-roles", &o.KeystoneRoles,
			"mapping of Keystone's roles: ROLE=viewer, ROLE=operator or ROLE=admin each; a caller gets the highest of its roles",
			serving},
		{"keystone-ca-file", &o.KeystoneCAFile, "PEM file of the CAs of Keystone (default: those of this machine)", serving},
		{"keystone-window-s", &o.KeystoneWindow,
			"seconds for which Keystone's answers are cached; a revoked token is accepted for at most that long", serving},
	}
}

// seedSettings returns the flags of the seed's controller, with its names.
func (o *Options) seedSettings() []setting {
	return []setting{
		{"unknown-hw-queries-enabled", &o.UnknownHW, "ask nodes of unknown hardware for their base config", serving},
		{"config-staged-rollout-enabled", &o.StagedRollout, "roll out changes in batches", serving},
		{"consecutive-reconfig-delay-s", &o.ReconfigDelay, "minimum seconds between two pushes to one node", serving},
		{"unknown-hw-config-req-delay-s", &o.BoardDelay, "minimum seconds between two requests to nodes of one unknown board",
			serving},
		{"config-actions-req-timeout-s", &o.ActionsTime, "seconds for which the answers to a preview of actions are kept",
			serving},
		{"config-confirm-timeout-s", &o.ConfirmTime, "seconds within which a pushed config must be confirmed", serving},
		{"firmware-parameter-update-delay", &o.FirmwareDelay,
			"accepted for the original's start scripts; not used here",
			serving},
		{"status-reports-interval", &o.StatusInterval,
			"accepted for the original's start scripts; not used here: each report is compared when it arrives",
			serving},
		{"topology-info-sync-interval", &o.TopologyGap,
			"accepted for the original's start scripts; not used here: the facts are written when the topology changes",
			serving},
	}
}
