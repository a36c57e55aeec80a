package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxFields is what one can keep in mind of an actor: what is more is states of several concerns, each of
// which wants a type with its own functions.
const maxFields = 25

func TestNoStructOfActorsHasMoreThan25Fields(t *testing.T) {
	seen := 0
	for _, f := range files(t, ".go") {
		if !under(f, "actors") || strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), f))
		if err != nil {
			t.Fatal(err)
		}
		wide, structs := wideStructs(t, f, text, maxFields)
		seen += structs
		for _, w := range wide {
			t.Error(w)
		}
	}
	if seen < 100 {
		t.Errorf("looked at %d structs of actors: too few to be all", seen)
	}
	got, _ := wideStructs(t, "a.go",
		[]byte("package a\ntype A struct {\na, b int\nB\n*C\n}\ntype D struct{ a, b, c int }\n"+
			"func f() { type g struct{ a, b, c, d, e int }; var _ = struct{ a, b, c, d int }{} }\n"), 3)
	want := []string{"a.go:2: A has 4 fields, at most 3", "a.go:8: g has 5 fields, at most 3",
		"a.go:8: struct has 4 fields, at most 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// wideStructs names the struct types of a file with more than so many fields, each name of a line and each
// embedded type counted singly, and counts all.
func wideStructs(t *testing.T, name string, text []byte, limit int) (wide []string, structs int) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[*ast.StructType]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				names[s] = spec.Name.Name
			}
		}
		s, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		structs++
		fields := 0
		for _, f := range s.Fields.List {
			fields += max(1, len(f.Names))
		}
		if fields > limit {
			what := names[s]
			if what == "" {
				what = "struct"
			}
			wide = append(wide, fmt.Sprintf("%s:%d: %s has %d fields, at most %d", name,
				fset.Position(s.Pos()).Line, what, fields, limit))
		}
		return true
	})
	return wide, structs
}
