package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// kernelSays are messages that a page quotes and no file here has.
var kernelSays = []string{"no space left on device", "read-only file system", "input/output error",
	"database space exceeded"}

// quoted are the messages that the tables of a page quote in backticks: below a first head `message`, and, with two
// spaces in them, below `symptom` or `what`, where the second column counts too. Dots, and a capital N, stand for
// what varies.
func quoted(page string) []string {
	var out []string
	head := ""
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			head = ""
			continue
		}
		first := strings.TrimSpace(cells[1])
		if head == "" {
			head = first
			continue
		}
		if head != "message" && head != "symptom" && head != "what" {
			continue
		}
		last := 2
		if head == "what" {
			last = 3
		}
		for _, m := range codeSpan.FindAllString(strings.Join(cells[1:last], "|"), -1) {
			m = strings.Trim(m, "`")
			reported := head == "message" || strings.Count(m, " ") > 1
			if reported && !strings.HasPrefix(m, "edgespan") && !strings.ContainsAny(m, "=/") {
				out = append(out, m)
			}
		}
	}
	return out
}

var gap = regexp.MustCompile(`…|\bN\b`)

// unsaid are the parts of a message that no text of a program has.
func unsaid(message string, texts string) []string {
	var out []string
	for _, part := range gap.Split(message, -1) {
		if part = strings.TrimSpace(part); part != "" && !strings.Contains(texts, part) {
			out = append(out, part)
		}
	}
	return out
}

// textsOf are all string literals of the programs, joined ones as one, each on a line.
func textsOf(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, f := range files(t, ".go") {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), f), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, whole := literal(e)
			if text != "" {
				b.WriteString(text + "\n")
			}
			return !whole
		})
	}
	return b.String() + strings.Join(kernelSays, "\n")
}

// literal is the text of a string literal, or of several that are added up; whole says that it is nothing else.
func literal(e ast.Expr) (text string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, whole := literal(e.X)
		right, also := literal(e.Y)
		if e.Op == token.ADD && whole && also {
			return left + right, true
		}
	}
	return "", false
}

func TestTheMessagesThatAPageQuotesAreSaid(t *testing.T) {
	texts := textsOf(t)
	quotes := 0
	for _, page := range []string{"docs/operations.md", "docs/troubleshooting.md"} {
		text, err := os.ReadFile(filepath.Join(root(t), page))
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range quoted(string(text)) {
			quotes++
			for _, part := range unsaid(message, texts) {
				t.Errorf("%s quotes %q: no program says %q", page, message, part)
			}
		}
	}
	if quotes < 15 {
		t.Errorf("the pages quote %d messages", quotes)
	}
	got := quoted("| message | x |\n|---|---|\n| `no N said` … `x` | y |\n\n| flag | x |\n|---|---|\n| `a b c` | y |\n")
	if len(got) != 2 || len(unsaid("no N said … at all", "no 5\nsaid")) != 1 {
		t.Errorf("%q of a page with two", got)
	}
}
