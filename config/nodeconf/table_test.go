package nodeconf

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode"

	"edgespan/config"
)

// valid is a document in which every field of the table can be set.
const valid = `{
	"sysParams": {}, "ports": {"wan": {"ifName": "eth0"}},
	"networkInstances": {"` + ni1 +
	`": {"ipv4": {"subnet": "10.0.0.0/24"}, "dns": {"hosts": {}}, "routes": {"r": {"destination": "192.0.2.0/24"}}, "sets": {"s": {}}},
	"` + ofWireGuard + `": {"type": "vpn", "ipv4": {"subnet": "10.0.1.0/24"}, "vpn": {"method": "wireguard", "wireguard": {"peers":
		{"p": {"publicKey": "` + key1 + `", "endpoint": "h.example:51820", "allowedIPs": "0.0.0.0/0"}}}}},
	"` + ofIPsec + `": {"type": "vpn", "ipv4": {"subnet": "10.0.2.0/24"}, "vpn": {"method": "ipsec", "ipsec": {"psk": "x",
		"remote": "192.0.2.1", "children": {"c": {}}}}}},
	"appNetworks": {"` + app1 + `": {"adapters": {"0": {"networkInstance": "` + ni1 +
	`", "attach": {"kind": "veth", "netns": "a"},
		"acl": {"rule": {"match": {"protocol": "tcp"}}}}}}}
}`

// The networks of valid with a tunnel of each method, and a key of WireGuard.
const (
	ofWireGuard = "30000000-0000-4000-8000-000000000001"
	ofIPsec     = "30000000-0000-4000-8000-000000000002"
	key1        = "nM8bGDzXrbMQWk9e4GvPJ9vdsXp1MXQ0PZkzTIxNzlE="
)

// placeOf is where an entry's field is in valid.
func placeOf(e Entry) []string {
	p := strings.Split(e.Path, ".")
	for i, s := range p {
		switch s {
		case "<label>":
			p[i] = "wan"
		case "<uuid>":
			p[i] = map[string]string{"networkInstances": ni1, "appNetworks": app1}[p[0]]
			switch {
			case strings.HasPrefix(e.Path, "networkInstances.<uuid>.vpn.ipsec"):
				p[i] = ofIPsec
			case strings.HasPrefix(e.Path, "networkInstances.<uuid>.vpn"):
				p[i] = ofWireGuard
			}
		case "<index>":
			p[i] = "0"
		case "<host>":
			p[i] = "host"
		case "<name>":
			p[i] = map[string]string{"routes": "r", "acl": "rule", "sets": "s", "peers": "p", "children": "c"}[p[i-1]]
		case "<prefix>":
			p[i] = "10.0.0.0/8"
		}
	}
	return p
}

// with is valid with one field set.
func with(t *testing.T, path []string, v any) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(valid), &doc); err != nil {
		t.Fatal(err)
	}
	set(doc, path, v)
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func set(at map[string]any, path []string, v any) {
	for _, s := range path[:len(path)-1] {
		if _, ok := at[s].(map[string]any); !ok {
			at[s] = map[string]any{}
		}
		at = at[s].(map[string]any)
	}
	at[path[len(path)-1]] = v
}

// oneFault checks that a document has one fault, at the path, in one clear line.
func oneFault(t *testing.T, doc []byte, path []string) {
	t.Helper()
	_, _, err := Read(doc)
	var fs config.Faults
	if !errors.As(err, &fs) || len(fs) != 1 || config.FormatPath(fs[0].Path) != config.FormatPath(path) {
		t.Fatalf("%s\ngot %v\nwant one fault at %s", doc, err, config.FormatPath(path))
	}
	checkLine(t, fs[0])
}

func checkLine(t *testing.T, f config.Fault) {
	t.Helper()
	line := f.Error()
	if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) || len(line) > 1200 {
		t.Errorf("no clear line: %q", line)
	}
}

var wrongValues = map[Type][]any{
	Mapping:     {nil, true, 5, 1.5, "x", []any{1}},
	String:      {nil, true, 5, 1.5, []any{"x"}, map[string]any{"x": 1}},
	StringList:  {nil, true, 5, 1.5, []any{"x"}, map[string]any{"x": 1}},
	StringOrInt: {nil, true, []any{5}, map[string]any{"x": 1}},
	Integer:     {nil, true, 1.5, "5", []any{5}, map[string]any{"x": 1}},
	Boolean:     {nil, 1, "true", "", []any{true}, map[string]any{"x": 1}},
}

func TestEveryFieldOfWrongTypeIsOneFault(t *testing.T) {
	if _, _, err := Read([]byte(valid)); err != nil {
		t.Fatal(err)
	}
	for _, e := range Schema() {
		for _, v := range wrongValues[e.Type] {
			oneFault(t, with(t, placeOf(e), v), placeOf(e))
		}
	}
}

var hostile = []string{
	"a\nb", "a b", "a;b", "a\x00b", `a"b'c`, strings.Repeat("x", 300), "\u2028", "\u202e", "$(reboot)",
	"-A INPUT\n-j ACCEPT", "🦀", "%s%n", "..", "../..", "a,b c",
}

