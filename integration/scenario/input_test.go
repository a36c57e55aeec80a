package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/platform/daemon"
)

// picky is a lab whose daemon runs a good config that must not change.
type picky struct {
	*world
	file, host, nis, apps string

	client *nodeapi.Client
	asked  int
}

// newPicky starts a daemon on sound's config.
func newPicky(t *testing.T) *picky {
	t.Helper()
	w := newWorld(t, "web")
	p := &picky{world: w, client: nodeapi.NewClient(w.Socket())}
	t.Cleanup(p.client.Close)
	w.start(text(sound()))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	p.eventually("the end of the uplink's duplicate address detection",
		func() bool { return !strings.Contains(w.in("node", "ip", "-6", "addr"), "tentative") })
	p.eventually("the record that the config stands", func() bool { return strings.Contains(p.stored(), `"Open":false`) })
	p.file, p.host, p.nis, p.apps = p.stored(), w.dump("node"), p.networks(),
		w.cli("get", "app", "-o", "json")
	return p
}

// stored returns everything that a daemon stores and a restart would read.
func (p *picky) stored() string {
	p.Helper()
	var all strings.Builder
	file, err := os.ReadFile(p.ConfigFile())
	kept, keptErr := daemon.NewFiles("", p.StateDir()).Read("confirmed")
	for _, err := range []error{err, keptErr} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.Fatal(err)
		}
	}
	fmt.Fprintf(&all, "== file\n%s\n== confirmed\n%s\n", file, kept)
	return all.String()
}

// networks are the statuses of the networks. That a tunnel is down is found after the start.
func (p *picky) networks() string {
	p.Helper()
	return tunnelDown.ReplaceAllString(p.cli("get", "ni", "-o", "json"), "")
}

var tunnelDown = regexp.MustCompile(`; the tunnel is down: [^"]*`)

// untouched checks that config, host and statuses are those of the start.
func (p *picky) untouched() {
	p.Helper()
	for what, pair := range map[string][2]string{
		"stored config": {p.file, p.stored()}, "host": {p.host, p.dump("node")},
		"list of networks": {p.nis, p.networks()},
		"list of apps":     {p.apps, p.cli("get", "app", "-o", "json")},
	} {
		if pair[0] != pair[1] {
			p.Errorf("refused configs changed the %s:\n%s", what, changed(pair[0], pair[1]))
		}
	}
}

// byCommand is how many documents one is applied by the command line of: the others ask its API, since a program for
// each of thousands takes minutes.
const byCommand = 8

// refused applies a document and returns the lines of its refusal: exit code 4, nothing on stdout, and no control
// characters.
func (p *picky) refused(name, doc string) []string {
	p.Helper()
	var lines []string
	if p.asked++; p.asked%byCommand == 1 {
		r, err := p.CLIWith(p.ctx, doc, "apply", "-f", "-")
		if err != nil {
			p.Fatal(err)
		}
		if r.Code != 4 || r.Out != "" {
			p.Errorf("%s: exit %d, stdout %q, want 4 and nothing: %s", name, r.Code, r.Out, r.Err)
			return nil
		}
		lines = strings.Split(strings.TrimSuffix(r.Err, "\n"), "\n")
	} else {
		_, err := p.client.Apply(p.ctx, []byte(doc), nodeapi.ApplyOptions{})
		var rejected *rest.Rejected
		if !errors.As(err, &rejected) {
			p.Errorf("%s: %v, want a rejection", name, err)
			return nil
		}
		lines = rejected.Faults
	}
	for _, l := range lines {
		if l == "" || len(l) > 2000 ||
			strings.ContainsFunc(l, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\ufffd' }) {
			p.Errorf("%s: a line of the refusal is no clear line: %q", name, l)
		}
	}
	return lines
}

// faults checks that a document is refused with one line for each of paths and no more. After ": ", a path may have a
// text that its line must contain.
func (p *picky) faults(name, doc string, paths ...string) {
	p.Helper()
	lines := p.refused(name, doc)
	for _, want := range paths {
		path, also, _ := strings.Cut(want, ": ")
		i := slices.IndexFunc(lines,
			func(l string) bool { return strings.HasPrefix(l, path+": ") && strings.Contains(l, also) })
		if i < 0 {
			p.Errorf("%s: no line says %s:\n%s", name, want, strings.Join(lines, "\n"))
			return
		}
		lines = slices.Delete(lines, i, i+1)
	}
	if len(lines) > 0 {
		p.Errorf("%s: more lines than faults:\n%s", name, strings.Join(lines, "\n"))
	}
}

type tree = map[string]any

