package shellcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	xterm "golang.org/x/term"

	"edgespan/cmd/term"
	"edgespan/platform/tty"
	"edgespan/pubsub/shellproto"
)

// nameTimeout bounds how long a completion waits for live names.
const nameTimeout = time.Second

// prompts say whether the shell may change something.
const (
	readPrompt  = "edgespan> "
	writePrompt = "edgespan# "
)

// interact reads commands from the terminal until its end. top shows this node's screen, nil if it is another node.
func interact(ctx context.Context, s term.Streams, with Session, c Script, top func(context.Context) error) error {
	// Ctrl-C ends a command, not the shell.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	in, out := s.In.(*os.File), s.Out.(*os.File)
	prompt := readPrompt
	if c.Write {
		prompt = writePrompt
	}
	screen := xterm.NewTerminal(readWriter{in, out}, prompt)
	screen.History = openHistory(s.Env)
	e := &editor{screen: screen, with: with}
	screen.AutoCompleteCallback = e.key
	s.Printf("? shows what may come next, Tab completes, exit ends")
	for ctx.Err() == nil {
		line, err := readLine(in, out, screen)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the terminal: %w", err)
		}
		switch words := strings.Fields(line); {
		case len(words) == 0:
		case words[0] == "exit" || words[0] == "quit":
			return nil
		case words[0] == "top" && top != nil:
			if err := top(ctx); err != nil {
				s.Report(err)
			}
		case words[0] == "help":
			_, _ = fmt.Fprint(s.Out, help())
		default:
			c.Commands = line
			if err := runLine(ctx, s, with, c); err != nil {
				s.Report(err)
				if term.ExitCode(err) == term.ExitUnreachable {
					return err
				}
			}
		}
	}
	return nil
}

type readWriter struct {
	io.Reader
	io.Writer
}

// readLine reads one line with editing. The terminal is raw only meanwhile.
func readLine(in, out *os.File, screen *xterm.Terminal) (string, error) {
	before, err := xterm.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = xterm.Restore(int(in.Fd()), before) }()
	if width, height, ok := tty.Size(out); ok && width > 0 {
		_ = screen.SetSize(width, height) // its error is that of writing
	}
	return screen.ReadLine()
}

// runLine runs the commands of a line until they end, or Ctrl-C ends them.
func runLine(ctx context.Context, s term.Streams, with Session, c Script) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	return c.Run(ctx, s, with)
}

// editor completes lines and shows what may come next.
type editor struct {
	screen io.Writer
	with   Session
}

// key handles one key: Tab and ? are its own.
func (e *editor) key(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' && key != '?' {
		return "", 0, false
	}
	before := line[:pos]
	words, word, open := lastWord(before)
	if open {
		return "", 0, false // within quotes, both are text
	}
	next := After(words)
	choices := e.choices(next)
	if key == '?' {
		_, _ = fmt.Fprint(e.screen, helpOf(next, choices, word))
		return line, pos, true
	}
	fits := slices.DeleteFunc(choices, func(c string) bool { return !strings.HasPrefix(c, word) })
	if len(fits) == 0 {
		return line, pos, true
	}
	grown := commonPrefix(fits)
	if len(fits) == 1 {
		grown += " "
	} else if grown == word {
		_, _ = fmt.Fprintln(e.screen, strings.Join(shown(fits), "  "))
	}
	line = before[:len(before)-len(word)] + grown + line[pos:]
	return line, pos - len(word) + len(grown), true
}

// maxShown is how many choices are listed.
const maxShown = 60

func shown(all []string) []string {
	out := make([]string, 0, len(all))
	for _, c := range all[:min(maxShown, len(all))] {
		out = append(out, term.Printable(c))
	}
	if len(all) > maxShown {
		out = append(out, fmt.Sprintf("… %d more", len(all)-maxShown))
	}
	return out
}

// lastWord returns the whole words of the last command of a line, and the word that is being typed; open reports that
// it is within quotes.
func lastWord(line string) (words []string, word string, open bool) {
	var s splitter
	for _, r := range line {
		if s.read(r) != nil {
			return nil, "", true
		}
	}
	return s.words, string(s.word), s.quote != 0 || s.comment
}

func commonPrefix(all []string) string {
	prefix := all[0]
	for _, c := range all[1:] {
		for !strings.HasPrefix(c, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return strings.ToValidUTF8(prefix, "")
}

// choices returns what may come next: commands, or live names of the daemon.
func (e *editor) choices(next Next) []string {
	var out []string
	for _, op := range next.Ops {
		if op.Name != "names" { // it is for programs
			out = append(out, op.Name)
		}
	}
	if next.Ops != nil {
		out = append(out, "exit", "help")
	}
	if next.Kind == "" {
		return out
	}
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	r := shellproto.Request{Op: "names", Args: []string{next.Kind, next.Of}}
	_ = e.with.Do(ctx, r, func(f shellproto.Frame) error { // without an answer nothing is completed
		var names []string
		if json.Unmarshal(f.Data, &names) == nil {
			for _, n := range names {
				out = append(out, quoteWord(n))
			}
		}
		return nil
	})
	return out
}

// quoteWord returns a word as it must be typed.
func quoteWord(word string) string {
	if strings.ContainsAny(word, " \t;#'\"") {
		quote := "'"
		if strings.Contains(word, quote) {
			quote = `"` // a name with both kinds can't be typed
		}
		return quote + word + quote
	}
	return word
}

// help returns the table of commands.
func help() string {
	var b strings.Builder
	for _, op := range shellproto.Ops {
		if op.Name != "names" {
			writeHelp(&b, usage(op), op.Summary)
		}
	}
	writeHelp(&b, "top", "the screen of this node, with its own keys")
	writeHelp(&b, "exit", "")
	return b.String()
}

// helpColumn is where summaries begin: a screen may have 80 columns.
const helpColumn = 25

func writeHelp(b *strings.Builder, usage, summary string) {
	if len(usage) >= helpColumn {
		fmt.Fprintf(b, "  %s\n", usage)
		usage = ""
	}
	b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s%s", helpColumn, usage, summary), " ") + "\n")
}

// helpOf returns what ? shows.
func helpOf(next Next, choices []string, word string) string {
	if next.Ops != nil && word == "" {
		return help()
	}
	out := term.Printable(next.Help) + "\n"
	fits := slices.DeleteFunc(choices, func(c string) bool { return !strings.HasPrefix(c, word) })
	if len(fits) > 0 {
		out += "  " + strings.Join(shown(fits), "  ") + "\n"
	}
	return out
}
