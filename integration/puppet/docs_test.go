package puppet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chapter is the part of docs/configdb.md on Hiera and Puppet.
func chapter(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configdb.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## Hiera and Puppet\n")
	if !found {
		t.Fatal("docs/configdb.md has no chapter on Hiera and Puppet")
	}
	chapter, _, _ := strings.Cut(after, "\n## ")
	return chapter
}

var block = regexp.MustCompile("(?s)```(yaml|console)\n(.*?)```")

// Each hiera.yaml of the chapter is an example of the module, and each command after it prints with it what stands
// there.
func TestEveryExampleOfTheChapter(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.environment(sources...)
	c.put("/nodes/"+node, "astute", "values",
		map[string]any{"deployment_id": 1, "network": map[string]any{"mtu": 1500, "dns": []string{"10.0.0.1"}}})
	c.put("", "globals", "values", map[string]any{"network": map[string]any{"mtu": 1400, "dns": []string{"10.0.0.2"}}})
	c.override("astute", "deployment_id", "2")
	etc := c.etc()
	examples, err := filepath.Glob(filepath.Join(module(t), "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shown, commands := []string{}, 0
	for _, b := range block.FindAllStringSubmatch(chapter(t), -1) {
		if b[1] == "yaml" {
			at := slices.IndexFunc(examples, func(name string) bool { return string(c.read(name)) == b[2] })
			if at < 0 {
				t.Fatalf("this is no example of the module:\n%s", b[2])
			}
			name := filepath.Base(examples[at])
			shown = append(shown, name)
			place := filepath.Join(etc, "hiera.yaml")
			if strings.Contains(b[2], "version: 5") {
				place = filepath.Join(etc, "code", "environments", "production", "hiera.yaml")
			}
			c.write(place, []byte(c.example(name)))
			continue
		}
		for _, one := range strings.Split(b[2], "$ ")[1:] {
			words, want, _ := strings.Cut(one, "\n")
			commands++
			got := literal(t, etc, words)
			if want = strings.TrimSpace(want); got != want && plain(json.RawMessage(got)) != plain(json.RawMessage(want)) {
				t.Errorf("%s: %s, want %s", words, got, want)
			}
		}
	}
	if len(shown) != len(examples) || commands < 4 {
		t.Errorf("the chapter shows %v of %v, and %d commands", shown, examples, commands)
	}
}

// etc is a folder to stand at /etc/puppet, as Debian has it, whose Puppet writes nothing elsewhere.
func (c *controller) etc() string {
	c.Helper()
	p := c.puppet()
	work := c.TempDir()
	conf := "[main]\n"
	for _, name := range []string{"vardir", "rundir", "logdir", "publicdir", "ssldir"} {
		conf += name + " = " + filepath.Join(work, name) + "\n"
	}
	c.write(filepath.Join(p.dir, "puppet.conf"), []byte(conf))
	c.write(filepath.Join(p.dir, "test_scope.yaml"), []byte(scope))
	return p.dir
}

// The README of the module has each option, and no other.
func TestTheReadmeHasEveryOption(t *testing.T) {
	t.Parallel()
	var names []string
	code, err := os.ReadFile(filepath.Join(module(t), "lib", "puppet_x", "configdb", "options.rb"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(code), "COMMON = {")
	table, _, _ = strings.Cut(table, "WANTED")
	for _, m := range regexp.MustCompile(`'(\w+)' =>`).FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
	}
	text, err := os.ReadFile(filepath.Join(module(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var reported []string
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| (?:3|5|both) \\|").FindAllStringSubmatch(string(text),
		-1) {
		for _, name := range strings.Split(m[1], ", ") {
			reported = append(reported, strings.Trim(name, "`"))
		}
	}
	slices.Sort(names)
	slices.Sort(reported)
	if len(names) < 15 || !slices.Equal(names, reported) {
		t.Errorf("README.md has %v, want %v", reported, names)
	}
}
