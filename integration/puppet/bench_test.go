package puppet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/configdb"
)

// What the catalog is made of: classes whose parameters are looked up by themselves, lookups with each merge, and a
// node's sources, of which astute has 60 KB.
const (
	classes    = 150
	parameters = 6
	lookups    = 60
	agents     = 6
	rounds     = 3
)

// levels are the sources of a hierarchy, from the highest, and how many of a class's parameters each has of a hundred.
var levels = []struct {
	name string
	has  int
}{{"override/node", 2}, {"override/class", 2}, {"override/common", 4}, {"override/configuration", 4}, {"class", 6},
	{"module", 8}, {"nodes", 0}, {"globals", 20}, {"astute", 20}, {"plugins", 4}}

// catalog is a place with the data and manifests of a Puppet server.
type catalog struct {
	*controller
	dir string
}

// BenchmarkCatalog compiles the catalogs of six nodes by a real Puppet, of 900 parameters and 60 lookups over ten
// sources, with local YAML and by ConfigDB; and measures what the
// upload of a node's sources takes (docs/benchmarks.md).
func BenchmarkCatalog(b *testing.B) {
	if _, err := exec.LookPath("ruby"); err != nil {
		const why = "Puppet is not installed: make setup-tests"
		fmt.Printf("%s: skipped: %s\n", b.Name(), why) // the testing package says nothing of it without -v
		b.Skip(why)
	}
	c := &catalog{start(b), b.TempDir()}
	var names []string
	for _, l := range levels {
		names = append(names, l.name)
	}
	c.environment(names...)
	c.manifests()
	var nodes []string
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range agents {
		nodes = append(nodes, fmt.Sprintf("node-%d.domain.tld", i))
		c.data(rng, nodes[i])
	}
	for way, entry := range map[string]map[string]any{
		"yaml": {"data_hash": "yaml_data", "datadir": filepath.Join(c.dir, "data"),
			"paths": suffixed("%{trusted.certname}/", names, ".yaml")},
		"data_hash": {"data_hash": "configdb::data", "uris": suffixed(c.place()+"/resources/", names, "/values?effective"),
			"options": c.secrets()},
		"lookup_key": {"lookup_key": "configdb::lookup",
			"uris": suffixed(c.place()+"/resources/", names, "/values?effective"), "options": c.secrets()},
	} {
		entry["name"] = "data"
		text, err := json.Marshal(map[string]any{"version": 5, "hierarchy": []any{entry}})
		if err != nil {
			b.Fatal(err)
		}
		c.write(filepath.Join(c.dir, "environments", way, "hiera.yaml"), text)
	}
	for b.Loop() {
		c.upload(b, nodes)
		for _, timeout := range []string{"0", "unlimited"} {
			c.compile(b, nodes, timeout)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func suffixed(before string, names []string, after string) (out []string) {
	for _, n := range names {
		out = append(out, before+n+after)
	}
	return out
}

func (c *catalog) place() string {
	return c.url + "/api/v1/config/environments/1/nodes/%{trusted.certname}"
}

func (c *catalog) secrets() map[string]any {
	return map[string]any{"token_file": c.token, "ca_file": c.ca}
}

// manifests writes the classes, and a site that has them all and looks things up.
func (c *catalog) manifests() {
	c.Helper()
	var site strings.Builder
	for i := range classes {
		var params, used strings.Builder
		for p := range parameters {
			fmt.Fprintf(&params, "  $p%d = 'default',\n", p)
			fmt.Fprintf(&used, "${p%d} ", p)
		}
		name := fmt.Sprintf("c%d", i)
		c.write(filepath.Join(c.dir, "modules", "site", "manifests", name+".pp"),
			fmt.Appendf(nil, "class site::%s (\n%s) {\n  notify { '%s': message => \"%s\" }\n}\n", name, params.String(), name,
				used.String()))
		fmt.Fprintf(&site, "include site::%s\n", name)
	}
	for i := range lookups {
		fmt.Fprintf(&site, "notify { 'l%d': message => String(lookup('merged%d', { 'merge' => '%s', 'default_value' => {} "+
			"})) }\n", i, i%20, []string{"first", "hash", "deep"}[i%3])
	}
	if err := os.Symlink(module(c.TB), filepath.Join(c.dir, "modules", "configdb")); err != nil {
		c.Fatal(err)
	}
	for _, way := range []string{"yaml", "data_hash", "lookup_key"} {
		c.write(filepath.Join(c.dir, "environments", way, "manifests", "site.pp"), []byte(site.String()))
	}
}

// data writes the sources of a node as local YAML.
func (c *catalog) data(rng *rand.Rand, node string) {
	c.Helper()
	for _, l := range levels {
		doc := map[string]any{}
		for i := range classes {
			for p := range parameters {
				if rng.IntN(100) < l.has {
					doc[fmt.Sprintf("site::c%d::p%d", i, p)] = fmt.Sprintf("of %s in %s: %d", node, l.name, rng.IntN(1000))
				}
			}
		}
		for i := range 20 {
			if rng.IntN(3) == 0 {
				doc[fmt.Sprintf("merged%d", i)] = map[string]any{"a": rng.IntN(9),
					l.name: map[string]any{"list": []int{rng.IntN(9), rng.IntN(9)}}}
			}
		}
		for i := 0; l.name == "astute" && i < 55; i++ {
			group := map[string]any{}
			for j := range 8 {
				group[fmt.Sprint("setting_", j)] = map[string]any{"label": fmt.Sprint("The setting number ", j),
					"weight": rng.IntN(100), "value": rng.IntN(2) == 0,
					"network": map[string]any{"cidr": fmt.Sprintf("10.%d.0.0/24", i)}}
			}
			doc[fmt.Sprint("group_", i)] = group
		}
		text, err := json.Marshal(doc)
		if err != nil {
			c.Fatal(err)
		}
		v, err := configdb.Parse(text)
		if err != nil {
			c.Fatal(err)
		}
		c.write(filepath.Join(c.dir, "data", node, l.name+".yaml"), configdb.ToYAML(v))
	}
}

// upload uploads the sources of each node, by the command that a deployment runs, and by one request.
func (c *catalog) upload(b *testing.B, nodes []string) {
	b.Helper()
	path, err := command()
	if err != nil {
		b.Fatal(err)
	}
	var bytesOf int
	var byCommand, byRequest []float64
	for i, node := range nodes {
		dir, body := filepath.Join(c.dir, "data", node), map[string]any{}
		for _, l := range levels {
			text := c.read(filepath.Join(dir, l.name+".yaml"))
			bytesOf += len(text)
			v, _, err := configdb.FromYAML(text)
			if err != nil {
				b.Fatal(err)
			}
			body[l.name] = map[string]any{"values": json.RawMessage(v)}
		}
		begun := time.Now()
		c.ask(200, "POST", "/environments/1/nodes/"+node+"/bulk", map[string]any{"resources": body})
		byRequest = append(byRequest, float64(time.Since(begun).Microseconds())/1000)
		if i >= 3 {
			continue
		}
		begun = time.Now()
		cmd := exec.CommandContext(b.Context(), path, "config", "import", "hiera", dir, "--env", "1", "--node", "again-"+node,
			"--controller", c.url, "--token-file", c.token, "--ca-file", c.ca)
		cmd.Env = append(cmd.Environ(), "HOME="+c.TempDir())
		if out, said, err := run(c.TB, cmd); err != nil {
			b.Fatalf("%v: %s%s", err, out, said)
		}
		byCommand = append(byCommand, float64(time.Since(begun).Microseconds())/1000)
	}
	b.ReportMetric(median(byRequest), "upload-ms/node")
	b.ReportMetric(median(byCommand), "import-ms/node")
	b.ReportMetric(float64(bytesOf)/float64(len(nodes))/1000, "upload-KB/node")
}

// compile has all catalogs compiled, each way in each round: in the first one no way knows a document.
func (c *catalog) compile(b *testing.B, nodes []string, timeout string) {
	b.Helper()
	ways := []string{"yaml", "data_hash", "lookup_key"}
	job, err := json.Marshal(map[string]any{"dir": c.dir, "nodes": nodes, "rounds": rounds, "environments": ways,
		"timeout": timeout})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), "ruby", "-I", filepath.Join(module(b), "lib"), "testdata/catalog.rb")
	cmd.Stdin = bytes.NewReader(job)
	out, said, err := run(b, cmd)
	var found map[string]struct {
		MS        [][]float64 `json:"ms"`
		Resources int
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &found)
	}
	if err != nil {
		b.Fatalf("%v: %.2000s", err, said)
	}
	of := func(way string) (first, later float64) {
		one := found[way]
		if one.Resources < classes+lookups || one.Resources != found["yaml"].Resources {
			b.Fatalf("%s: a catalog has %d resources, by YAML %d", way, one.Resources, found["yaml"].Resources)
		}
		return median(one.MS[0][1:]), median(slices.Concat(one.MS[1:]...)) // the very first one loads Puppet
	}
	first, later := of("yaml")
	b.Logf("environment_timeout %s: yaml %.0f ms a catalog at first, %.0f later", timeout, first, later)
	b.ReportMetric(later, "yaml-ms/catalog-"+timeout)
	for _, way := range ways[1:] {
		mineFirst, owned := of(way)
		b.Logf("environment_timeout %s: %s %.0f ms (%.2f) at first, %.0f (%.2f) later", timeout, way, mineFirst,
			mineFirst/first, owned, owned/later)
		b.ReportMetric(owned/later, way+"/yaml-"+timeout)
	}
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
