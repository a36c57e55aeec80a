package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// worldly are packages that only a shell needs: code that names one of them does something, or produces what an API
// shows, and is not pure. Nor is code that names an interface that actors declare: platform is behind it.
var worldly = []string{
	"github.com/asynkron/protoactor-go", "go.uber.org/zap", "context", "sync", "os", "io", "net/http", "math/rand",
	module + "/pubsub", module + "/config/httpapi",
}

// clockwork is what of package time reads the clock or waits.
var clockwork = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep",
	"Timer"}

// actorsFile is a parsed file below actors.
type actorsFile struct {
	room, name string
	syntax     *ast.File
	fset       *token.FileSet
	imports    map[string]string // paths by the name in this file
}

// names is a set of names of one package.
type names map[string]bool

// shells are the types, functions, variables and constants of each room that need a worldly package, themselves or by
// another one.
func shells(all []actorsFile) map[string]names {
	out := map[string]names{}
	for _, f := range all {
		if out[f.room] == nil {
			out[f.room] = names{}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, f := range all {
			for _, d := range f.syntax.Decls {
				for name, node := range declares(d) {
					if !out[f.room][name] && worldlyNode(f, node, out) {
						out[f.room][name], changed = true, true
					}
				}
			}
		}
	}
	return out
}

// declares are the names that a declaration declares, each with what it is made of; a method is Type.Method.
func declares(d ast.Decl) map[string]ast.Node {
	out := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if r := receiverOf(d); r != "" {
			name = r + "." + name
		}
		out[name] = d
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out[s.Name.Name] = s.Type
			case *ast.ValueSpec:
				for _, n := range s.Names {
					out[n.Name] = s
				}
			}
		}
	}
	return out
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// worldlyNode says whether something names a worldly package, or what is a shell already. Names that it declares
// itself are others.
func worldlyNode(f actorsFile, n ast.Node, known map[string]names) (ok bool) {
	own := names{}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, plain := e.(*ast.Ident); plain && n.Tok == token.DEFINE {
					own[id.Name] = true
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, plain := e.(*ast.Ident); plain && n.Tok == token.DEFINE {
					own[id.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		}
		return true
	})
	var look func(n ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				ast.Inspect(n.Recv.List[0].Type, look)
			}
			ast.Inspect(n.Type, look)
			if n.Body != nil {
				ast.Inspect(n.Body, look)
			}
			return false
		case *ast.SelectorExpr:
			x, plain := n.X.(*ast.Ident)
			if !plain {
				ast.Inspect(n.X, look)
				return false
			}
			path, imported := f.imports[x.Name]
			if !imported || own[x.Name] {
				return look(x)
			}
			ok = ok || path == "time" && slices.Contains(clockwork, n.Sel.Name) ||
				known[strings.TrimPrefix(path, module+"/")][n.Sel.Name] || path != "io/fs" &&
				slices.ContainsFunc(worldly, func(w string) bool { return under(path, w) })
			return false
		case *ast.Ident:
			ok = ok || known[f.room][n.Name] && !own[n.Name]
		case *ast.KeyValueExpr:
			if _, plain := n.Key.(*ast.Ident); plain {
				ast.Inspect(n.Value, look)
				return false
			}
		case *ast.Field:
			ast.Inspect(n.Type, look)
			return false
		case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.InterfaceType:
			ok = true
		}
		return !ok
	}
	ast.Inspect(n, look)
	return ok
}

func actorsFiles(t *testing.T) []actorsFile {
	t.Helper()
	var all []actorsFile
	for _, name := range files(t, ".go") {
		if !under(name, "actors") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsedActors(t, name, text))
	}
	return all
}

func parsedActors(t *testing.T, name string, text []byte) actorsFile {
	t.Helper()
	f := actorsFile{room: filepath.Dir(name), name: name, fset: token.NewFileSet(), imports: map[string]string{}}
	var err error
	if f.syntax, err = parser.ParseFile(f.fset, name, text, parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.syntax.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		as := path[strings.LastIndex(path, "/")+1:]
		if imp.Name != nil {
			as = imp.Name.Name
		}
		f.imports[as] = path
	}
	return f
}

