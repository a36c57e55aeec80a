package puppet

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	seed        = flag.Uint64("seed", 2026, "by which hierarchies are drawn")
	hierarchies = flag.Int("hierarchies", 8, "how many are drawn")
)

// merges are all that Puppet has, as its lookup takes them.
var merges = []map[string]any{
	{"strategy": "first"},
	{"strategy": "unique"},
	{"strategy": "hash"},
	{"strategy": "deep"},
	{"strategy": "deep", "knockout_prefix": "--"},
	{"strategy": "deep", "sort_merged_arrays": true},
	{"strategy": "deep", "merge_hash_arrays": true},
	{"strategy": "deep", "knockout_prefix": "--", "sort_merged_arrays": true, "merge_hash_arrays": true},
}

type (
	lookup struct {
		Key   string         `json:"key"`
		Merge map[string]any `json:"merge,omitempty"`
		Kind  string         `json:"kind,omitempty"`
		// Apart is a lookup after which the catalog is forgotten. Puppet keeps what a lookup_key
		// function answers, and its deep merge with a prefix to knock out changes that in its place.
		Apart bool `json:"apart,omitempty"`
	}
	puppetJob struct {
		Environment string   `json:"environment"`
		Lookups     []lookup `json:"lookups"`
	}
	hieraJob struct {
		Config  map[string]any `json:"config"`
		Lookups []lookup       `json:"lookups"`
	}
	// outcome is a list of the value, an empty list for nothing, or the text of an error.
	outcome = json.RawMessage
)

// oracle collects what Puppet and Hiera are to look up, and what must be equal.
type oracle struct {
	*controller
	dir    string
	Puppet []puppetJob `json:"puppet"`
	Hiera  []hieraJob  `json:"hiera"`
	Dir    string      `json:"dir"`
	found  struct{ Puppet, Hiera [][]outcome }
}

// For random hierarchies and every merge, Puppet finds the same by local YAML, by data_hash and by lookup_key, Hiera 3
// by its YAML backend and by ours, and the routes of the controller answer what Puppet makes of local YAML.
func TestOracle_PuppetFindsWhatItFindsInLocalYAML(t *testing.T) {
	t.Parallel()
	o := &oracle{controller: start(t), dir: t.TempDir()}
	o.Dir = o.dir
	if err := os.MkdirAll(filepath.Join(o.dir, "modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(module(t), filepath.Join(o.dir, "modules", "configdb")); err != nil {
		t.Fatal(err)
	}
	d := drawer{Rand: rand.New(rand.NewPCG(8, *seed))}
	var drawn []hierarchy
	var names []string
	for i := range *hierarchies {
		h := d.hierarchy(i)
		drawn = append(drawn, h)
		names = append(names, h.names()...)
	}
	o.environment(names...)
	var checks []func()
	for i, h := range drawn {
		o.upload(h)
		checks = append(checks, o.ways(i, h), o.hiera3(h))
		if !h.options && !h.variables {
			checks = append(checks, o.routes(i, h))
		}
	}
	o.look()
	for _, check := range checks {
		check()
	}
}

func (h hierarchy) names() []string {
	var out []string
	for _, s := range h.sources {
		out = append(out, s.name)
	}
	return out
}

// upload puts each source at the controller, in its halves, and as local YAML, as it is then effective.
func (o *oracle) upload(h hierarchy) {
	o.Helper()
	for _, s := range h.sources {
		for i, half := range s.halves {
			o.put([]string{"", "/nodes/" + node}[i/2], s.name, []string{"values", "overrides"}[i%2], half)
		}
		o.file(filepath.Join("data", s.name+".yaml"), s.effective())
	}
}

// file writes JSON, which is YAML.
func (o *oracle) file(name string, v any) {
	o.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		o.Fatal(err)
	}
	o.write(filepath.Join(o.dir, name), text)
}

// options are those of an entry that asks the controller.
func (o *oracle) options(more map[string]any) map[string]any {
	out := map[string]any{"token_file": o.token, "ca_file": o.ca}
	maps.Copy(out, more)
	return out
}

func (o *oracle) address(name string) string {
	return o.url + "/api/v1/config/environments/1/nodes/" + node + "/resources/" + name + "/values?effective"
}

// compile adds an environment of Puppet with entries of a hierarchy, and lookups in it. It gives the number of
// the job.
func (o *oracle) compile(lookups []lookup, entries ...map[string]any) int {
	o.Helper()
	name := fmt.Sprint("e", len(o.Puppet))
	for i, e := range entries {
		e["name"] = fmt.Sprint("entry ", i)
	}
	o.file(filepath.Join("environments", name, "hiera.yaml"), map[string]any{"version": 5, "hierarchy": entries})
	o.Puppet = append(o.Puppet, puppetJob{name, lookups})
	return len(o.Puppet) - 1
}