// sound returns a good config with a value on the way to each field of the schema.
func sound() tree {
	return tree{
		"ports": tree{"wan": tree{"ifName": "uplink0", "uplink": true, "dnsServers": "198.51.100.53"}},
		"networkInstances": tree{ni(1): tree{
			"displayName": "net1", "port": "wan", "ipv4": tree{"subnet": "10.1.0.0/24"},
			"dns":    tree{"domain": "n1.edge", "hosts": tree{"printer": "192.0.2.77"}},
			"sets":   tree{"lab": tree{"192.0.2.0/24": "second floor"}},
			"routes": tree{"lab": tree{"destination": "203.0.113.0/24", "gateway": "192.0.2.1"}},
		}, ni(2): tree{"type": "vpn", "port": "wan", "ipv4": tree{"subnet": "10.2.0.0/24"}, "vpn": tree{
			"method": "wireguard", "wireguard": tree{"peers": tree{"lab": tree{"publicKey": publicOf(peerPrivate),
				"endpoint": "198.51.100.80:51820", "allowedIPs": "0.0.0.0/0"}}},
		}}, ni(3): tree{"type": "vpn", "port": "wan", "ipv4": tree{"subnet": "10.3.0.0/24"}, "vpn": tree{
			"method": "ipsec", "ipsec": tree{"remote": "198.51.100.80", "psk": "key", "children": tree{"lab": tree{}}},
		}}},
		"appNetworks": tree{app(1): tree{
			"displayName": "app1",
			"adapters": tree{"0": tree{
				"networkInstance": ni(1), "attach": tree{"kind": "veth", "netns": "web"},
				"acl": tree{"all": tree{"match": tree{"protocol": "tcp"}}},
			}},
		}},
	}
}

func text(t tree) string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // maps of strings, numbers and booleans
	}
	return string(b)
}

// wildcards are the keys of sound.
var wildcards = map[string]string{"<label>": "wan", "<host>": "printer", "<index>": "0",
	"<prefix>": "192.0.2.0/24"}

// place converts a path of the schema to a path in sound.
func place(e nodeconf.Entry) []string {
	path := strings.Split(e.Path, ".")
	for i, s := range path {
		switch {
		case wildcards[s] != "":
			path[i] = wildcards[s]
		case s == "<uuid>" && strings.HasPrefix(e.Path, "networkInstances.<uuid>.vpn.ipsec"):
			path[i] = ni(3)
		case s == "<uuid>" && strings.HasPrefix(e.Path, "networkInstances.<uuid>.vpn."):
			path[i] = ni(2)
		case s == "<uuid>" && path[0] == "networkInstances":
			path[i] = ni(1)
		case s == "<uuid>":
			path[i] = app(1)
		case s == "<name>" && path[0] == "networkInstances":
			path[i] = "lab"
		case s == "<name>":
			path[i] = "all"
		}
	}
	return path
}

// put sets the value at a path and creates missing mappings.
func put(t tree, path []string, v any) tree {
	at := t
	for _, s := range path[:len(path)-1] {
		below, ok := at[s].(tree)
		if !ok {
			below = tree{}
			at[s] = below
		}
		at = below
	}
	at[path[len(path)-1]] = v
	return t
}

// wrong returns values of every type other than an entry's.
func wrong(e nodeconf.Entry) []any {
	values := []any{nil, []any{"x"}}
	if e.Type != nodeconf.Mapping {
		values = append(values, tree{"x": "y"})
	}
	if e.Type != nodeconf.Boolean {
		values = append(values, true)
	}
	switch e.Type {
	case nodeconf.StringOrInt:
		values = append(values, 1.5)
	case nodeconf.Integer:
		values = append(values, "12", 1.5, -1, 1e20)
	default:
		values = append(values, 12)
	}
	if e.Type == nodeconf.Mapping || e.Type == nodeconf.Boolean {
		values = append(values, "true")
	}
	return values
}

func TestEveryFieldOfAWrongTypeIsRefused(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	// In two documents: of very many faults of one kind, only the first are listed.
	all, want := [2]config.Object{sound(), sound()}, [2][]string{}
	for _, e := range nodeconf.Schema() {
		path := place(e)
		for _, v := range wrong(e) {
			name := fmt.Sprintf("%s: %v", e.Path, v)
			p.faults(name, text(put(sound(), path, v)), config.FormatPath(path))
		}
		if e.Type != nodeconf.Mapping {
			half := (len(want[0]) + len(want[1])) % 2
			put(all[half], path, []any{"x"})
			want[half] = append(want[half], config.FormatPath(path))
		}
	}
	for half, list := range want {
		if len(list) < 40 {
			t.Errorf("only %d fields: the schema has more", len(list))
		}
		p.faults("half of the fields at once", text(all[half]), list...)
	}
	p.untouched()
}

