package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/term"
)

// aKeystone is all that a Keystone needs.
const aKeystone = "--keystone-url http://k:5000/v3 --keystone-user configdb --keystone-password-file p " +
	"--keystone-project services"

func TestAccessThatCanNeverWork(t *testing.T) {
	for args, want := range map[string]string{
		"--auth none --listen localhost:0 --passwd-file p":    "--passwd-file: requires --auth token",
		"--auth none --listen localhost:0 --client-ca-file p": "--client-ca-file: requires --auth token",
		"--auth none --listen localhost:0 " + aKeystone:       "--keystone-url: requires --auth token",
		"--client-crl-file c":                                 "--client-crl-file: requires --client-ca-file",
		"--keystone-window-s 0":                               "--keystone-window-s: invalid value 0: must be 1 to 3600",
		"--keystone-window-s 3601":                            "must be 1 to 3600",
		"--keystone-roles admin":                              `--keystone-roles: invalid value "admin": must be ROLE=viewer`,
		"--keystone-roles admin=root":                         `invalid value "admin=root"`,
		"--keystone-roles a=viewer,a=admin":                   `role "a": given both as viewer and as admin: choose one`,
		"--keystone-user configdb":                            "--keystone-url: required: the other --keystone-… flags need",
		"--keystone-projects '*'":                             "--keystone-url: required",
		aKeystone + " --keystone-url k:5000": `--keystone-url: invalid value "k:5000": must be ` +
			`http://HOST:PORT`,
		aKeystone + " --keystone-url https://a:b@k": "--keystone-url: invalid value ",
	} {
		if _, err := parsed(t, nil, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	_, err := parsed(t, map[string]string{"EDGESPAN_CONTROLLER_KEYSTONE_URL": "https://k"})
	for _, name := range []string{"--keystone-user: required", "--keystone-password-file: required",
		"--keystone-project: required"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("all that is missing: no %s in %v", name, err)
		}
	}
}

func TestRolesOfKeystone(t *testing.T) {
	o, err := parsed(t, map[string]string{"EDGESPAN_CONTROLLER_KEYSTONE_WINDOW_S": "30"}, strings.Fields(aKeystone)...)
	if err != nil {
		t.Fatal(err)
	}
	roles, err := o.keystoneRoles()
	if got := fmt.Sprint(roles); err != nil || got != "map[_member_:operator admin:admin member:operator reader:viewer]" ||
		o.KeystoneWindow != 30 {
		t.Errorf("by default: %s %v", got, err)
	}
	if o, err = parsed(t, nil,
		strings.Fields(aKeystone+" --keystone-roles cloud=admin --keystone_roles reader=viewer")...); err != nil {
		t.Fatal(err)
	}
	if roles, err = o.keystoneRoles(); err != nil || fmt.Sprint(roles) != "map[cloud:admin reader:viewer]" {
		t.Errorf("others take their place: %v %v", roles, err)
	}
}

// TestAControllerWhoseAccessCanNotBeRead ends before it serves anybody, and says why.
func TestAControllerWhoseAccessCanNotBeRead(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("anna:x:root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"--passwd-file " + dir + "/none", "--passwd-file: ", term.ExitNotFound},
		{"--passwd-file " + bad, bad + `:1: user "anna": hash: not bcrypt`, term.ExitError},
		{"--client-ca-file " + dir + "/none", "--client-ca-file: ", term.ExitNotFound},
		{strings.Replace(aKeystone, "-file p", "-file "+dir+"/none", 1), "--keystone-url: read the password: ",
			term.ExitNotFound},
	} {
		r := program.Launch(t, t.TempDir(), nil, strings.Fields(c.args)...)
		<-r.Ended
		if r.Code != c.code || !strings.Contains(r.Err.String(), c.want) {
			t.Errorf("%s: exit code %d:\n%s", c.args, r.Code, r.Err)
		}
	}
}

func TestSIGHUPReadsThePasswordsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(path, []byte("# nobody yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := program.Start(t, t.TempDir(), "--passwd-file", path)
	if err := os.WriteFile(path, []byte("anna\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.HUP <- nil
	if line := r.Err.Line(t, path+":1: has 1 fields", r.Ended); line == "" {
		t.Errorf("it ended:\n%s", r.Err)
	}
	if code := r.End(); code != term.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestWhatCrossesANetworkInClear(t *testing.T) {
	for address, want := range map[string]bool{
		"http://keystone:5000": true, "http://192.0.2.1:5000/v3": true, "https://keystone:5000": false,
		"http://127.0.0.1:5000": false, "http://[::1]:5000": false, "http://localhost:5000": false,
	} {
		if inClear(address) != want {
			t.Errorf("%s: %t", address, !want)
		}
	}
}
