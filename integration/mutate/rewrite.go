package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// site is one operator with its mutants.
type site struct {
	node     ast.Node
	op       token.Pos
	operator string
	mutants  []*Mutant
}

// source is one file of a core, with its sites in the order of their starts, outer ones first.
type source struct {
	name  string
	text  []byte
	base  token.Pos
	sites []*site
}

// prelude is added to the package: it selects the active mutant and records evaluated operators.
const prelude = `package %s

import (
	mutantOS "os"
	mutantStrconv "strconv"
)

type mutantInt interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface{ mutantInt | ~float32 | ~float64 }

var mutantActive, _ = mutantStrconv.Atoi(mutantOS.Getenv("MUTANT"))

var mutantReached [%d]bool

func mutantOn(n int) bool {
	if mutantActive >= 0 {
		return n == mutantActive
	}
	if !mutantReached[n] {
		mutantReached[n] = true
		f, err := mutantOS.OpenFile(mutantOS.Getenv("MUTANT_REACHED"), ` +
	`mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		if _, err := f.WriteString(mutantStrconv.Itoa(n) + "\n"); err != nil {
			panic(err)
		}
	}
	return false
}

func mutantAdd[T mutantNumber](x, y T) T { return x + y }
func mutantSub[T mutantNumber](x, y T) T { return x - y }
func mutantMul[T mutantNumber](x, y T) T { return x * y }
func mutantQuo[T mutantNumber](x, y T) T { return x / y }
func mutantRem[T mutantInt](x, y T) T    { return x %% y }

func mutantPlus[T mutantNumber](x, one T) T  { return x }
func mutantMinus[T mutantNumber](x, one T) T { return -x }

func mutantChoose[T mutantNumber](on bool, is, was func(x, y T) T, x, y T) T {
	if on {
		return is(x, y)
	}
	return was(x, y)
}
`

// load parses a package and finds the site of each mutant.
func load(dir string, files []string, exports map[string]string, ms []*Mutant) (map[string]*source, string, error) {
	fset := token.NewFileSet()
	sources := map[string]*source{}
	var parsed []*ast.File
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return nil, "", err
		}
		parsed = append(parsed, f)
		sources[filepath.Base(path)] = &source{name: filepath.Base(path), text: text, base: f.FileStart}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := conf.Check(dir, fset, parsed, info); err != nil {
		return nil, "", err
	}
	for _, f := range parsed {
		src := sources[filepath.Base(fset.Position(f.FileStart).Filename)]
		src.find(fset, f, info, ms)
	}
	for _, m := range ms {
		if m.site == nil {
			return nil, "", fmt.Errorf("%s:%d:%d: no operator for %s", m.File, m.Line, m.Col, m.Kind)
		}
	}
	return sources, parsed[0].Name.Name, nil
}

// find sets the sites of the mutants in the file.
func (src *source) find(fset *token.FileSet, f *ast.File, info *types.Info, ms []*Mutant) {
	within := "package"
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			within = n.Name.Name
		case *ast.GenDecl:
			if f.Scope != nil && n.Pos() > 0 && topLevel(f, n) {
				within = "package"
			}
		case *ast.BinaryExpr:
			src.add(fset, info, ms, within, &site{node: n, op: n.OpPos, operator: n.Op.String()}, n, n.X)
		case *ast.UnaryExpr:
			src.add(fset, info, ms, within, &site{node: n, op: n.OpPos, operator: n.Op.String()}, n, n.X)
		case *ast.IncDecStmt:
			src.add(fset, info, ms, within, &site{node: n, op: n.TokPos, operator: n.Tok.String()}, n.X, n.X)
		}
		return true
	})
}

func topLevel(f *ast.File, d *ast.GenDecl) bool {
	return slices.ContainsFunc(f.Decls, func(o ast.Decl) bool { return o == ast.Decl(d) })
}

