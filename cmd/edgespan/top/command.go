package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/tty"
)

// lookTimeout bounds one look at the daemon: a frozen one must not freeze the screen.
const lookTimeout = 2 * time.Second

// defaultInterval is the time between two looks at the daemon.
const defaultInterval = 2 * time.Second

// The size of a terminal that does not say its own.
const (
	defaultWidth, defaultHeight = 80, 24
	maxSize                     = 1000
)

// options are the flags of top.
type options struct {
	once, ascii bool
	interval    time.Duration
}

// New returns the command top.
func New(a *reach.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Show ports, networks, apps and actors of this node, refreshed",
		Example: "  edgespan top\n  edgespan top --once",
		Long: `top shows ports with their latency, networks, apps and the daemon's actors, what needs attention
first. On a terminal, ? lists its keys: move, filter, sort, explain an object, and see its events.
It refreshes until q or Ctrl-C ends it. A daemon that does not answer is shown as
such, above what it said last. The size of the screen is the terminal's, else that of COLUMNS and
LINES, else 80 x 24; --once prints one frame of any height.`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.interval < 100*time.Millisecond {
				return term.Invalid("--interval", o.interval, "100ms or longer")
			}
			return run(cmd.Context(), a, o)
		},
	}
	cmd.Flags().BoolVar(&o.once, "once", false, "print one frame and exit")
	cmd.Flags().BoolVar(&o.ascii, "ascii", false, "draw without UTF-8")
	cmd.Flags().DurationVar(&o.interval, "interval", defaultInterval, "time between two looks at the daemon")
	return cmd
}

// Run shows the screen of this node until a key ends it.
func Run(ctx context.Context, a *reach.App) error {
	return run(ctx, a, options{interval: defaultInterval})
}

func run(ctx context.Context, a *reach.App, o options) error {
	c := a.Client()
	defer c.Close()
	if o.once {
		var m Model
		s := look(ctx, c)
		if s.Err != nil {
			return s.Err
		}
		m.Add(s)
		width, _ := screenOf(a)
		_, err := fmt.Fprintln(a.Out, strings.Join(m.Lines(width, maxSize, o.ascii), "\n"))
		return err
	}
	out, isFile := a.Out.(*os.File)
	if isFile && !tty.Is(out) {
		return term.Usagef("stdout: no terminal: must be one, or use --once")
	}
	if isFile {
		// Another screen, without a cursor: what was on the terminal comes back at the end.
		_, _ = fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
		defer func() { _, _ = fmt.Fprint(out, "\x1b[?25h\x1b[?1049l") }()
	}
	keys, more, restore := keysOf(a.In)
	defer restore()
	return follow(ctx, a, c, o, keys, more)
}

// keysOf returns the keys that are typed, what asks for another one, and what makes the terminal as it was. Without a
// terminal there are none.
func keysOf(in io.Reader) (keys <-chan rune, more chan<- struct{}, restore func()) {
	f, ok := in.(*os.File)
	if !ok || !tty.Is(f) {
		return nil, nil, func() {}
	}
	before, err := xterm.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, nil, func() {}
	}
	typed, asked := make(chan rune), make(chan struct{}, 1)
	go readKeys(f, typed, asked)
	return typed, asked, func() {
		close(asked)
		_ = xterm.Restore(int(f.Fd()), before)
	}
}

// follow shows the node until q or an interrupt ends it. Looks run beside it: a daemon that does not answer delays no
// key.
func follow(ctx context.Context, a *reach.App, c *nodeapi.Client, o options, keys <-chan rune,
	more chan<- struct{}) error {
	var m Model
	var s Screen
	looks, texts := make(chan Sample, 1), make(chan Text, 16)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // interrupted, which is how top ends
		case <-next.C:
			go func() { looks <- look(ctx, c) }()
			continue
		case sample := <-looks:
			if ctx.Err() != nil {
				return nil
			}
			m.Add(sample)
			next.Reset(o.interval)
		case t := <-texts:
			if s.IsWaiting() { // the person has not gone back meanwhile
				s.Show(t)
			}
		case key, open := <-keys:
			if !open {
				return nil // the terminal is gone
			}
			ask := s.Key(key, &m)
			if ask.Quit {
				return nil
			}
			if ask.Kind != "" || ask.Events {
				s.Show(Text{Title: waiting})
				go func(seen Model) { texts <- textOf(ctx, c, &seen, ask) }(m)
			}
			more <- struct{}{}
		}
		width, height := screenOf(a) // it may have been resized
		lines := s.Lines(&m, width, height, o.ascii)
		if keys == nil {
			lines = m.Lines(width, height-1, o.ascii)
		}
		if _, err := fmt.Fprint(a.Out, paint(lines)); err != nil {
			return fmt.Errorf("write screen: %w", err)
		}
	}
}

// look asks the daemon once. A list that is incomplete counts: top is for nodes that are not well.
func look(ctx context.Context, c *nodeapi.Client) Sample {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s := Sample{At: time.Now(), Items: map[string][]nodeapi.Resource{}}
	for _, kind := range Kinds {
		items, err := c.List(ctx, kind)
		if err != nil && !errors.As(err, new(*rest.Incomplete)) {
			return Sample{At: s.At, Err: err}
		}
		s.Items[kind] = items
	}
	return s
}

// paint writes over the screen in place: each line clears only its own rest, so that nothing flickers.
func paint(lines []string) string {
	return "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J"
}

// screenOf returns the columns and lines of the screen.
func screenOf(a *reach.App) (width, height int) {
	if f, ok := a.Out.(*os.File); ok {
		if w, h, ok := tty.Size(f); ok {
			return min(w, maxSize), min(h, maxSize)
		}
	}
	return size(a.Env("COLUMNS"), defaultWidth), size(a.Env("LINES"), defaultHeight)
}

// size reads a size of the terminal from the environment.
func size(text string, fallback int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 || n > maxSize {
		return fallback
	}
	return n
}
