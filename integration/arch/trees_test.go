package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// branch is an actor of a tree that a doc.go draws.
var branch = regexp.MustCompile(`(?m)^//\t *(/\S+)`)

// spawned are the names that the rooms below one give to actors, "/" before each; a name that is made of an id ends
// with a slash.
func spawned(t *testing.T, all []actorsFile, top string) []string {
	t.Helper()
	var out []string
	for _, f := range all {
		if !under(f.room, top) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || fun.Sel.Name != "SpawnNamed" && fun.Sel.Name != "Spawn" {
				return true
			}
			name := call.Args[1]
			if sum, ok := name.(*ast.BinaryExpr); ok {
				name = sum.X
			}
			if text, ok := name.(*ast.BasicLit); ok && text.Kind == token.STRING {
				out = append(out, "/"+strings.Trim(text.Value, `"`))
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The trees that the controller's and ConfigDB's doc.go draw are those that are spawned; the node's is compared with
// the one that runs (actors/node).
func TestTheTreesAreAsTheyAreDrawn(t *testing.T) {
	all := actorsFiles(t)
	for room, least := range map[string]int{"actors/controller": 6, "actors/configdb": 3} {
		text, err := os.ReadFile(filepath.Join(root(t), room, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		var drawn []string
		for _, m := range branch.FindAllStringSubmatch(string(text), -1) {
			drawn = append(drawn, strings.TrimSuffix(m[1], "<uuid>"))
		}
		slices.Sort(drawn)
		if got := spawned(t, all, room); !slices.Equal(got, drawn) || len(got) < least {
			t.Errorf("%s spawns %q, draws %q", room, got, drawn)
		}
	}
}