// maxPureLines is how long a function of an actor's room may be that needs nothing of the world: a helper that fits
// beside its actor.
const maxPureLines = 12

// longerPure are functions that are longer today, and files that have none that needs the world. A number here only goes
// down.
var longerPure = map[string]int{
	"actors/configdb.sizeOf": 22, "actors/controller/nodes.PeerView.first": 17, "actors/controller/nodes.first": 14,
	"actors/controller/storage.relevant": 14,
	// What simulated nodes are told to do wrong, and what they came to: no decision of the product's.
	"actors/simulate.ParseFaults": 34, "actors/simulate.Progress.String": 13, "actors/simulate/faults.go": 56,
}

// pureCode are the pure functions of files below actors, with their lines, where these are too many; and
// the files, with the lines of their functions, that have no others. What answers an API is in rooms named api, what a
// room is made of in options.go.
func pureCode(all []actorsFile) map[string]int {
	out := map[string]int{}
	known := shells(all)
	for _, f := range all {
		if filepath.Base(f.room) == "api" || filepath.Base(f.name) == "options.go" {
			continue
		}
		lines, worldly := 0, 0
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if r := receiverOf(fn); r != "" {
				name = r + "." + name
			}
			if known[f.room][name] {
				worldly++
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			if lines += n; n > maxPureLines {
				out[f.room+"."+name] = n
			}
		}
		if worldly == 0 && lines > maxPureLines {
			out[f.name] = lines
		}
	}
	return out
}

func TestActorsOwnNoLogic(t *testing.T) {
	all := actorsFiles(t)
	if len(all) < 80 {
		t.Fatalf("%d files of actors are found", len(all))
	}
	got := pureCode(all)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if n, noted := got[name], longerPure[name]; n > max(noted, maxPureLines) {
			t.Errorf("%s is pure and has %d lines, at most %d: it belongs to a core, or to api (docs/adr/0057)", name, n,
				max(noted, maxPureLines))
		}
	}
	for name, noted := range longerPure {
		if got[name] < noted {
			t.Errorf("%s has %d lines: lower what is noted of it, %d", name, got[name], noted)
		}
	}
}

func TestPureFunctionsAreFound(t *testing.T) {
	body := strings.Repeat("\tx++\n", maxPureLines)
	sources := map[string]string{
		"actors/a/shell.go": "package a\nimport (\n\"time\"\n\"github.com/asynkron/protoactor-go/actor\"\n)\n" +
			"type shell struct { self *actor.PID; n int }\ntype Disk interface { Read() int }\n" +
			"func (s *shell) does(x int) {\n" + body + "}\nfunc clock(x int) {\n_ = time.Now()\n" + body + "}\n" +
			"func calls(x int) {\nclock(x)\n" + body + "}\nfunc reads(d Disk, x int) {\n" + body + "}\n" +
			"func decides(x int, clock func()) {\nclock()\n" + body + "}\nfunc short(x int) { x++ }\n",
		"actors/a/core.go": "package a\ntype plain struct{ n int }\nfunc (p plain) sums(x int) int {\n" + body +
			"return x }\n",
		"actors/a/options.go":  "package a\nfunc optional(x int) {\n" + body + "}\n",
		"actors/a/api/show.go": "package api\nfunc shows(x int) {\n" + body + "}\n",
		"actors/b/b.go": "package b\nimport \"edgespan/actors/a\"\n" +
			"type door struct{ d a.Disk }\nfunc (o *door) opens(x int) {\n" + body + "}\n",
	}
	var all []actorsFile
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		all = append(all, parsedActors(t, name, []byte(sources[name])))
	}
	got := pureCode(all)
	want := map[string]int{"actors/a.decides": 15, "actors/a.plain.sums": 14, "actors/a/core.go": 14}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
