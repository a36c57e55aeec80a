package arch

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ranks are the groups of config (docs/adr/0054): a group imports itself and those of a lower rank. What
// is in none of them is the documents.
var ranks = map[string]int{
	"config/kv": 1, "config/layers": 1, "config/nodeconf": 2, "config/configdb": 2, "config/stateloop": 3,
	"config/fleet": 4, "config/httpapi": 5,
}

// groupOf is the group of config that a room is in, "config" for the documents, "" for a room elsewhere.
func groupOf(room string) string {
	for g := range ranks {
		if under(room, g) {
			return g
		}
	}
	if room == "config" {
		return room
	}
	return ""
}

func upward(table map[string][]string) []string {
	var out []string
	for room, imports := range table {
		from := groupOf(room)
		if from == "" {
			continue
		}
		for _, imp := range imports {
			to := groupOf(imp)
			if to != "" && to != from && ranks[to] >= ranks[from] {
				out = append(out, fmt.Sprintf("%s imports %s: %s is no group below %s", room, imp, to, from))
			}
			if from == "config/configdb" && to != from && to != "config" && to != "config/kv" && to != "" {
				out = append(out, fmt.Sprintf("%s imports %s: ConfigDB knows documents and keys only", room, imp))
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestAGroupOfConfigImportsThoseBelow(t *testing.T) {
	for _, wrong := range upward(mayImport) {
		t.Error(wrong)
	}
	got := upward(map[string][]string{"config/kv": {"config", "config/layers/lint"},
		"config/fleet/ops": {"config/fleet", "config/stateloop/peer"}, "config": {"config/kv"}})
	want := []string{
		"config imports config/kv: config/kv is no group below config",
		"config/kv imports config/layers/lint: config/layers is no group below config/kv",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// idle are the permissions that stand twice, or that no import needs: the table is the map of the house, and
// a map shows no way that nobody goes.
func idle(ps []pkg, table, tests map[string][]string) []string {
	var out []string
	find := func(what, room string, permitted, imports []string) {
		for i, imp := range permitted {
			if slices.Contains(permitted[:i], imp) {
				out = append(out, fmt.Sprintf("%s: %s %s twice", room, what, imp))
			} else if !slices.Contains(imports, module+"/"+imp) {
				out = append(out, fmt.Sprintf("%s: %s %s, which it does not import", room, what, imp))
			}
		}
	}
	for _, p := range ps {
		room := p.room()
		find("may import", room, table[room], p.Imports)
		find("its tests may import", room, tests[room], append(slices.Clone(p.TestImports), p.XTestImports...))
		for _, imp := range tests[room] {
			if slices.Contains(table[room], imp) {
				out = append(out, fmt.Sprintf("%s: its tests may import %s as the rest of it may", room, imp))
			}
		}
	}
	for room := range maps.Keys(table) {
		if !slices.ContainsFunc(ps, func(p pkg) bool { return p.room() == room }) {
			out = append(out, room+": there is no such room")
		}
	}
	slices.Sort(out)
	return out
}

func TestTheTablePermitsNoMoreThanIsUsed(t *testing.T) {
	for _, wrong := range idle(packages(t), mayImport, testsMayImport) {
		t.Error(wrong)
	}
	ps := []pkg{{ImportPath: "edgespan/a", Imports: []string{"edgespan/b"}, TestImports: []string{"edgespan/d"}}}
	got := idle(ps, map[string][]string{"a": {"b", "b", "c"}, "e": {}}, map[string][]string{"a": {"b", "d"}})
	want := []string{
		"a: its tests may import b as the rest of it may", "a: its tests may import b, which it does not import",
		"a: may import b twice", "a: may import c, which it does not import", "e: there is no such room",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoProductionCodeImportsIntegration(t *testing.T) {
	for room, imports := range mayImport {
		for _, imp := range imports {
			if under(imp, "integration") && !under(room, "integration") {
				t.Errorf("%s imports %s", room, imp)
			}
		}
	}
}

// The most that a room has.
const (
	maxFiles     = 30 // without tests
	maxMainFiles = 3
	maxGroups    = 8 // folders directly below config
)

func TestNoRoomIsOvergrown(t *testing.T) {
	below := map[string]bool{}
	for _, p := range packages(t) {
		if dirs := strings.Split(p.room(), "/"); dirs[0] == "config" && len(dirs) > 1 {
			below[dirs[1]] = true
		}
		limit := maxFiles
		if p.Name == "main" {
			limit = maxMainFiles
		}
		if len(p.GoFiles) > limit {
			t.Errorf("%s has %d files, at most %d", p.room(), len(p.GoFiles), limit)
		}
	}
	if len(below) > maxGroups {
		t.Errorf("config has %d folders, at most %d: %v", len(below), maxGroups, slices.Sorted(maps.Keys(below)))
	}
}

// unmapped are the rooms whose own folder's name is not in the map of docs/architecture.md.
func unmapped(page string, rooms []string) []string {
	_, tree, _ := strings.Cut(page, "\n## The packages\n")
	tree, _, _ = strings.Cut(tree, "\n## ")
	words := strings.FieldsFunc(tree, func(r rune) bool { return !(r == '-' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9') })
	return slices.DeleteFunc(slices.Clone(rooms), func(room string) bool {
		return slices.Contains(words, room[strings.LastIndex(room, "/")+1:])
	})
}

func TestTheMapHasEveryRoom(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rooms []string
	for _, p := range packages(t) {
		rooms = append(rooms, p.room())
	}
	if missing := unmapped(string(text), rooms); len(missing) > 0 {
		t.Errorf("docs/architecture.md, The packages: does not name %v", missing)
	}
	page := "\n## The packages\na/b, c: the room of d\n## Then\ne\n"
	if got := unmapped(page, []string{"a/b", "a/c", "e", "a/oo"}); !slices.Equal(got, []string{"e", "a/oo"}) {
		t.Errorf("not in the map: %v", got)
	}
}
