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

// testName is package.TestName or package.TestName/sub, in backticks or not, with
// "planned: " before it or not. The package is the end of an import path: netstate or
// netinst/netstate.
var testName = regexp.MustCompile(`(planned: ` +
	`)?\b([a-z][a-z0-9_/-]*)\.((?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*(?:/[\w-]+)?)`)

// wrongTests says what is wrong with the tests that text names; known is package's
// folder to names. A planned test is none yet, and one that exists is not planned.
func wrongTests(text string, known map[string][]string) (named int, wrong []string) {
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
	named, wrong := wrongTests(string(text), known)
	if named == 0 {
		t.Error("docs/seeds.md names no test")
	}
	for _, w := range wrong {
		t.Errorf("docs/seeds.md: %s", w)
	}
}

// adrName is a decision as documents and comments name it.
var adrName = regexp.MustCompile(`\bADR (\d{4})\b`)

// openRow is a requirement that is not built, with the issue that builds it.
var openRow = regexp.MustCompile(`\bopen: (issue \d+|no issue)\b`)

// wrongRows says which rows of the tables of requirements are held by nothing: a row names an existing test or an
// existing decision, or says that it is open; an open row names no test. A row has three cells, the first a unique id.
func wrongRows(text string, known map[string][]string, decisions []string) (rows int, wrong []string) {
	seen := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.TrimSpace(cells[1]) == "id" || strings.Trim(cells[1], " -") == "" {
			continue
		}
		rows++
		id, last := strings.TrimSpace(cells[1]), cells[len(cells)-2]
		named, bad := wrongTests(last, known)
		adrs := adrName.FindAllStringSubmatch(last, -1)
		for _, m := range adrs {
			if !slices.Contains(decisions, m[1]) {
				bad = append(bad, "ADR "+m[1]+" does not exist")
			}
		}
		switch open := openRow.MatchString(last); {
		case open && named > 0:
			bad = append(bad, "is open and names a test")
		case !open && named+len(adrs) == 0:
			bad = append(bad, "neither a test nor an ADR is named")
		}
		if seen[id] {
			bad = append(bad, "this id is another row's")
		}
		seen[id] = true
		for _, b := range bad {
			wrong = append(wrong, id+": "+b)
		}
	}
	return rows, wrong
}

func TestEveryRequirementHasItsTestOrDecision(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, wrong := wrongRows(string(text), testsOf(t), decisionsOf(t))
	if rows < 70 {
		t.Errorf("docs/seeds.md has %d rows", rows)
	}
	for _, w := range wrong {
		t.Errorf("docs/seeds.md: %s", w)
	}
	known := map[string][]string{"a": {"TestX"}}
	_, wrong = wrongRows("| id | r | t |\n|---|---|---|\n| A | r | a.TestX |\n| B | r | ADR 0009 |\n| C | r | planned: "+
		"a.TestY |\n| D | r | ADR 0001 |\n| A | r | ADR 0001 |\n| E | r | open: issue 7 |\n| F | r | open: no issue |\n"+
		"| G | r | open: soon |\n| H | r | a.TestX, open: issue 7 |\n", known, []string{"0001"})
	if want := []string{"B: ADR 0009 does not exist", "C: neither a test nor an ADR is named",
		"A: this id is another row's", "G: neither a test nor an ADR is named",
		"H: is open and names a test"}; !slices.Equal(wrong, want) {
		t.Errorf("got %q, want %q", wrong, want)
	}
}

// decisionsOf are the numbers of docs/adr.
func decisionsOf(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, f := range files(t, ".md") {
		if number, _, ok := strings.Cut(path.Base(f), "-"); ok && path.Dir(f) == "docs/adr" {
			out = append(out, number)
		}
	}
	return out
}

func TestEveryDecisionThatIsNamedExists(t *testing.T) {
	decisions := decisionsOf(t)
	for _, file := range append(files(t, ".md"), files(t, ".go")...) {
		if strings.HasPrefix(file, "integration/arch/") {
			continue // has examples of what is wrong
		}
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range adrName.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(decisions, m[1]) {
				t.Errorf("%s names ADR %s, which does not exist", file, m[1])
			}
		}
	}
}

// laws is how many laws the architecture has: each a row with the tests that hold it.
const laws = 14

func TestEveryLawHasItsTest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## The laws")
	table, _, _ = strings.Cut(table, "\n## ")
	rows, wrong := wrongRows(strings.Replace(table, "| law |", "| id |", 1), testsOf(t), decisionsOf(t))
	if rows != laws {
		t.Errorf("docs/architecture.md has %d laws, want %d", rows, laws)
	}
	for _, w := range wrong {
		t.Errorf("docs/architecture.md: law %s", w)
	}
}

func TestEverySituationOfUplinksHasItsTest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/uplinks.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## What the tests show")
	rows, wrong := wrongRows(table, testsOf(t), decisionsOf(t))
	if rows < 13 {
		t.Errorf("docs/uplinks.md has %d rows of situations", rows)
	}
	for _, w := range wrong {
		t.Errorf("docs/uplinks.md: %s", w)
	}
}

func TestWrongNamesOfTestsAreFound(t *testing.T) {
	known := map[string][]string{"a/b": {"TestX", "TestX/EBM-1", "FuzzY"}}
	text := "`b.TestX` a/b.FuzzY, `b.TestX/EBM-1` b.TestX/EBM-2 `package.TestName`\n| planned: b.TestNew | b.TestZ " +
		"|\n`c.TestX` planned: b.TestX"
	named, wrong := wrongTests(text, known)
	want := []string{"b.TestX/EBM-2 does not exist", "b.TestZ does not exist", "c.TestX does not exist",
		"b.TestX is called planned and exists"}
	if named != 6 || !slices.Equal(wrong, want) {
		t.Errorf("%d named, wrong %q, want 6 and %q", named, wrong, want)
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
				known[path.Dir(file)] = append(append(known[path.Dir(file)], fn.Name.Name), subTests(fn)...)
			}
		}
	}
	if !slices.Contains(known["integration/arch"], "TestSeedsNameTestsThatExist") {
		t.Fatal("this very test is not found")
	}
	return known
}

// subTests are the names Test/sub of one test function: those that it gives to a Run as
// plain text.
func subTests(fn *ast.FuncDecl) []string {
	var out []string
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		sel, isSel := call.Fun.(*ast.SelectorExpr)
		lit, isLit := call.Args[0].(*ast.BasicLit)
		if isSel && isLit && sel.Sel.Name == "Run" && lit.Kind == token.STRING {
			out = append(out, fn.Name.Name+"/"+strings.Trim(lit.Value, "\"`"))
		}
		return true
	})
	return out
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
			continue // another place on the net: not checked without one
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
