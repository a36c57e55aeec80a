package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hop is a function as the two paths of docs/architecture.md name it: folder.Function or folder.Type.Method.
var hop = regexp.MustCompile("`([a-z][a-z0-9/-]*)\\.((?:[A-Za-z]\\w*\\.)?[A-Za-z]\\w*)`")

// hopsOf are the hops that a text names, and those of them that no function or type is.
func hopsOf(text string, known map[string]bool) (named int, wrong []string) {
	for _, m := range hop.FindAllStringSubmatch(text, -1) {
		named++
		if name := m[1] + "." + m[2]; !known[name] {
			wrong = append(wrong, name)
		}
	}
	return named, wrong
}

// declared are all functions, methods and types of the module outside of tests, as hop names them.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, f := range files(t, ".go") {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), f), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				known[path.Dir(f)+"."+receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						known[path.Dir(f)+"."+s.Name.Name] = true
					}
				}
			}
		}
	}
	return known
}

// receiver is the type that a method is of, with a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	e := d.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if of, ok := e.(*ast.IndexExpr); ok {
		e = of.X
	}
	if name, ok := e.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// counted is a list of hops or types with the number that it says to have.
var counted = regexp.MustCompile("(?m)^(\\d+) (hops|types): ((?:`[^`]+`[,.]\\s)+)")

// miscounted are the lists of a text that have another number of names than they say.
func miscounted(text string) (lists int, wrong []string) {
	for _, m := range counted.FindAllStringSubmatch(text, -1) {
		lists++
		if n := strings.Count(m[3], "`") / 2; strconv.Itoa(n) != m[1] {
			wrong = append(wrong, fmt.Sprintf("%s %s: %d are named", m[1], m[2], n))
		}
	}
	return lists, wrong
}

func TestTheTwoWaysNameFunctionsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, ways, _ := strings.Cut(string(text), "## Two paths through the code")
	ways, _, _ = strings.Cut(ways, "\n## ")
	known := declared(t)
	named, wrong := hopsOf(ways, known)
	if named < 20 {
		t.Errorf("%d hops are named", named)
	}
	for _, w := range wrong {
		t.Errorf("docs/architecture.md: %s does not exist", w)
	}
	lists, wrong := miscounted(ways)
	if lists != 2 || wrong != nil {
		t.Errorf("docs/architecture.md: %d lists are counted: %s", lists, wrong)
	}
	_, wrong = miscounted("2 hops: `a.B`,\n`c.D`.\n\n3 types: `a.B`, `c.D`.\n")
	if want := []string{"3 types: 2 are named"}; !slices.Equal(wrong, want) {
		t.Errorf("got %q, want %q", wrong, want)
	}
	_, wrong = hopsOf("`netinst/manager.Manager.Step` `netinst.DesiredState` `netinst/manager.Manager.Leap`, "+
		"`netinst.Nothing`", known)
	if want := []string{"netinst/manager.Manager.Leap", "netinst.Nothing"}; !slices.Equal(wrong, want) {
		t.Errorf("got %q, want %q", wrong, want)
	}
}
