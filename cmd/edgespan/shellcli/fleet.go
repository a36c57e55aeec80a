package shellcli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/shellproto"
)

// maxLineOfNode bounds one frame that comes through a controller: the node may be hostile.
const maxLineOfNode = 2 << 20

// remote is a session with a node of a fleet, through its controller.
type remote struct {
	client *fleetapi.Client
	node   string
}

func (r remote) Do(ctx context.Context, q shellproto.Request, each func(shellproto.Frame) error) error {
	in, out := io.Pipe()
	asked := make(chan error, 1)
	go func() {
		err := r.client.Shell(ctx, r.node, fleetapi.ShellCommand{Op: q.Op, Args: q.Args, Write: q.Write}, out)
		asked <- err
		out.CloseWithError(err) // nil: io.EOF
	}()
	err := frames(in, each)
	in.CloseWithError(io.ErrClosedPipe) // a request that goes on has no reader any more
	failed := <-asked
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !errors.Is(err, failed):
		return err
	}
	var p *fleetapi.Problem
	if errors.As(failed, &p) && p.Type == rest.TypeNoRoute {
		return errors.New("shell: not supported by the controller's version: run 'edgespan shell' on the node")
	}
	if errors.Is(failed, io.ErrClosedPipe) {
		return nil // after the end
	}
	return failed
}

// frames reads frames, one a line, until the last one.
func frames(from io.Reader, each func(shellproto.Frame) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLineOfNode)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var f shellproto.Frame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return fmt.Errorf("answer of the node: not understood: %w", err)
		}
		if err := each(f); err != nil || f.End {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("answer of the node: %w", err)
	}
	return nil
}

func (r remote) Close() error {
	r.client.Close()
	return nil
}

// dialFleet returns a session with a node through the controller.
func dialFleet(client *fleetapi.Client, err error, node string) (Session, error) {
	if err != nil {
		return nil, err
	}
	if node == "" {
		return nil, term.Required("--node", "the name of a node")
	}
	return remote{client, node}, nil
}
