package puppet

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sources are the resources that tools make for a node's /etc/hiera.
var sources = []string{
	"override/node", "override/class", "override/module", "override/plugins", "override/common", "override/configuration",
	"override/configuration/role", "override/configuration/cluster", "class", "module", "nodes", "globals",
	"deleted_nodes", "astute", "plugins", "override",
}

// scope is what Hiera is told of the node; JSON is YAML too.
const scope = `{"fqdn": "` + node + `", "::fqdn": "` + node + `"}`

// literal runs a command as it is typed, where /etc/puppet is this folder for it alone: Hiera's own place for
// hiera.yaml.
func literal(t *testing.T, dir, words string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "mount --bind '"+dir+"' /etc/puppet && "+words)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "RUBYLIB="+filepath.Join(module(t), "lib"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, said, err := run(t, cmd)
	if err != nil {
		t.Fatalf("%s: %v: %s%s", words, err, out, said)
	}
	return strings.TrimSpace(out)
}

// The seed's use case 4: Hiera's backend finds the right values, also once they are overridden.
func TestUseCase4_HieraFindsTheRightValues(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.environment(sources...)
	c.put("/nodes/"+node, "astute", "values", map[string]any{"deployment_id": 1,
		"roles": []string{"controller"}, "net": map[string]any{"mtu": 1500, "vlan": 7}})
	dir := t.TempDir()
	c.write(filepath.Join(dir, "hiera.yaml"), []byte(c.example("hiera3.yaml")))
	c.write(filepath.Join(dir, "test_scope.yaml"), []byte(scope))
	c.write(filepath.Join(dir, "scope.json"), []byte(scope))

	const words = "hiera deployment_id --yaml test_scope.yaml"
	if got := literal(t, dir, words); got != "1" {
		t.Errorf("%s: %q, want 1", words, got)
	}
	c.override("astute", "deployment_id", "2")
	if got := literal(t, dir, words); got != "2" {
		t.Errorf("%s, once it is overridden: %q, want 2", words, got)
	}
	// A source below a folder is a key of the folder's resource, as the original uploaded it, or a resource.
	c.put("/nodes/"+node, "override/node", "values", map[string]any{node: map[string]any{"deployment_id": 3}})
	c.put("", "override/plugins", "values",
		map[string]any{"roles": []string{"compute"}, "net": map[string]any{"mtu": 9000}})
	for words, want := range map[string]string{
		words:                           "3",
		"hiera roles --json scope.json": `["compute"]`,
		"hiera -a -f json roles --json scope.json": `["compute","controller"]`,
		"hiera -h -f json net --json scope.json":   `{"mtu":9000,"vlan":7}`,
		"hiera net.mtu --json scope.json":          "9000",
		"hiera nope --json scope.json":             "nil",
		"hiera nope none ::fqdn=" + node:           "none",
	} {
		if got := literal(t, dir, words); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

// override sets one key for the node by the command line of the seed.
func (c *controller) override(resource, key, value string) {
	c.Helper()
	path, err := command()
	if err != nil {
		c.Fatal(err)
	}
	cmd := exec.CommandContext(c.Context(), path, "config", "override", "--env", "1", "--level", "node="+node,
		"--resource", resource, "--key", key, "--value", value, "--controller", c.url, "--token-file", c.token, "--ca-file",
		c.ca)
	cmd.Env = append(cmd.Environ(), "HOME="+c.dir)
	if out, said, err := run(c.TB, cmd); err != nil {
		c.Fatalf("%v: %v: %s%s", cmd.Args, err, out, said)
	}
}