// hostile are texts that must not get into a file, a rule or a command line.
var hostile = []string{
	"a\nb", "a b", "a;b", `a"b`, "a'b", "a\x00b", "a\tb", "a`id`b", "$(id)", "a|b", "a\rb", "-\x1b[2J", "\u202eab", " ",
	"\n",
	strings.Repeat("a", 300), strings.Repeat("a;", 150), "../../etc/passwd", "a\ninterface=lo",
}

// oneValue are fields of a tunnel that reach strongSwan as they are, each as one value of a message.
var oneValue = map[string]bool{"psk": true, "eapPassword": true, "eapUser": true, "localId": true, "remoteId": true}

func TestHostileStringsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	fields := 0
	for _, e := range nodeconf.Schema() {
		switch e.Type {
		case nodeconf.String, nodeconf.StringList, nodeconf.StringOrInt:
		default:
			continue
		}
		fields++
		path := place(e)
		for _, v := range hostile {
			forPeople := strings.HasSuffix(e.Path, ".displayName") || strings.HasSuffix(e.Path, ".<prefix>") ||
				oneValue[e.Path[strings.LastIndexByte(e.Path, '.')+1:]]
			if forPeople && printable(v) {
				continue // the next test has it
			}
			p.faults(fmt.Sprintf("%s: %.20q", e.Path, v), text(put(sound(), path, v)), config.FormatPath(path))
		}
	}
	if fields < 30 {
		t.Errorf("only %d strings in the schema", fields)
	}
	for _, e := range nodeconf.Schema() {
		path := place(e)
		if !strings.HasSuffix(e.Path, ">") {
			continue
		}
		good := []byte(strconv.FormatInt(e.Max, 10)) // of a field that a local network lacks
		if e.Type != nodeconf.Integer {
			good, _ = json.Marshal(at(sound(), path))
		}
		for _, v := range hostile {
			var entry any
			if err := json.Unmarshal(good, &entry); err != nil {
				t.Fatal(err)
			}
			path[len(path)-1] = v
			bad := put(sound(), path, distinct(entry))
			p.hostileKey(e.Path, text(bad), path)
		}
	}
	p.untouched()
}

// hostileKey checks that the refusal names the key as invalid.
func (p *picky) hostileKey(name, doc string, path []string) {
	p.Helper()
	lines := p.refused(fmt.Sprintf("%s as %.20q", name, path[len(path)-1]), doc)
	shown := slices.Clone(path)
	if last := len(path) - 1; len(path[last]) > 256 {
		shown[last] = path[last][:40] + "…" // messages shorten an invalid key
	}
	if want := config.FormatPath(shown) + ": invalid key: "; len(lines) != 1 || !strings.HasPrefix(lines[0], want) {
		p.Errorf("%s: want one line of %q:\n%s", name, want, strings.Join(lines, "\n"))
	}
}

// distinct removes from a copied entry what must be unique on the node.
func distinct(entry any) any {
	m, ok := entry.(tree)
	if !ok {
		return entry
	}
	for key, v := range map[string]string{"ifName": "lan0", "displayName": "another", "destination": "198.18.0.0/24"} {
		if _, has := m[key]; has {
			m[key] = v
		}
	}
	if v4, ok := m["ipv4"].(tree); ok {
		v4["subnet"] = "10.99.0.0/24"
	}
	if a, ok := m["attach"].(tree); ok {
		a["netns"] = "another"
	}
	if all, ok := m["adapters"].(tree); ok {
		for _, a := range all {
			distinct(a)
		}
	}
	return m
}

// at returns the value at a path.
func at(t tree, path []string) any {
	var v any = t
	for _, s := range path {
		v = v.(tree)[s]
	}
	return v
}

func printable(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' })
}

func TestAHostileDisplayNameStaysText(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	for _, v := range hostile {
		if !printable(v) {
			continue
		}
		d := put(sound(), []string{"networkInstances", ni(1), "displayName"}, v)
		p.apply(text(d))
		p.wait("ready", "ni/"+ni(1), "app/"+app(1))
		if got := p.status("ni", ni(1))["displayName"]; got != v {
			t.Errorf("display name %q is shown as %q", v, got)
		}
		if _, err := uuid.Parse(v); v == "" || err == nil {
			continue
		}
		r, err := p.CLI(p.ctx, "explain", "-o", "name", "--", "ni/"+v)
		if err != nil || r.Code != 0 || !strings.HasPrefix(r.Out, "ni/"+ni(1)+"\n") {
			t.Errorf("explain ni/%q: %v, %+v", v, err, r)
		}
	}
	if now := p.dump("node"); now != p.host {
		t.Errorf("a display name is on the host:\n%s", changed(p.host, now))
	}
}