// entry is one entry of hiera.yaml over some sources, by local files or one of the functions.
func (o *oracle) entry(way string, names ...string) map[string]any {
	paths, uris := []string{}, []string{}
	for _, name := range names {
		paths = append(paths, name+".yaml")
		uris = append(uris, o.address(name))
	}
	switch way {
	case "data_hash":
		return map[string]any{"data_hash": "configdb::data", "uris": uris, "options": o.options(nil)}
	case "lookup_key":
		return map[string]any{"lookup_key": "configdb::lookup", "uris": uris, "options": o.options(nil)}
	}
	return map[string]any{"data_hash": "yaml_data", "datadir": filepath.Join(o.dir, "data"), "paths": paths}
}

// lookups are those of each key with every merge, and with none given.
func (h hierarchy) lookups(way string) []lookup {
	var out []lookup
	for _, key := range h.keys {
		for _, m := range append(merges, nil) {
			out = append(out, lookup{Key: key, Merge: m, Apart: way == "lookup_key" &&
				(h.options || m["knockout_prefix"] != nil)})
		}
	}
	return out
}

// ways compares the functions with local YAML, with all sources in one entry and with an entry each.
func (o *oracle) ways(number int, h hierarchy) func() {
	o.Helper()
	lookups := h.lookups("yaml")
	type pair struct {
		what       string
		local, own int
	}
	var pairs []pair
	for _, each := range []bool{false, true} {
		entries := func(way string) []map[string]any {
			if !each {
				return []map[string]any{o.entry(way, append(h.names(), "nowhere")...)}
			}
			var out []map[string]any
			for _, name := range h.names() {
				out = append(out, o.entry(way, name))
			}
			return out
		}
		local := o.compile(lookups, entries("yaml")...)
		for _, way := range []string{"data_hash", "lookup_key"} {
			pairs = append(pairs, pair{fmt.Sprintf("hierarchy %d, %s, an entry each: %v", number, way, each),
				local, o.compile(h.lookups(way), entries(way)...)})
		}
	}
	return func() {
		for _, p := range pairs {
			for i, l := range lookups {
				o.equal(fmt.Sprintf("%s: lookup of %s, merge %v", p.what, l.Key, l.Merge), h, o.found.Puppet[p.local][i],
					o.found.Puppet[p.own][i])
			}
		}
	}
}

// hiera3 compares the backend with Hiera's own for YAML.
func (o *oracle) hiera3(h hierarchy) func() {
	var lookups []lookup
	for _, key := range h.keys {
		lookups = append(lookups, lookup{Key: key, Kind: "priority"})
		if !strings.Contains(key, ".") {
			lookups = append(lookups, lookup{Key: key, Kind: "array"}, lookup{Key: key, Kind: "hash"})
		}
	}
	first := len(o.Hiera)
	for _, behaviour := range []string{"native", "deep", "deeper"} {
		for _, backend := range []string{"yaml", "configdb"} {
			o.Hiera = append(o.Hiera, hieraJob{map[string]any{
				"backends": []string{backend}, "logger": "noop", "hierarchy": append(h.names(), "nowhere"),
				"merge_behavior": behaviour,
				"yaml":           map[string]any{"datadir": filepath.Join(o.dir, "data")},
				"configdb":       o.options(map[string]any{"uri": o.url + "/api/v1/config/environments/1/nodes/%{::fqdn}"}),
			}, lookups})
		}
	}
	last := len(o.Hiera)
	return func() {
		for job := first; job < last; job += 2 {
			for i, l := range lookups {
				o.equal(fmt.Sprintf("Hiera 3, %v: %s lookup of %s", o.Hiera[job].Config["merge_behavior"], l.Kind, l.Key), h,
					o.found.Hiera[job][i], o.found.Hiera[job+1][i])
			}
		}
	}
}

