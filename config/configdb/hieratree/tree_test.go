package hieratree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"edgespan/config/configdb"
)

// tree are files by their paths.
type tree = map[string][]byte

func files(pairs ...string) tree {
	out := tree{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = []byte(pairs[i+1])
	}
	return out
}

func shown(rs []Resource) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Name+"="+r.Values.String())
	}
	return strings.Join(out, " ")
}

func TestEachFileIsAResource(t *testing.T) {
	all := files(
		"astute.yaml", "uid: '1'\nmtu: 1500.0\n", "globals.yaml", "", "override/plugins.yaml", "a: {b: 1}\n",
		"override/configuration/role.yaml", "r: yes\n", "override/node/node-1.domain.tld.yaml", "n: 0777\n",
		"override/node.yml", "no: Hiera's\n", ".astute.yaml.tmp-1", "x", ".hidden.yaml", "x: 1", "README", "no",
	)
	for naming, want := range map[Naming]string{
		Seed: `astute={"mtu":1500.0,"uid":"1"} globals={} override/configuration/role={"r":true} ` +
			`override/node/node-1.domain.tld={"n":511} override/plugins={"a":{"b":1}}`,
		LCM: `astute={"mtu":1500.0,"uid":"1"} globals={} override={"plugins":{"a":{"b":1}}} ` +
			`override/configuration={"role":{"r":true}} override/node={"node-1.domain.tld":{"n":511}}`,
	} {
		got, err := Read(all, naming)
		if err != nil || shown(got) != want {
			t.Errorf("%s:\n%s %v, want\n%s", naming, shown(got), err, want)
		}
	}
}

func TestEachFaultIsNamedWithItsFile(t *testing.T) {
	all := files(
		"a.yaml", "x: 1\ny: [\n", "b.yaml", "x: 1\nx: 2\n", "c.yaml", "- 1\n", "d.yaml", "a: 1\n---\nb: 2\n", "5.yaml",
		"a: 1\n",
		strings.Repeat("n", 129)+".yaml", "a: 1\n", "e.yaml", "a: \xff\n", "good.yaml", "a: 1\n",
		"override.yaml", "a: 1\n", "override/plugins.yaml", "a: 1\n",
	)
	got, err := Read(all, LCM)
	if err == nil {
		t.Fatalf("faults are taken: %s", shown(got))
	}
	for _, want := range []string{
		"a.yaml: invalid YAML: ", "b.yaml: invalid YAML: duplicate key: line 2 column 1",
		"c.yaml: line 1: not a mapping",
		"d.yaml: more than one document", `5.yaml: is resource "5": a name of digits`,
		".yaml: is a resource with a name that is too long (129 characters)", "e.yaml: ",
		"override/: is resource override, as override.yaml is",
	} {
		if !strings.Contains("\n"+err.Error(), want) {
			t.Errorf("lacks %q:\n%s", want, err)
		}
	}
	if strings.Contains(err.Error(), "good") || strings.Count(err.Error(), "\n") != 7 {
		t.Errorf("faults are not one line each:\n%s", err)
	}
}

