package shellcli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/pubsub/shellproto"
)

// maxLine is the longest line or script, in bytes: the gateway refuses longer requests anyway.
const maxLine = 16 << 10

// Split splits a script into commands, and each into words. A semicolon or the end of a line ends a command, quotes
// hold a word together, and # starts a comment that ends with the line.
func Split(script string) ([][]string, error) {
	if len(script) > maxLine {
		return nil, term.Usagef("line: %d bytes: must be at most %d", len(script), maxLine)
	}
	var s splitter
	for _, r := range script {
		if fault := s.read(r); fault != nil {
			return nil, fault
		}
	}
	if s.quote != 0 {
		return nil, term.Usagef("%s: quote without an end: must end with %c", config.Quote(string(s.word)), s.quote)
	}
	s.endCommand()
	return s.commands, nil
}

// splitter is the state of Split between two characters.
type splitter struct {
	commands [][]string
	words    []string
	word     []rune
	quote    rune // which one is open, or 0
	inWord   bool // also an empty word in quotes is one
	comment  bool
}

func (s *splitter) read(r rune) error {
	switch {
	case s.comment:
		if s.comment = r != '\n'; !s.comment {
			s.endCommand()
		}
	case r == s.quote && s.quote != 0:
		s.quote = 0
	case r != '\n' && r != '\t' && unicode.IsControl(r):
		return term.Usagef("%s: control character: must be text", config.Quote(string(s.word)+string(r)))
	case s.quote != 0:
		s.word = append(s.word, r)
	case r == '\'' || r == '"':
		s.quote, s.inWord = r, true
	case r == ';' || r == '\n':
		s.endCommand()
	case unicode.IsSpace(r):
		s.endWord()
	case r == '#' && !s.inWord:
		s.comment = true
	default:
		s.word, s.inWord = append(s.word, r), true
	}
	return nil
}

func (s *splitter) endWord() {
	if s.inWord {
		s.words = append(s.words, string(s.word))
	}
	s.word, s.inWord = nil, false
}

func (s *splitter) endCommand() {
	s.endWord()
	if len(s.words) > 0 {
		s.commands = append(s.commands, s.words)
	}
	s.words = nil
}

// Parse reads one command. write says whether the shell was started with --write; without it, a command that changes
// something fails here, before anything is sent.
func Parse(words []string, write bool) (shellproto.Request, error) {
	op, ok := find(words[0])
	if !ok {
		return shellproto.Request{}, term.NotOneOf("command", words[0], opNames())
	}
	args := words[1:]
	need, limit := bounds(op)
	if op.Faults && len(args) > 0 && (args[0] == "list" || args[0] == "clear") {
		need = 1
	}
	switch {
	case len(args) < need:
		return shellproto.Request{}, term.Usagef("%s: %s missing: must be %s", op.Name,
			term.Many(need-len(args), "argument"), usage(op))
	case len(args) > limit:
		return shellproto.Request{}, term.Usagef("%s: unexpected argument: must be %s", config.Quote(args[limit]), usage(op))
	case op.Writes && !write:
		return shellproto.Request{}, term.WithClass(term.ExitPermission,
			fmt.Errorf("%s: changes the node: must be in a shell that was started with --write", op.Name))
	}
	return shellproto.Request{Version: shellproto.Version, Op: op.Name, Args: args, Write: write && op.Writes}, nil
}

// Next is what may come at one place of a line.
type Next struct {
	Ops  []shellproto.Op // the commands, at the first word
	Kind string          // of live names that complete an argument, or ""
	Of   string          // the word before it, which a key belongs to
	Help string          // the usage of the command, and what it is for
}

// After returns what may follow the whole words of a command.
func After(words []string) Next {
	if len(words) == 0 {
		return Next{Ops: shellproto.Ops, Help: "a command:"}
	}
	op, ok := find(words[0])
	if !ok {
		return Next{Help: config.Quote(words[0]) + ": unknown command: '?' lists them"}
	}
	next, at := Next{Help: usage(op) + ": " + op.Summary}, len(words)-1
	_, limit := bounds(op)
	if at >= limit {
		next.Help += "; nothing more may follow"
	}
	if at < len(op.Args) {
		next.Kind = op.Args[at]
	}
	if next.Kind == shellproto.NamesKey {
		next.Of = words[len(words)-1]
	}
	return next
}

func find(name string) (shellproto.Op, bool) {
	at := slices.IndexFunc(shellproto.Ops, func(op shellproto.Op) bool { return op.Name == name })
	if at < 0 {
		return shellproto.Op{}, false
	}
	return shellproto.Ops[at], true
}

func opNames() []string {
	names := make([]string, 0, len(shellproto.Ops))
	for _, op := range shellproto.Ops {
		names = append(names, op.Name)
	}
	return names
}

// bounds returns how many arguments an operation needs and takes: optional ones have brackets in its usage.
func bounds(op shellproto.Op) (need, limit int) {
	for word := range strings.FieldsSeq(op.Usage) {
		limit++
		if word[0] != '[' {
			need++
		}
	}
	return need, limit
}

func usage(op shellproto.Op) string { return strings.TrimSpace(op.Name + " " + op.Usage) }