func TestEveryHostileStringIsOneFault(t *testing.T) {
	for _, e := range Schema() {
		if e.Type == Mapping || e.Type == Integer || e.Type == Boolean {
			continue
		}
		for _, v := range hostile {
			if _, ok := parseDisplay(v); ok && e.Word == wordDisplay {
				continue // any printable text names something for people
			}
			if e.Word == wordSecret || e.Word == wordIdentity {
				if _, _, ok := words[e.Word].parse(v); ok {
					continue // it reaches strongSwan as one value
				}
			}
			oneFault(t, with(t, placeOf(e), v), placeOf(e))
		}
	}
}

func TestEveryHostileKeyIsOneFault(t *testing.T) {
	for _, e := range Schema() {
		if e.Type != Mapping || len(e.Unsupported) > 0 {
			continue
		}
		for _, k := range hostile {
			var v any = map[string]any{}
			switch r := ruleOf(e); {
			case r.wild == nil:
				v = true
			case r.wild.Type == Integer:
				v = r.wild.Min
			case r.wild.Type != Mapping:
				v = "192.0.2.1"
			default:
				v = map[string]any{absentKey: false, "unknown": 1} // its own faults are told too
			}
			path := append(placeOf(e), k)
			fs := faultsAt(t, with(t, path, v), path)
			if fs != 1 {
				t.Errorf("%s: %d faults", config.FormatPath(path), fs)
			}
		}
	}
}

func child(r *rule, segment string) *rule {
	if segment[0] == '<' {
		return r.wild
	}
	return r.below[segment]
}

func ruleOf(e Entry) *rule {
	r := schema
	for _, s := range strings.Split(e.Path, ".") {
		r = child(r, s)
	}
	return r
}

// faultsAt counts a document's faults at one path, all in clear lines.
func faultsAt(t *testing.T, doc []byte, path []string) int {
	t.Helper()
	_, _, err := Read(doc)
	var fs config.Faults
	errors.As(err, &fs)
	n := 0
	for _, f := range fs {
		checkLine(t, f)
		if config.FormatPath(f.Path) == config.FormatPath(path) {
			n++
		}
	}
	return n
}

func TestAllFaultsAtOnce(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal([]byte(valid), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, e := range Schema() {
		if e.Type != Mapping {
			set(doc, placeOf(e), []any{})
			want[config.FormatPath(placeOf(e))] = true
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Read(out)
	var fs config.Faults
	if !errors.As(err, &fs) || len(fs) != len(want) {
		t.Fatalf("got %d faults, want %d:\n%v", len(fs), len(want), err)
	}
	for _, f := range fs {
		if !want[config.FormatPath(f.Path)] {
			t.Errorf("unexpected: %v", f)
		}
	}
}

func TestEveryEntryIsDescribed(t *testing.T) {
	for _, e := range Schema() {
		if e.Description == "" || !strings.HasSuffix(e.Description, ".") {
			t.Errorf("%s: description %q", e.Path, e.Description)
		}
		if e.Type != Mapping && e.Expectation() == "" {
			t.Errorf("%s: must be nothing", e.Path)
		}
		if e.Type == StringList && words[e.Word].plural == "" {
			t.Errorf("%s: word %q has no plural", e.Path, e.Word)
		}
	}
}

const page = "../../docs/configuration.md"

// The page's prose is written by hand, what lies between these marks by -update.
const (
	tableBegin = "<!-- fields: begin (written by go test ./config/nodeconf -update) -->\n"
	tableEnd   = "<!-- fields: end -->\n"
)

func TestConfigurationPageIsTheTable(t *testing.T) {
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(old), tableBegin)
	_, tail, okEnd := strings.Cut(rest, tableEnd)
	if !ok || !okEnd {
		t.Fatalf("%s has lost its marks", page)
	}
	golden(t, page, head+tableBegin+fieldTables()+tableEnd+tail)
}

// fieldTables is the schema as Markdown, a table for each section.
func fieldTables() string {
	var b strings.Builder
	for _, e := range Schema() {
		if !strings.Contains(e.Path, ".") {
			b.WriteString("\n### " + e.Path + "\n\n" + e.Description +
				"\n\n| field | type | default | allowed | meaning |\n|---|---|---|---|---|\n")
			continue
		}
		cells := []string{"`" + e.Path[strings.Index(e.Path, ".")+1:] + "`", string(e.Type), "", allowedCell(e),
			e.Description}
		switch {
		case e.Default != "":
			cells[2] = "`" + e.Default + "`"
		case e.Required && e.When != "":
			cells[2] = "required with " + e.When
		case e.Required:
			cells[2] = "required"
		}
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", "\\|")
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String() + "\n"
}

func allowedCell(e Entry) string {
	switch {
	case len(e.Unsupported) == 1 && e.Unsupported[0] == anyOther:
		return "not supported yet"
	case len(e.Unsupported) > 0:
		var quoted []string
		for _, u := range e.Unsupported {
			if u == "" {
				u = `""`
			}
			quoted = append(quoted, u)
		}
		return e.Expectation() + "; not supported yet: " + strings.Join(quoted, ", ")
	case e.Type == Mapping && ruleOf(e).kind != "":
		return "keys: " + words[ruleOf(e).keyWord].allowed
	}
	return e.Expectation()
}