func TestFilesAreWrittenWhereTheyDiffer(t *testing.T) {
	resources := []Resource{{"astute", configdb.JSON(`{"uid":"1"}`)}, {"override", configdb.JSON(`{"plugins":{"a":1}}`)},
		{"override/node", configdb.JSON(`{"n.d":{"a":null}}`)}}
	have := files("astute.yaml", "# mine\nuid: \"1\"\n", "stranger.yaml", "x: 1\n", "override/plugins.yaml", "a: 2\n")
	got, err := Files(resources, have, LCM)
	var lines []string
	for _, f := range got {
		lines = append(lines, fmt.Sprintf("%s %v %s", f.Path, f.New, f.Text))
	}
	const want = "override/node/n.d.yaml true a: null\n|override/plugins.yaml false a: 1\n"
	if text := strings.Join(lines, "|"); err != nil || strings.ReplaceAll(text, "---\n", "") != want {
		t.Errorf("%q %v, want %q", text, err, want)
	}
	// Where a file is there, its resource is no folder, and a folder that is there no file.
	for file, want := range map[string]string{"override.yaml": "override.yaml", "odd/k.yaml": "odd/key.yaml",
		"": "odd.yaml"} {
		name, _, _ := strings.Cut(strings.TrimSuffix(want, Extension), "/")
		got, err := Files([]Resource{{name, configdb.JSON(`{"key":{"a":1}}`)}}, files(file, ""), LCM)
		if err != nil || len(got) != 1 || got[0].Path != want {
			t.Errorf("%s: %+v %v, want %s", file, got, err, want)
		}
	}
	// So is the name of any resource with a slash, and a file with the same name in the folder above does not change that.
	if got, err := Files([]Resource{{"a/b", configdb.JSON(`{"key":{"a":1}}`)}}, files("a/b.yaml", "x: {}\n"),
		LCM); err != nil || len(got) != 1 || got[0].Path != "a/b/key.yaml" {
		t.Errorf("%+v %v", got, err)
	}
}

// What comes from elsewhere leaves the folder by no name.
func TestNoNameLeadsOutOfTheFolder(t *testing.T) {
	for _, name := range []string{"../evil", "a/../../evil", "/etc/passwd", "a//b", "a/.", "..", ".", ".ssh/x", "a\x00b",
		strings.Repeat("l", 201)} {
		if got, err := Files([]Resource{{name, configdb.JSON(`{"k":{"a":1}}`)}}, nil, Seed); err == nil || len(got) != 0 {
			t.Errorf("%q: %+v", name, got)
		}
	}
	for _, key := range []string{"../evil", "a/b", "..", "", ".x", strings.Repeat("l", 201)} {
		if got, err := Files([]Resource{{"override/node",
			configdb.NewObject([]configdb.Member{{Key: key, Value: configdb.JSON("{}")}}).JSON()}}, nil, LCM); err == nil &&
			key != "" || len(got) != 0 && key != "" {
			t.Errorf("%q: %+v", key, got)
		}
	}
	_, err := Files([]Resource{{"override/node", configdb.JSON(`{"k":1,"a/b":{}}`)}, {"a.yaml/../b", configdb.JSON("{}")}},
		nil, LCM)
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("faults: %v", err)
	}
}

// Tree is a folder as Fuel leaves it on a node: an astute of some 69 KB, nested, its keys with dots and spaces.
func generate(r *rand.Rand, size int) string {
	var b strings.Builder
	b.WriteString("uid: '1'\nfqdn: node-1.domain.tld\n")
	words := []string{"settings:storage.images_ceph.value == true", "a.b", "with space", "ключ", "yes", "0x1F", "null",
		"~", "- x", "#", "1e5", "node-1", "'q'", `"`, "%{::fqdn}", "2016-01-01", "12:30"}
	scalars := []string{"1.0", "12345678901234567890123", "-7", "true", "null", "~", "0777", "1_000", "''", "plain text",
		"2016-01-01", "1e5", "'%{hiera(\"x\")}'", "\"tab\\tline\\n\"", "[]", "{}", "[1, two, {three: 3}]"}
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "%q:\n", fmt.Sprintf("%s %d", words[r.IntN(len(words))], n))
		indent := "  "
		for range 1 + r.IntN(11) {
			for i := range 1 + r.IntN(4) {
				fmt.Fprintf(&b, "%s%q: %s\n", indent, fmt.Sprintf("%s%d", words[r.IntN(len(words))], i),
					scalars[r.IntN(len(scalars))])
			}
			fmt.Fprintf(&b, "%sdeeper:\n", indent)
			indent += "  "
		}
		fmt.Fprintf(&b, "%s- |\n%s  some\n%s  lines\n%s- end\n", indent, indent, indent, indent)
	}
	return b.String()
}

