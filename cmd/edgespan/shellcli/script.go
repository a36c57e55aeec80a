package shellcli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"edgespan/cmd/term"
	"edgespan/pubsub/shellproto"
)

// Session is a shell's connection to a daemon, by actor remoting or through a controller.
type Session interface {
	Do(ctx context.Context, r shellproto.Request, each func(shellproto.Frame) error) error
	Close() error
}

// Script is what `edgespan shell -c` runs.
type Script struct {
	Commands string
	Output   string // table, or json: each answer is one line
	Write    bool
}

// scriptOutputs are the values of -o.
var scriptOutputs = []string{"table", "json"}

// Run runs the commands in order and stops at the first that fails. It reads all of them before it sends one: a script
// with a mistake changes nothing.
func (c Script) Run(ctx context.Context, s term.Streams, with Session) error {
	requests, err := c.requests()
	if err != nil {
		return err
	}
	for _, r := range requests {
		if err := c.do(ctx, s, with, r); err != nil {
			return err
		}
	}
	return nil
}

// requests reads the commands.
func (c Script) requests() ([]shellproto.Request, error) {
	if !slices.Contains(scriptOutputs, c.Output) {
		return nil, term.NotOneOf("-o", c.Output, scriptOutputs)
	}
	commands, err := Split(c.Commands)
	if err != nil {
		return nil, err
	}
	if len(commands) == 0 {
		return nil, term.Required("-c", "a command: 'edgespan shell -c tree'")
	}
	var requests []shellproto.Request
	for _, words := range commands {
		r, err := Parse(words, c.Write)
		if err != nil {
			return nil, err
		}
		r.ID = uint64(len(requests) + 1)
		requests = append(requests, r)
	}
	return requests, nil
}

// do runs one command. An answer without an end is not complete, also if the session reports no error.
func (c Script) do(ctx context.Context, s term.Streams, with Session, r shellproto.Request) error {
	ended := false
	err := with.Do(ctx, r, func(f shellproto.Frame) error {
		renderDropped(s, f.Dropped)
		if f.Error != "" {
			ended = true
			return refused(r.Op, f)
		}
		ended = ended || f.End
		if len(f.Data) == 0 {
			return nil
		}
		if c.Output == "json" {
			_, err := fmt.Fprintf(s.Out, "%s\n", term.EscapeJSON(f.Data))
			return err
		}
		return render(s.Out, s.Color, r.Op, f.Data)
	})
	switch {
	case errors.Is(err, context.Canceled):
		return nil // a stream ends so
	case err == nil && !ended:
		return term.WithClass(term.ExitPartial, fmt.Errorf("%s: answer without an end: the daemon went away", r.Op))
	}
	return err
}