func (src *source) add(fset *token.FileSet, info *types.Info, ms []*Mutant, within string, s *site, whole,
	operand ast.Expr) {
	at := fset.Position(s.op)
	for _, m := range ms {
		if m.File != src.name || m.Line != at.Line || m.Col != at.Column {
			continue
		}
		m.site, m.Func = s, within
		m.From = oneLine(src.slice(s.node.Pos(), s.node.End()))
		op := into[m.Kind][s.operator]
		cut := s.op - s.node.Pos()
		raw := src.slice(s.node.Pos(), s.node.End())
		m.Into = oneLine(raw[:cut] + op + raw[int(cut)+len(s.operator):])
		m.Const = info.Types[whole].Value != nil
		if b, ok := info.Types[operand].Type.Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 {
			m.Text = m.Kind == "ARITHMETIC_BASE"
		}
		if !m.Const && !m.Text {
			s.mutants = append(s.mutants, m)
		}
	}
	if len(s.mutants) > 0 {
		src.sites = append(src.sites, s)
	}
}

var blanks = regexp.MustCompile(`\s+`)

func oneLine(s string) string { return blanks.ReplaceAllString(strings.TrimSpace(s), " ") }

func (src *source) slice(from, to token.Pos) string {
	return string(src.text[from-src.base : to-src.base])
}

// all returns the file with every mutant in it, each selected by its number.
func (src *source) all() []byte {
	return []byte(src.render(src.base, src.base+token.Pos(len(src.text)), nil))
}

// alone returns the file with one mutant in place of its operator.
func (src *source) alone(m *Mutant) []byte {
	at := m.site.op - src.base
	return slices.Concat(src.text[:at], []byte(into[m.Kind][m.site.operator]), src.text[int(at)+len(m.site.operator):])
}

// render returns a part of the file with its outermost sites rewritten, except outer, the site whose operand it is.
func (src *source) render(from, to token.Pos, outer *site) string {
	var out bytes.Buffer
	at := from
	for _, s := range src.sites {
		if s != outer && s.node.Pos() >= at && s.node.End() <= to {
			out.WriteString(src.slice(at, s.node.Pos()))
			out.WriteString(src.rewrite(s))
			at = s.node.End()
		}
	}
	out.WriteString(src.slice(at, to))
	return out.String()
}

var arithmetic = map[string]string{"+": "mutantAdd", "-": "mutantSub", "*": "mutantMul", "/": "mutantQuo",
	"%": "mutantRem", "++": "mutantAdd", "--": "mutantSub"}

// rewrite returns an expression that does what the site does, or what the active mutant does.
func (src *source) rewrite(s *site) string {
	var on []string
	for _, m := range s.mutants {
		on = append(on, fmt.Sprintf("mutantOn(%d)", m.ID))
	}
	switch n := s.node.(type) {
	case *ast.IncDecStmt:
		x := src.render(n.X.Pos(), n.X.End(), s)
		other := into[s.mutants[0].Kind][s.operator]
		return fmt.Sprintf("%s = mutantChoose(%s, %s, %s, %s, 1)", x, on[0], arithmetic[other], arithmetic[s.operator], x)
	case *ast.UnaryExpr:
		x := src.render(n.X.Pos(), n.X.End(), s)
		return fmt.Sprintf("mutantChoose(%s, mutantPlus, mutantMinus, %s, 1)", strings.Join(on, " || "), x)
	case *ast.BinaryExpr:
		x, y := src.render(n.X.Pos(), n.X.End(), s), src.render(n.Y.Pos(), n.Y.End(), s)
		if call, ok := arithmetic[s.operator]; ok {
			other := into[s.mutants[0].Kind][s.operator]
			return fmt.Sprintf("mutantChoose(%s, %s, %s, %s, %s)", strings.Join(on, " || "), arithmetic[other], call, x, y)
		}
		var either []string
		for i, m := range s.mutants {
			either = append(either, fmt.Sprintf("%s && (%s %s %s)", on[i], x, into[m.Kind][s.operator], y))
		}
		either = append(either, fmt.Sprintf("!(%s) && (%s %s %s)", strings.Join(on, " || "), x, s.operator, y))
		return "(" + strings.Join(either, " || ") + ")"
	}
	panic("a site is an operator")
}