// routes compares what the controller itself merges with what Puppet does: of local YAML, an entry for each source.
func (o *oracle) routes(number int, h hierarchy) func() {
	o.Helper()
	var entries []map[string]any
	for _, name := range h.names() {
		entries = append(entries, o.entry("yaml", name))
	}
	lookups := h.lookups("yaml")
	local := o.compile(lookups, entries...)
	firsts := []lookup{}
	for _, key := range h.keys {
		firsts = append(firsts, lookup{Key: key, Merge: merges[0]})
	}
	merged := map[string]int{}
	for _, m := range merges {
		if m["strategy"] == "unique" {
			continue // there is none for all of the data
		}
		more := map[string]any{"resources": h.names(), "merge": m["strategy"]}
		for k, v := range m {
			if k != "strategy" {
				more[k] = v
			}
		}
		merged[fmt.Sprint(m)] = o.compile(firsts, map[string]any{
			"data_hash": "configdb::data", "uri": o.url + "/api/v1/config/environments/1/nodes/" + node,
			"options": o.options(more),
		})
	}
	return func() {
		for i, l := range lookups {
			want := o.found.Puppet[local][i]
			what := fmt.Sprintf("hierarchy %d, lookup of %s, merge %v", number, l.Key, l.Merge)
			o.equal(what+" by the route", h, want, o.byRoute(h, l))
			job, ok := merged[fmt.Sprint(l.Merge)]
			if root := slices.Index(h.keys, l.Key); ok && want[0] == '[' {
				o.equal(what+" in the merged data", h, want, o.found.Puppet[job][root])
			}
		}
		o.batch(h, lookups, o.found.Puppet[local])
	}
}

// byRoute looks a key up at the controller.
func (o *oracle) byRoute(h hierarchy, l lookup) outcome {
	o.Helper()
	query := url.Values{"resources": {strings.Join(h.names(), ",")}, "raw": {""}}
	for k, v := range l.Merge {
		switch {
		case k == "strategy":
			query.Set("merge", fmt.Sprint(v))
		case v == true:
			query.Set(k, "1")
		default:
			query.Set(k, fmt.Sprint(v))
		}
	}
	status, text := o.answer("GET", "/environments/1/nodes/"+node+"/hiera/lookup/"+url.PathEscape(l.Key)+"?"+
		query.Encode(), nil)
	switch status {
	case 200:
		return slices.Concat([]byte("["), text, []byte("]"))
	case 404:
		return outcome("[]")
	case 409:
		return outcome(strconv.Quote(string(text)))
	}
	o.Fatalf("lookup of %s, %v: %d %s", l.Key, l.Merge, status, text)
	return nil
}

// batch asks for all keys that can be merged at once.
func (o *oracle) batch(h hierarchy, lookups []lookup, found []outcome) {
	o.Helper()
	for _, m := range merges {
		keys, want := []string{}, map[string]json.RawMessage{}
		for i, l := range lookups {
			if l.Merge == nil || fmt.Sprint(l.Merge) != fmt.Sprint(m) || found[i][0] != '[' {
				continue
			}
			keys = append(keys, l.Key)
			if v := bytes.TrimSuffix(found[i][1:], []byte("]")); len(v) > 0 {
				want[l.Key] = v
			}
		}
		body := map[string]any{"keys": keys, "resources": h.names(), "merge": m["strategy"]}
		for k, v := range m {
			if k != "strategy" {
				body[k] = v
			}
		}
		all, err := json.Marshal(want)
		if err != nil {
			o.Fatal(err)
		}
		o.equal(fmt.Sprintf("batch of %v", m), h, all,
			o.ask(200, "POST", "/environments/1/nodes/"+node+"/hiera/lookup", body))
	}
}

// look has everything looked up, in one process.
func (o *oracle) look() {
	o.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		o.Fatal(err)
	}
	cmd := exec.CommandContext(o.Context(), "ruby", "-I", filepath.Join(module(o.TB), "lib"), "testdata/oracle.rb")
	cmd.Stdin = bytes.NewReader(text)
	out, said, err := run(o.TB, cmd)
	if err == nil {
		err = json.Unmarshal([]byte(out), &o.found)
	}
	if err != nil {
		o.Fatalf("%v: %.3000s", err, said)
	}
}

// equal compares two outcomes: errors are equal whatever they say.
func (o *oracle) equal(what string, h hierarchy, want, got outcome) {
	o.Helper()
	w, g := plain(want), plain(got)
	if w == g {
		return
	}
	var of []string
	for _, s := range h.sources {
		text, _ := json.Marshal(s.effective())
		of = append(of, string(text))
	}
	o.Errorf("%s:\n got %s\nwant %s\n of %s", what, got, want, strings.Join(of, "\n    "))
}

// plain is a spelling that equal values share: 1 and 1.0 are not equal, 2.50 and 2.5 are.
func plain(text outcome) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err.Error() + ": " + string(text)
	}
	if _, ok := v.(string); ok {
		return "error"
	}
	out, err := json.Marshal(number(v))
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func number(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return fmt.Sprintf("float %v", f)
		}
		return v
	case []any:
		for i := range v {
			v[i] = number(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = number(v[k])
		}
	}
	return v
}
