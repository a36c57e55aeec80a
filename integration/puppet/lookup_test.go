package puppet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// puppet is a place where Puppet has the module, and of which it is told by flags.
type puppet struct {
	*controller
	dir string
}

func (c *controller) puppet() *puppet {
	c.Helper()
	p := &puppet{c, c.TempDir()}
	modules := filepath.Join(p.dir, "code", "modules")
	err := os.MkdirAll(modules, 0o755)
	if err == nil {
		err = os.Symlink(module(c.TB), filepath.Join(modules, "configdb"))
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(p.dir, "code", "environments", "production"), 0o755)
	}
	if err != nil {
		c.Fatal(err)
	}
	p.write(filepath.Join(p.dir, "facts.yaml"),
		[]byte(`{"hostname": "node-1", "domain": "domain.tld", "fqdn": "`+node+`", "clientcert": "`+node+
			`", "role": "compute"}`))
	return p
}

// lookup runs `puppet lookup` with an example as its hiera.yaml.
func (p *puppet) lookup(example string, words ...string) (out, said string, err error) {
	p.Helper()
	config := filepath.Join(p.dir, example)
	p.write(config, []byte(p.example(example)))
	return p.lookupWith(config, node, words...)
}

func (p *puppet) lookupWith(config, node string, words ...string) (out, said string, err error) {
	p.Helper()
	args := []string{"lookup", "--node", node, "--facts", filepath.Join(p.dir, "facts.yaml"), "--hiera_config", config,
		"--render-as", "json"}
	for _, name := range []string{"confdir", "codedir", "vardir", "rundir", "logdir", "publicdir"} {
		args = append(args, "--"+name, filepath.Join(p.dir, strings.TrimSuffix(name, "dir")))
	}
	cmd := exec.CommandContext(p.Context(), "puppet", append(args, words...)...)
	cmd.Env = append(cmd.Environ(), "RUBYLIB="+filepath.Join(module(p.TB), "lib")) // for Hiera 3
	return run(p.TB, cmd)
}

// finds checks what one `puppet lookup` prints.
func (p *puppet) finds(want, example string, words ...string) {
	p.Helper()
	out, said, err := p.lookup(example, words...)
	if err != nil || plain(json.RawMessage(out)) != plain(json.RawMessage(want)) {
		p.Errorf("%s: puppet lookup %s: %v, %s%s, want %s", example, strings.Join(words, " "), err, out, said, want)
	}
}

// Each example of the module is what a real Puppet uses, and finds what was uploaded and overridden.
func TestExamples(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.environment(sources...)
	c.put("/nodes/"+node, "astute", "values", map[string]any{
		"deployment_id": 1, "roles": []any{"controller", "--ceph"},
		"net": map[string]any{"mtu": 1500, "dns": []any{"a", "b"}},
	})
	c.put("", "globals", "values", map[string]any{"roles": []any{"ceph"}, "net": map[string]any{"dns": []any{"c"}}})
	c.put("", "override/node", "values", map[string]any{"net": map[string]any{"dns": []any{"--c", "z"}}})
	c.override("astute", "deployment_id", "2")
	p := c.puppet()

	p.finds("2", "hiera.data_hash.yaml", "deployment_id")
	p.finds(`{"mtu":1500,"dns":["a","b","z"]}`, "hiera.data_hash.yaml", "net", "--merge", "deep", "--knock-out-prefix",
		"--", "--sort-merged-arrays")
	p.finds(`["ceph","controller","--ceph"]`, "hiera.lookup_key.yaml", "roles", "--merge", "unique")
	p.finds(`{"mtu":1500,"dns":["a","b","c","--c","z"]}`, "hiera.merged.yaml", "net")
	p.finds(`{"dns":["c"]}`, "hiera3.yaml", "net") // Puppet 7 still takes it
	out, said, err := p.lookup("hiera.data_hash.yaml", "nope")
	if err == nil || out+said != "" {
		t.Errorf("puppet lookup nope: %v, %s%s, want failure without a word", err, out, said)
	}
}

// While the controller is away, the example of lookup_key goes on with what it said before, in a new process too.
func TestAControllerThatIsAway(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.environment(sources...)
	c.put("/nodes/"+node, "globals", "values", map[string]any{"k": "kept"})
	p := c.puppet()
	p.finds(`"kept"`, "hiera.lookup_key.yaml", "k")
	c.stop()
	p.finds(`"kept"`, "hiera.lookup_key.yaml", "k")
}

// An agent that shows the certificate which Puppet's CA gave it needs no token: it reads what is its own, by
// whichever of its names that was uploaded, and nothing else.
func TestAnAgentsCertificateReadsThatNode(t *testing.T) {
	t.Parallel()
	ssl := t.TempDir()
	const issue = "ca = Authority.new(ARGV[0]); cert, key = ca.issue(ARGV[1]); Dir.chdir(ARGV[0]); Dir.mkdir('certs'); " +
		"Dir.mkdir('private_keys');" +
		"File.rename(cert, \"certs/#{ARGV[1]}.pem\"); File.rename(key, \"private_keys/#{ARGV[1]}.pem\"); " +
		"File.link('ca.pem', 'certs/ca.pem')"
	if out, said, err := run(t, exec.CommandContext(t.Context(),
		"ruby", "-r", filepath.Join(module(t), "test", "stub.rb"), "-e", issue, ssl, node)); err != nil {
		t.Fatal(err, out, said)
	}
	c := start(t, "--client-ca-file", filepath.Join(ssl, "ca.pem"))
	c.environment("astute")
	c.ask(204, "PUT", "/environments/1/nodes/7", map[string]any{"fqdn": node, "certname": node})
	c.put("/nodes/7", "astute", "values", map[string]any{"k": "mine"})
	c.put("/nodes/8", "astute", "values", map[string]any{"k": "another's"})
	p := c.puppet()
	config := filepath.Join(p.dir, "hiera.yaml")
	text := strings.ReplaceAll(c.example("hiera.lookup_key.yaml"), "      token_file: "+c.token+"\n", "")
	p.write(config, []byte(strings.ReplaceAll(text, "override/node", "astute")))
	own := []string{"k", "--ssldir", ssl, "--certname", node}
	if out, said, err := p.lookupWith(config, node, own...); err != nil || strings.TrimSpace(out) != `"mine"` {
		t.Errorf("its own: %v, %s%s", err, out, said)
	}
	text = strings.ReplaceAll(text, "%{trusted.certname}", "8")
	p.write(config, []byte(text))
	if out, said, err := p.lookupWith(config, node, own...); err == nil || !strings.Contains(said, "403") ||
		strings.Contains(out, "another's") {
		t.Errorf("another's: %v, %s%s", err, out, said)
	}
	if out, said, err := p.lookupWith(config, node, "k"); err == nil || !strings.Contains(said, "401") {
		t.Errorf("without a certificate: %v, %s%s", err, out, said)
	}
}
