package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/tty"
)

// lookTimeout bounds one look at the daemon: a frozen one must not freeze the screen.
const lookTimeout = 2 * time.Second

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
first. It refreshes until interrupted (Ctrl-C). A daemon that does not answer is shown as
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
	cmd.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between two looks at the daemon")
	return cmd
}

func run(ctx context.Context, a *reach.App, o options) error {
	c := a.Client()
	defer c.Close()
	var m Model
	width, height := screenOf(a)
	if o.once {
		s := look(ctx, c)
		if s.Err != nil {
			return s.Err
		}
		m.Add(s)
		_, err := fmt.Fprintln(a.Out, strings.Join(m.Lines(width, maxSize, o.ascii), "\n"))
		return err
	}
	if f, ok := a.Out.(*os.File); ok {
		if !tty.Is(f) {
			return term.Usagef("stdout: no terminal: must be one, or use --once")
		}
		// Another screen, without a cursor: what was on the terminal comes back at the end.
		_, _ = fmt.Fprint(f, "\x1b[?1049h\x1b[?25l")
		defer func() { _, _ = fmt.Fprint(f, "\x1b[?25h\x1b[?1049l") }()
	}
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for {
		s := look(ctx, c)
		if ctx.Err() != nil {
			return nil // interrupted, which is how top ends
		}
		m.Add(s)
		width, height = screenOf(a) // it may have been resized
		if _, err := fmt.Fprint(a.Out, paint(m.Lines(width, height-1, o.ascii))); err != nil {
			return fmt.Errorf("write screen: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
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
	return "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\r\n\x1b[J"
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
