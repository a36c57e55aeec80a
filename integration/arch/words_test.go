package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// retired are the words in the last column of the glossary in CONTRIBUTING.md, in small letters.
func retired(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Glossary\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var words []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "retired" {
			continue
		}
		for w := range strings.SplitSeq(cells[2], ",") {
			if w = strings.ToLower(strings.Trim(w, " …")); w != "" {
				words = append(words, w)
			}
		}
	}
	return words
}

// ordinary are retired words that are the field's in other names, and as what: the glossary retires them as the name
// of its own word alone.
var ordinary = map[string]string{
	"account": "of the host, or of Keystone",
	"book":    "book-keeping",
	"guesses": "what a program guesses",
	"had":     "the value before a change",
	"hand":    "done by hand",
	"mailbox": "of an actor",
	"look":    "to look something up",
	"offer":   "DHCPOFFER (RFC 2131)",
	"outside": "outside of a folder",
	"seen":    "the set of what a loop has met",
	"told":    "",
}

// prose are phrases that no text for people has: the plain English of CONTRIBUTING.md, How to write.
var prose = []string{"is allowed", "are allowed", "nobody", "whoever", "of ours", "shall", "wish", "wished", "strangers",
	"poke", "lend", "lent", "errand", "who says"}

// segments are the words of a name, in small letters.
func segments(name string) (out []string) {
	for _, s := range regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`).FindAllString(name, -1) {
		out = append(out, strings.ToLower(s))
	}
	return out
}

// badNames are the names that a file declares with a retired word in them.
func badNames(f *ast.File, words []string) (out []*ast.Ident) {
	ast.Inspect(f, func(n ast.Node) bool {
		var ids []*ast.Ident
		switch n := n.(type) {
		case *ast.FuncDecl:
			ids = append(ids, n.Name)
		case *ast.TypeSpec:
			ids = append(ids, n.Name)
		case *ast.ValueSpec:
			ids = append(ids, n.Names...)
		case *ast.Field:
			ids = append(ids, n.Names...)
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					ids = append(ids, id)
				}
			}
		}
		for _, id := range ids {
			parts := segments(id.Name)
			if len(parts) > 1 && parts[1] == "most" { // AtMost
				parts = parts[:1]
			}
			if slices.ContainsFunc(parts, func(s string) bool { return slices.Contains(words, s) }) {
				out = append(out, id)
			}
		}
		return true
	})
	return out
}

// phrases are the phrases of prose that a text has.
func phrases(text string) (out []string) {
	for _, p := range prose {
		if regexp.MustCompile(`(?i)\b` + p + `\b`).MatchString(text) {
			out = append(out, p)
		}
	}
	return out
}

func TestNoNameIsARetiredWord(t *testing.T) {
	t.Parallel()
	words := slices.DeleteFunc(retired(t), func(w string) bool {
		_, isOrdinary := ordinary[w]
		return isOrdinary || strings.Contains(w, " ")
	})
	if len(words) < 20 {
		t.Fatalf("the glossary retires %d words: %v", len(words), words)
	}
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range badNames(f, words) {
			t.Errorf("%s:%d: %s: a word that the glossary in CONTRIBUTING.md retires", name, fset.Position(id.Pos()).Line, id.Name)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(l.Value); err == nil && strings.Contains(text, " ") { // one word is an id
				for _, p := range phrases(text) {
					t.Errorf("%s:%d: a text says %q: CONTRIBUTING.md, How to write", name, fset.Position(l.Pos()).Line, p)
				}
			}
			return true
		})
	}
}

func TestNoPageHasRetiredWords(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ".md") {
		if anyUnder(name, []string{"docs/adr", "docs/benchmarks.md", "CHANGELOG.md", "CONTRIBUTING.md"}) {
			continue // what was decided, promised and released then is in the words of then; one names the words
		}
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, p := range phrases(line) {
				t.Errorf("%s:%d: says %q: CONTRIBUTING.md, How to write", name, i+1, p)
			}
		}
	}
}

func TestRetiredWordsAreFound(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\ntype wishList struct{ poker, Seat int }\n\nfunc (w wishList) lend(news []int) {}\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range badNames(f, []string{"wish", "seat", "lend", "news"}) {
		got = append(got, id.Name)
	}
	if want := []string{"wishList", "Seat", "lend", "news"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got := phrases("42 is allowed, and Nobody knows; a wisher is not a word"); !slices.Equal(got, []string{"is allowed", "nobody"}) {
		t.Errorf("found %v", got)
	}
}
