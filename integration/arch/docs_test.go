package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testName is package.TestName, in backticks or not, with "planned: " before it or not.
// The package is the end of an import path: netstate or netinst/netstate.
var testName = regexp.MustCompile(`(planned: )?\b([a-z][a-z0-9_/]*)\.((?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*)`)

// judgeTests says what is wrong with the tests that text names; known is package's
// folder to names. A planned test is none yet, and one that exists is not planned.
func judgeTests(text string, known map[string][]string) (named int, wrong []string) {
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		planned, pkg, name := m[1] != "", m[2], m[3]
		if pkg == "package" { // a keyword: this is how a document explains the notation
			continue
		}
		found := false
		for dir, names := range known {
			if (dir == pkg || strings.HasSuffix(dir, "/"+pkg)) && slices.Contains(names, name) {
				found = true
			}
		}
		switch {
		case planned && found:
			wrong = append(wrong, pkg+"."+name+" is called planned and exists")
		case !planned && !found:
			wrong = append(wrong, pkg+"."+name+" does not exist")
		}
		if !planned {
			named++
		}
	}
	return named, wrong
}

func TestSeedsNameTestsThatExist(t *testing.T) {
	known := testsOf(t)
	text, err := os.ReadFile(filepath.Join(root(t), "docs/seeds.md"))
	if err != nil {
		t.Fatalf("every requirement of a seed has its test or ADR there: %v", err)
	}
	named, wrong := judgeTests(string(text), known)
	if named == 0 {
		t.Error("docs/seeds.md names no test")
	}
	for _, w := range wrong {
		t.Errorf("docs/seeds.md: %s", w)
	}
}

func TestWrongNamesOfTestsAreFound(t *testing.T) {
	known := map[string][]string{"a/b": {"TestX", "FuzzY"}}
	text := "`b.TestX` a/b.FuzzY, `b.TestX/some case` `package.TestName`\n| planned: b.TestNew | b.TestZ |\n`c.TestX` planned: b.TestX"
	named, wrong := judgeTests(text, known)
	want := []string{"b.TestZ does not exist", "c.TestX does not exist", "b.TestX is called planned and exists"}
	if named != 5 || !slices.Equal(wrong, want) {
		t.Errorf("%d named, wrong %q, want 5 and %q", named, wrong, want)
	}
}

// testsOf is every test function of the module, by its package's folder.
func testsOf(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for _, file := range files(t, "_test.go") {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				known[path.Dir(file)] = append(known[path.Dir(file)], fn.Name.Name)
			}
		}
	}
	if !slices.Contains(known["integration/arch"], "TestSeedsNameTestsThatExist") {
		t.Fatal("this very test is not found")
	}
	return known
}

// files are the paths below the module that end in suffix; what a tool made is left out.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(root(t)), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (p == "bin" || p != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(p, suffix) {
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNoLinkInTheDocumentsIsDead(t *testing.T) {
	docs := files(t, ".md")
	if len(docs) < 3 {
		t.Fatalf("%d documents are found", len(docs))
	}
	tree := os.DirFS(root(t))
	for _, doc := range docs {
		for _, dead := range deadLinks(tree, doc) {
			t.Errorf("%s: %s", doc, dead)
		}
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?: "[^"]*")?\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*#*$`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// deadLinks are the links of one document that lead to no file or heading of the tree.
func deadLinks(tree fs.FS, doc string) []string {
	text, err := fs.ReadFile(tree, doc)
	if err != nil {
		return []string{err.Error()}
	}
	prose := codeSpan.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "")
	var dead []string
	for _, m := range link.FindAllStringSubmatch(prose, -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			dead = append(dead, fmt.Sprintf("link %s: %v", m[1], err))
			continue
		}
		if u.Scheme != "" {
			continue // another place on the net: not ours to judge without one
		}
		target := doc
		if u.Path != "" {
			target = path.Join(path.Dir(doc), u.Path)
		}
		if _, err := fs.Stat(tree, target); err != nil {
			dead = append(dead, fmt.Sprintf("link %s leads nowhere", m[1]))
		} else if u.Fragment != "" && !slices.Contains(anchors(tree, target), u.Fragment) {
			dead = append(dead, fmt.Sprintf("link %s: %s has no such heading", m[1], target))
		}
	}
	return dead
}

// anchors are the headings of a document as links name them.
func anchors(tree fs.FS, doc string) []string {
	text, err := fs.ReadFile(tree, doc)
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(slug, " ", "-"))
	}
	return out
}