func TestFaultsBetweenFieldsAreReportedAllAtOnce(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	n := func(i int, rest ...string) string {
		return strings.Join(append([]string{"networkInstances", ni(i)}, rest...), ".")
	}
	a := func(i int, rest ...string) string {
		return strings.Join(append([]string{"appNetworks", app(i), "adapters", "0"}, rest...), ".")
	}
	adapter := func(name, netns string, more tree) tree {
		m := tree{"networkInstance": ni(1), "attach": tree{"kind": "veth", "netns": netns}}
		maps.Copy(m, more)
		return tree{"displayName": name, "adapters": tree{"0": m}}
	}
	d := sound()
	nets, apps := d["networkInstances"].(tree), d["appNetworks"].(tree)
	nets[ni(2)] = tree{"port": "wan", "ipv4": tree{"subnet": "10.1.0.128/25"}}
	nets[ni(3)] = tree{"port": "wan",
		"ipv4": tree{"subnet": "10.3.0.0/24", "gateway": "10.3.0.20", "dhcpRange": "10.3.0.10-10.3.0.99"}}
	nets[ni(4)] = tree{"port": "wan", "ipv4": tree{"subnet": "10.4.0.0/24", "gateway": "10.5.0.1"}}
	nets[ni(5)] = tree{"port": "lan", "ipv4": tree{"subnet": "10.5.0.0/24", "dhcpRange": "10.5.0.99-10.5.0.10"},
		"colour": "red"}
	nets["blue"] = tree{"ipv4": tree{"subnet": "10.6.0.0/24"}}
	nets[ni(7)] = tree{"port": "wan"}
	apps[app(2)] = adapter("app2", "two", tree{"mac": "02:00:00:00:00:07", "ip": "10.1.0.9"})
	apps[app(3)] = adapter("app3", "three", tree{"mac": "02:00:00:00:00:07", "ip": "10.1.0.9"})
	apps[app(4)] = adapter("app2", "two", tree{"ip": "10.1.0.200", "speed": 1})
	apps[app(5)] = adapter("app5", "five", tree{"ip": "10.77.0.1", "networkInstance": ni(1), "mac": "03:00:00:00:00:01"})
	apps[app(6)] = adapter("app6", "six", tree{"networkInstance": "blue"})
	d["colour"], d["network-instances"] = "red", tree{}
	put(d, []string{"ports", "wan", "speed"}, 10)
	put(d, []string{"sysParams", "loglevel"}, "info")
	want := []string{
		n(2, "ipv4.subnet") + ": overlaps", n(3, "ipv4.gateway") + ": dhcpRange", n(4, "ipv4.gateway"), n(5, "port") +
			": lan",
		n(5, "ipv4.dhcpRange"), n(5, "colour") + ": unknown field", "networkInstances.blue: invalid key",
		n(7, "ipv4.subnet") + ": required",
		a(3, "mac") + ": 02:00:00:00:00:07", a(3, "ip") + ": 10.1.0.9", a(4, "ip") + ": dhcpRange", a(4, "speed") +
			": unknown field",
		a(4, "attach.netns"), "appNetworks." + app(4) + ".displayName: app2", a(5, "ip") + ": subnet", a(5, "mac"),
		a(6, "networkInstance") + ": UUID", "colour: unknown field", "network-instances: unknown field",
		"ports.wan.speed: unknown field",
		"sysParams.loglevel: unknown field",
	}
	p.faults("all at once", text(d), want...)
	p.untouched()
}

// later are features that the schema knows and this version refuses. They remain listed, so that they don't look like
// typing errors.
var later []string

func TestWhatIsNotBuiltYetIsRefusedByName(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	var tried []string
	for _, e := range nodeconf.Schema() {
		path := place(e)
		for _, v := range e.Unsupported {
			tried = append(tried, e.Path+"="+v)
			var value any = v
			switch {
			case e.Type == nodeconf.Mapping:
				value = tree{"x": 1}
			case e.Type == nodeconf.Boolean:
				value = v == "true"
			case e.Type == nodeconf.Integer:
				value = 7
			}
			p.faults(e.Path+"="+v, text(put(sound(), path, value)), config.FormatPath(path)+": not supported yet")
		}
	}
	for _, l := range later {
		if !slices.Contains(tried, l) {
			t.Errorf("%s is not refused as not supported yet", l)
		}
	}
	p.untouched()
}

