package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// plainRooms are the folders whose faults read PATH: problem: expectation.
var plainRooms = []string{"config/", "netinst/", "appnet/", "pubsub/"}

// retiredTexts are the phrases that such a fault no longer has.
var retiredTexts = []string{"is allowed", "are allowed"}

func TestFaultsSayWhatMustBe(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, ".go") {
		inRoom := false
		for _, room := range plainRooms {
			inRoom = inRoom || strings.HasPrefix(file, room)
		}
		if !inRoom || strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			text, is := n.(*ast.BasicLit)
			if !is || text.Kind != token.STRING {
				return true
			}
			for _, retired := range retiredTexts {
				if strings.Contains(text.Value, retired) {
					t.Errorf("%s:%d says %q: write \"must be …\" (config.Fault)", file, set.Position(text.Pos()).Line, retired)
				}
			}
			return true
		})
	}
}
