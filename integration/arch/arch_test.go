package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLines is the end of a room (style: a file of Go source; tests are exempt).
const maxLines = 400

// maxFuncLines is what fits on a screen; tests are exempt.
const maxFuncLines = 60

// root is the folder of the module; tests run in that of their package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("find the module: %v", err)
	}
	return dir
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Name,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root(t)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, errOut.String())
	}
	var ps []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	if len(ps) < 5 {
		t.Fatalf("go list shows %d packages", len(ps))
	}
	return ps
}

func TestImportLaws(t *testing.T) {
	for _, b := range breaches(packages(t)) {
		t.Error(b)
	}
}

func TestTheTableForbids(t *testing.T) {
	core := func(imports ...string) pkg {
		return pkg{ImportPath: "edgespan/netinst", Doc: "d", GoFiles: []string{"a.go"}, Imports: imports}
	}
	for want, p := range map[string]pkg{
		`netinst is pure and may not import "os"`:           core("strings", "os"),
		`netinst is pure and may not import "os/exec"`:      core("os/exec"),
		`netinst is pure and may not import "net/http"`:     core("net/http", "net/netip"),
		`netinst is pure and may not import "sync/atomic"`:  core("sync/atomic"),
		`netinst is pure and may not import "log/slog"`:     core("log/slog", "crypto/sha256"),
		`netinst is pure and may not import "context"`:      core("context"),
		`netinst is pure and may not import "math/rand/v2"`: core("math/rand/v2", "math/bits"),
		`netinst may not import "actors/node"`:              core("edgespan/actors/node"),
		`netinst may not import "appnet"`: core("edgespan/appnet",
			"edgespan/netinst/netstate"),
		`tests of netinst may not import "platform/kernel"`: {ImportPath: "edgespan/netinst",
			Doc: "d", TestImports: []string{"edgespan/platform/kernel", "os"}},
		`netinst has no package comment`: {ImportPath: "edgespan/netinst",
			GoFiles: []string{"a.go"}},
		`newroom is missing in the import table`: {ImportPath: "edgespan/newroom",
			Doc: "d"},
		`actors/node may not import "platform/fake"`: {ImportPath: "edgespan/actors/node",
			Doc: "d", Imports: []string{"edgespan/platform/fake"}, TestImports: []string{"edgespan/platform/fake"}},
		`pubsub stands on the standard library and may not import "go.uber.org/zap"`: {ImportPath: "edgespan/pubsub",
			Doc: "d", Imports: []string{"go.uber.org/zap", "sync"}},
		`actors/node may not import "github.com/vishvananda/netlink/nl": its place is platform, test files`: {
			ImportPath: "edgespan/actors/node", Doc: "d", Imports: []string{"github.com/vishvananda/netlink/nl"},
		},
		`platform/kernel may not import "os/exec": its place is platform/proc, platform/lab, ` +
			`cmd/edgespan-controller/ctltest, test files`: {
			ImportPath: "edgespan/platform/kernel", Doc: "d", Imports: []string{"os/exec"},
		},
		`platform/kernel may not import "pgregory.net/rapid": its place is platform/store/conformance, test files`: {
			ImportPath: "edgespan/platform/kernel", Doc: "d", Imports: []string{"pgregory.net/rapid"},
			TestImports: []string{"pgregory.net/rapid"},
		},
		`actors/node imports "example.org/new", which has no place: a dependency needs an ADR`: {
			ImportPath: "edgespan/actors/node", Doc: "d", Imports: []string{"example.org/new"},
		},
	} {
		if got := breaches([]pkg{p}); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
	got := breaches([]pkg{{ImportPath: "edgespan/platform/util", Doc: "d"}})
	if !slices.Contains(got, `platform/util: a folder "util" is no room`) {
		t.Errorf("a folder util: %q", got)
	}
}

// TestCoresCallNoClock looks into the pure packages for functions that an import alone
// does not give away: time.Duration is a value, time.Now is not.
func TestCoresCallNoClock(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.room()) {
			continue
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range clockCalls(t, p.room()+"/"+name, text) {
				t.Error(b)
			}
		}
	}
	got := clockCalls(t, "a.go",
		[]byte("package a\nimport (\n\"time\"\nid \"github.com/google/uuid\"\n)\nvar _, _, _ = time.Now, id.New, "+
			"time.Second\n"))
	if want := []string{"a.go:6 is pure and may not use time.Now",
		"a.go:6 is pure and may not use id.New"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func clockCalls(t *testing.T, name string, text []byte) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	forbidden := map[string][]string{} // by the name in this file
	for _, imp := range file.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		as := path[strings.LastIndex(path, "/")+1:]
		if imp.Name != nil {
			as = imp.Name.Name
		}
		forbidden[as] = impureCalls[path]
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(forbidden[x.Name], sel.Sel.Name) {
			out = append(out, fmt.Sprintf("%s:%d is pure and may not use %s.%s", name, fset.Position(sel.Pos()).Line, x.Name,
				sel.Sel.Name))
		}
		return true
	})
	return out
}

func TestNoFileIsLongerThanARoom(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			n := bytes.Count(text, []byte("\n"))
			if n > maxLines && !ast.IsGenerated(mustParse(t, name, text)) {
				t.Errorf("%s/%s has %d lines: %d are allowed", p.room(), name, n, maxLines)
			}
		}
	}
}

// maxColumns is the end of a line; a tab counts as one. Tests are exempt: their tables have sentences.
const maxColumns = 120

func TestNoLineIsLong(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(mustParse(t, name, text)) {
				continue
			}
			for i, line := range strings.Split(string(text), "\n") {
				if n := utf8.RuneCountInString(line); n > maxColumns {
					t.Errorf("%s/%s:%d has %d characters, at most %d", p.room(), name, i+1, n, maxColumns)
				}
			}
		}
	}
}

// maxTestLines is the end of a test file: its tables are long, and still one subject.
const maxTestLines = 600

func TestNoTestFileIsLongerThanASubject(t *testing.T) {
	for _, f := range files(t, "_test.go") {
		text, err := os.ReadFile(filepath.Join(root(t), f))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxTestLines {
			t.Errorf("%s has %d lines, at most %d", f, n, maxTestLines)
		}
	}
}

func TestNoFunctionIsLongerThanAScreen(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, long := range longFuncs(t, p.room()+"/"+name, text, maxFuncLines) {
				t.Error(long)
			}
		}
	}
	got := longFuncs(t, "a.go", []byte("package a\nfunc f() {\n\n}\nfunc (t T) g() {\n\n\n}\nvar h = func() {\n\n\n}\n"),
		3)
	if want := []string{"a.go: g has 4 lines: 3 are allowed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// longFuncs are the functions of a file with more than so many lines, from their first to
// their closing brace's. What a tool made is left out.
func longFuncs(t *testing.T, name string, text []byte, allowed int) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	var out []string
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > allowed {
			out = append(out, fmt.Sprintf("%s: %s has %d lines: %d are allowed", name, fn.Name.Name, n, allowed))
		}
	}
	return out
}

func mustParse(t *testing.T, name string, text []byte) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