func TestDocumentsThatAreNoConfigAreRefused(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	for name, doc := range map[string]string{
		"0 bytes": "", "blanks": " \n\n", "a comment": "# nothing\n", "null": "null", "a list": "[1, 2]", "a word": "config",
		"a number": "5",
		"5 MiB":    "# " + strings.Repeat("x", 5<<20), "5 MiB of JSON": `{"colour": "` + strings.Repeat("x", 5<<20) + `"}`,
		"deep JSON": strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), "deep lists": `{"a":` +
			strings.Repeat("[", 200_000),
		"deep YAML flow": strings.Repeat("{a: ", 50_000) + "1" + strings.Repeat("}", 50_000), "no UTF-8": "ports: \xff\xfe",
		"half JSON":     `{"ports": {`,
		"two documents": "{}\n---\n{}\n", "JSON and more": "{} {}", "an anchor": "ports: &p {}\nappNetworks: *p\n",
		"a tab": "ports:\n\twan: {}\n",
	} {
		lines := p.refused(name, doc)
		if len(lines) != 1 || !strings.Contains(lines[0], ": must be ") {
			t.Errorf("%s: want one line that says what must be:\n%s", name, strings.Join(lines, "\n"))
		}
	}
	var deep strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&deep, "%sa:\n", strings.Repeat(" ", i))
	}
	p.refused("deep YAML blocks", deep.String())
	p.faults("keys twice in JSON", `{"ports": {"wan": {"ifName": "uplink0", "ifName": "eth9"}}, "ports": {}}`,
		"ports: duplicate key (2 times)", "ports.wan.ifName: duplicate key (2 times)")
	p.faults("keys twice in YAML", "ports:\n  wan: {ifName: uplink0}\n  wan: {ifName: eth9}\nports: {}\n",
		"ports: duplicate key (2 times)",
		"ports.wan: duplicate key (2 times)")
	p.untouched()
}

func TestTheCommandLineSaysByItsExitCodeWhatWasWrong(t *testing.T) {
	t.Parallel()
	p := newPicky(t)
	nobody := filepath.Join(p.Dir, "nobody.sock")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"apply -f " + filepath.Join(p.Dir, "nofile"), 1, "no such file"},
		{"apply -f " + p.Dir, 1, "is a directory"},
		{"apply", 2, "-f"},
		{"apply --no-such-flag", 2, "no-such-flag"},
		{"no-such-command", 2, "no-such-command"},
		{"get", 2, ""},
		{"get nothing", 2, "nothing"},
		{"get ni -o xml", 2, "xml"},
		{"wait ni", 2, "ni/ID"},
		{"wait ni/x --for rain", 2, "rain"},
		{"wait ni/x --timeout 0s", 2, "timeout"},
		{"wait app/" + app(1) + "/0 --for absent", 2, "must be an app"},
		{"wait ni/nosuch --for ready --timeout 300ms", 3, "not in the config"},
		{"get ni nosuch", 10, "nosuch"},
		{"get app " + app(9), 10, app(9)},
		{"get adapter " + app(1) + "/9", 10, "not found"},
		{"--socket " + nobody + " get ni", 8, nobody},
		{"--socket " + nobody + " apply -f " + p.ConfigFile(), 8, nobody},
		{"--socket " + nobody + " wait ni/" + ni(1) + " --timeout 300ms", 8, nobody},
		{"wait ni/" + ni(9) + " --for ready --timeout 300ms", 3, "not in the config"},
		{"wait app/" + app(9) + " --for ready --timeout 300ms", 3, "not in the config"},
		{"wait ni/" + ni(1) + " --for absent --timeout 300ms", 3, "still there"},
		{"wait ni/" + ni(9) + " --for absent --timeout 1ns", 3, ""},
	} {
		r, err := p.CLI(p.ctx, strings.Fields(c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		if r.Code != c.code || r.Out != "" || !strings.Contains(r.Err, c.says) || r.Err == "" {
			t.Errorf("edgespan %s: exit %d, stdout %q, want %d, nothing and %q: %s", c.args, r.Code, r.Out, c.code, c.says,
				r.Err)
		}
	}
	// True at once: if the condition did not hold, the test would run into its own deadline.
	for _, id := range []string{"ni/" + ni(9), "app/" + app(9)} {
		p.cli("wait", id, "--for", "absent", "--timeout", "1h")
	}
	p.untouched()
	if err := p.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if r, err := p.CLI(p.ctx, "get", "ni"); err != nil || r.Code != 8 {
		t.Errorf("a dead daemon's socket: exit %d, %v: %s", r.Code, err, r.Err)
	}
}