// A tree that was read and is written elsewhere holds the same, byte for byte as JSON, by either naming; and where it
// came from nothing is to be written.
func TestATreeComesBack(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := files("astute.yaml", generate(r, 69_000), "globals.yaml", generate(r, 20_000), "override/plugins.yaml",
			generate(r, 500),
			"override/node/node-1.domain.tld.yaml", generate(r, 500), "override/configuration/cluster.yaml", generate(r, 900),
			"nodes.yaml", "nodes: [{uid: '1'}]\n")
		for _, naming := range Namings {
			read, err := Read(all, naming)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Files(read, all, naming); err != nil || len(again) != 0 {
				t.Errorf("%s: %d files differ from themselves: %v", naming, len(again), err)
			}
			written, err := Files(read, nil, naming)
			if err != nil {
				t.Fatal(err)
			}
			there := tree{}
			for _, f := range written {
				there[f.Path] = f.Text
				if _, ok := all[f.Path]; !ok || !f.New {
					t.Errorf("%s: %s was no file", naming, f.Path)
				}
			}
			back, err := Read(there, naming)
			if err != nil || shown(back) != shown(read) || len(there) != len(all) {
				t.Errorf("%s: %d files, %v: comes back as something else", naming, len(there), err)
			}
		}
	}
}

func TestWhereFilesAndConfigDBDiffer(t *testing.T) {
	secret, err := configdb.ParseSecrets([]string{"*.password", "creds"})
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]configdb.Secret{"r": secret}
	for _, c := range []struct {
		file, remote string
		hidden       bool
		want         []string
	}{
		{`{"a":1}`, `{"a":1}`, false, nil},
		{`{"a":1}`, `{"a":1.0}`, false, []string{"~ a: 1 -> 1.0"}},
		{`{"db":{"password":"old"}}`, `{"db":{"password":"new"}}`, false,
			[]string{`~ db.password: {"$masked":true} -> {"$masked":true}`}},
		{`{"a":1,"db":{"password":"old"}}`, `{"a":2,"db":{"password":"new"}}`, false,
			[]string{"~ a: 1 -> 2", `~ db.password: {"$masked":true} -> {"$masked":true}`}},
		{`{"creds":{"hidden1":1,"x":2}}`, `{"creds":{"hidden2":1,"x":2}}`, false,
			[]string{`~ creds: {"$masked":true} -> {"$masked":true}`}},
		{`{}`, `{"db":{"password":"new"}}`, false, []string{`+ db: {"password":{"$masked":true}}`}},
		{`{"db":{"password":"old"}}`, `{}`, false, []string{`- db: {"password":{"$masked":true}}`}},
		{`{"db":{"password":"mine"}}`, `{"db":{"password":{"$masked":true}}}`, true, nil},
		// a default that refers to a secret
		{`{"b":1,"ref":"mine"}`, `{"b":2,"ref":{"$masked":true}}`, true, []string{"~ b: 1 -> 2"}},
		{`{"creds":1}`, `{"creds":{"$masked":true}}`, true, nil},
	} {
		got := Compare([]Resource{{"r", configdb.JSON(c.file)}}, []Resource{{"r", configdb.JSON(c.remote)}}, secrets)
		if len(got) != 1 || got[0].Hidden != c.hidden || !slices.Equal(got[0].Lines, c.want) {
			t.Errorf("%s and %s:\n%q %v, want\n%q", c.file, c.remote, got[0].Lines, got[0].Hidden, c.want)
		}
	}
	one := Compare([]Resource{{"b", configdb.JSON(`{"x":1}`)}, {"e", configdb.JSON(`{}`)}},
		[]Resource{{"a", configdb.JSON(`{"y":1}`)}, {"f", configdb.JSON("{}")}}, nil)
	if text := fmt.Sprint(one); text != "[{a [+ y: 1] false} {b [- x: 1] false} {e [] false} {f [] false}]" {
		t.Errorf("what only one of them has: %s", text)
	}
}
